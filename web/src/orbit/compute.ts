// Numbers of the views from the stored values, an (N, K) array of one metric of one model: typed arrays, undefined (NaN) left out.

import { normalQuantile, tQuantile } from "./student";

/** Values that differ by at most this share of their scale are equal: rounding in float32. */
const EQUAL = 1e-6;
/** A sample of size n hides skewness: its third cumulant is multiplied by 1 + SKEWNESS / sqrt(n). */
const SKEWNESS = 12;

export interface Aggregate {
  mean: Float32Array;
  low: Float32Array;
  high: Float32Array;
  /** The mean over the samples of their own means along the orbit. */
  overall: number;
}

/**
 * The mean over samples at each of the K elements with its t interval, within `bounds`; the side of the longer tail is extended.
 * These are the numbers of OrbitResult.aggregate (statistics/intervals.py).
 */
export function aggregate(values: Float32Array, K: number, samples: Int32Array, bounds: [number, number], confidence: number): Aggregate {
  const n = new Int32Array(K);
  const mean = new Float64Array(K);
  const squares = new Float64Array(K);
  const cubes = new Float64Array(K);
  const least = new Float64Array(K).fill(Infinity);
  const most = new Float64Array(K).fill(-Infinity);
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
      const step = off / ++n[k];
      const term = off * step * (n[k] - 1);
      cubes[k] += term * step * (n[k] - 2) - 3 * step * squares[k];
      squares[k] += term;
      mean[k] += step;
      if (value < least[k]) least[k] = value;
      if (value > most[k]) most[k] = value;
    }
    if (there === 0) continue;
    total += own / there;
    many++;
  }
  const found = { mean: new Float32Array(K), low: new Float32Array(K), high: new Float32Array(K), overall: total / many };
  const bounded = Number.isFinite(bounds[0]) && Number.isFinite(bounds[1]);
  const scale = bounded ? Math.min(1, Math.max(Math.abs(bounds[0]), Math.abs(bounds[1]))) : 0;
  const further = (1 + 2 * normalQuantile(confidence) ** 2) / 6;
  for (let k = 0; k < K; k++) {
    const apart = most[k] - least[k] > EQUAL * Math.max(scale, Math.abs(least[k]), Math.abs(most[k]));
    const error = apart ? Math.sqrt(squares[k] / (n[k] - 1) / n[k]) : 0;
    const third = ((1 + SKEWNESS / Math.sqrt(n[k])) * cubes[k]) / n[k] ** 3;
    const skewness = error > 0 ? third / error ** 3 : 0;
    const reach = n[k] > 1 ? tQuantile(confidence, n[k] - 1) : NaN;
    found.mean[k] = n[k] > 0 ? mean[k] : NaN;
    found.low[k] = Math.max(bounds[0], mean[k] - error * (reach + further * Math.max(0, -skewness)));
    found.high[k] = Math.min(bounds[1], mean[k] + error * (reach + further * Math.max(0, skewness)));
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

/** For each sample, the largest difference between any two models along its orbit (N,), and the element where it is; NaN and -1 where no element has two. */
export function differences(models: Float32Array[], K: number): { value: Float32Array; element: Int32Array } {
  const N = (models[0]?.length ?? 0) / K;
  const found = { value: new Float32Array(N).fill(NaN), element: new Int32Array(N).fill(-1) };
  for (let i = 0; i < N; i++) {
    let most = -Infinity;
    for (let k = 0; k < K; k++) {
      let [n, low, high] = [0, Infinity, -Infinity];
      for (const values of models) {
        const value = values[i * K + k];
        if (value !== value) continue;
        n++;
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (n < 2 || !(high - low > most)) continue;
      most = high - low;
      found.value[i] = most;
      found.element[i] = k;
    }
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

/** The samples from the smallest value to the largest, or the other way round; undefined ones last. */
export function ranked(samples: Int32Array, value: Float32Array, descending = false): Int32Array {
  const sign = descending ? -1 : 1;
  return samples.slice().sort((a, b) => {
    const x = value[a] === value[a] ? sign * value[a] : Infinity;
    const y = value[b] === value[b] ? sign * value[b] : Infinity;
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
