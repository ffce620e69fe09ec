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
}

const PER_ELEMENT = ["outputs/", "errors/", "consensus_errors/", "quiver/"];

/** What the run stored at element `k`. */
export function stored(meta: Meta, sample: number, k: number, packed: Packed, metrics: LiveMetrics): Moved {
  const arrays = new Map<string, PackedArray>();
  for (const [name, array] of packed.arrays) if (PER_ELEMENT.some((start) => name.startsWith(start))) arrays.set(name, row(array, k));
  return { sample, at: [...meta.coordinates[k]], live: false, arrays, metrics };
}

/** What the models answered. */
export function answered(question: Question, answer: Packed): Moved {
  const metrics = (answer.header.metrics ?? {}) as LiveMetrics;
  return { sample: question.sample, at: question.at, live: true, arrays: answer.arrays, metrics };
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
