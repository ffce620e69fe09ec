// Numbers of the views from the stored values, an (N, K) array of one metric of one model: typed arrays, undefined (NaN) left out.

const NORMAL = 1.959964;

export interface Aggregate {
  mean: Float32Array;
  low: Float32Array;
  high: Float32Array;
  /** The mean over the samples and the orbit. */
  overall: number;
}

/** The mean over samples at each of the K elements, with a 95 % normal band: mean -+ 1.96 sd / sqrt(n), within `bounds`. */
export function aggregate(values: Float32Array, K: number, samples: Int32Array, bounds: [number, number]): Aggregate {
  const n = new Int32Array(K);
  const sum = new Float64Array(K);
  const squares = new Float64Array(K);
  for (const sample of samples) {
    const start = sample * K;
    for (let k = 0; k < K; k++) {
      const value = values[start + k];
      if (value !== value) continue;
      n[k]++;
      sum[k] += value;
      squares[k] += value * value;
    }
  }
  const found = { mean: new Float32Array(K), low: new Float32Array(K), high: new Float32Array(K), overall: NaN };
  let total = 0;
  let many = 0;
  for (let k = 0; k < K; k++) {
    const mean = sum[k] / n[k];
    const variance = Math.max(0, squares[k] - n[k] * mean * mean) / (n[k] - 1);
    const half = n[k] > 1 ? NORMAL * Math.sqrt(variance / n[k]) : NaN;
    found.mean[k] = mean;
    found.low[k] = Math.max(bounds[0], mean - half);
    found.high[k] = Math.min(bounds[1], mean + half);
    total += sum[k];
    many += n[k];
  }
  found.overall = total / many;
  return found;
}

/** Mean and variance of each sample's own orbit: (N,) each. */
export function moments(values: Float32Array, K: number): { mean: Float32Array; variance: Float32Array } {
  const N = values.length / K;
  const found = { mean: new Float32Array(N), variance: new Float32Array(N) };
  for (let i = 0; i < N; i++) {
    let n = 0;
    let sum = 0;
    for (let k = i * K; k < (i + 1) * K; k++) {
      if (values[k] !== values[k]) continue;
      n++;
      sum += values[k];
    }
    const mean = sum / n;
    let squares = 0;
    for (let k = i * K; k < (i + 1) * K; k++) if (values[k] === values[k]) squares += (values[k] - mean) ** 2;
    found.mean[i] = mean;
    found.variance[i] = squares / n;
  }
  return found;
}

/** The mean of several models' numbers of each sample; a model without one is left out. */
export function across(models: Float32Array[]): Float32Array {
  const found = new Float32Array(models[0]?.length ?? 0);
  for (let i = 0; i < found.length; i++) {
    let n = 0;
    let sum = 0;
    for (const one of models) {
      if (one[i] !== one[i]) continue;
      n++;
      sum += one[i];
    }
    found[i] = sum / n;
  }
  return found;
}

/** The samples from the smallest value to the largest; undefined ones last. */
export function ranked(samples: Int32Array, value: Float32Array): Int32Array {
  return samples.slice().sort((a, b) => {
    const x = value[a] === value[a] ? value[a] : Infinity;
    const y = value[b] === value[b] ? value[b] : Infinity;
    return x === y ? a - b : x - y;
  });
}

/** Least and greatest of what is defined; [0, 1] where nothing is. */
export function extent(...arrays: ArrayLike<number>[]): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const array of arrays) {
    for (let i = 0; i < array.length; i++) {
      if (array[i] < low) low = array[i];
      if (array[i] > high) high = array[i];
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

/** The range of a metric's axis: its bounds where it has them, else what the arrays reach. */
export function axisRange(low: number | null, high: number | null, ...arrays: ArrayLike<number>[]): [number, number] {
  if (low !== null && high !== null) return [low, high];
  const found = extent(...arrays);
  const range: [number, number] = [low ?? found[0], high ?? found[1]];
  return range[1] > range[0] ? range : [range[0], range[0] + 1];
}
