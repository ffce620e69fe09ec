// Numbers of the views from the stored values, an (N, K) array of one metric of one model: typed arrays, undefined (NaN) left out.

import { tQuantile } from "./student";

export interface Aggregate {
  mean: Float32Array;
  low: Float32Array;
  high: Float32Array;
  /** The mean over the samples of their own means along the orbit. */
  overall: number;
}

/** The mean over samples at each of the K elements with its t interval: mean -+ t_{n-1} sd / sqrt(n), within `bounds`. */
export function aggregate(values: Float32Array, K: number, samples: Int32Array, bounds: [number, number], confidence: number): Aggregate {
  const n = new Int32Array(K);
  const mean = new Float64Array(K);
  const squares = new Float64Array(K);
  let total = 0;
  let many = 0;
  for (const sample of samples) {
    let own = 0;
    let there = 0;
    for (let k = 0; k < K; k++) {
      const value = values[sample * K + k];
      if (!Number.isFinite(value)) continue;
      own += value;
      there++;
      const off = value - mean[k];
      mean[k] += off / ++n[k];
      squares[k] += off * (value - mean[k]);
    }
    if (there === 0) continue;
    total += own / there;
    many++;
  }
  const found = { mean: new Float32Array(K), low: new Float32Array(K), high: new Float32Array(K), overall: total / many };
  for (let k = 0; k < K; k++) {
    const error = Math.sqrt(squares[k] / (n[k] - 1) / n[k]);
    const half = n[k] > 1 ? tQuantile(confidence, n[k] - 1) * error : NaN;
    found.mean[k] = n[k] > 0 ? mean[k] : NaN;
    found.low[k] = Math.max(bounds[0], mean[k] - half);
    found.high[k] = Math.min(bounds[1], mean[k] + half);
  }
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
