import { row } from "../packed";
import type { Question } from "../source";
import type { LiveMetrics, Meta, Packed, PackedArray, Reference } from "../types";

/** One sample at one place of its orbit: what every model gives there. */
export interface Moved {
  sample: number;
  at: number[];
  /** Whether the models were asked; else it is the measured element. */
  live: boolean;
  arrays: Map<string, PackedArray>;
  metrics: LiveMetrics;
  /** By model, the class that is explained and how well the explanation agrees with the expected one. */
  explained: Record<string, { target: number | null; agreement: number | null }>;
}

const PER_ELEMENT = ["outputs/", "errors/", "consensus_errors/", "quiver/"];

/** What the run stored at element `k`. */
export function stored(meta: Meta, sample: number, k: number, packed: Packed, metrics: LiveMetrics): Moved {
  const arrays = new Map<string, PackedArray>();
  for (const [name, array] of packed.arrays) if (PER_ELEMENT.some((start) => name.startsWith(start))) arrays.set(name, row(array, k));
  return { sample, at: [...meta.coordinates[k]], live: false, arrays, metrics, explained: {} };
}

/** What the models answered; a part that comes after others is added to them. */
export function answered(question: Question, answer: Packed, before: Moved | null): Moved {
  const metrics = (answer.header.metrics ?? {}) as LiveMetrics;
  const explained = (answer.header.explained ?? {}) as Moved["explained"];
  const found = { sample: question.sample, at: question.at, live: true, arrays: answer.arrays, metrics, explained };
  if (before === null) return found;
  const arrays = new Map([...before.arrays, ...answer.arrays]);
  return { ...found, arrays, metrics: { ...before.metrics, ...metrics }, explained: { ...before.explained, ...explained } };
}

/** What the error maps are called that are measured by one reference. */
export function errorsBy(reference: Reference): string {
  return reference === "consensus" ? "consensus_errors/" : "errors/";
}

/** A model's metrics by one reference: metric -> value. */
export function byReference(moved: Moved, model: string, reference: Reference): Record<string, number | null> {
  const found = Object.entries(moved.metrics[model] ?? {});
  return Object.fromEntries(found.flatMap(([metric, value]) => (value[reference] === undefined ? [] : [[metric, value[reference] ?? null]])));
}
