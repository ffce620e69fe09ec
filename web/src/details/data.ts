// What a detail view is given, and what every task gives back.

import { number, share } from "../format";
import type { InputData } from "../inputs/data";

/** What every model gives at one point of a sample's orbit; maps go from a model's name. */
export interface DetailData {
  task: string;
  classes: string[];
  models: { name: string; colour: string }[];
  /** The sample's class, where it is known: not the subset that it counts to. */
  trueClass: number | null;
  outputs: Map<string, Float32Array>;
  /** The models that have not answered yet. */
  waiting: ReadonlySet<string>;
  rows: number;
  truth: Float32Array | null;
  consensus: Map<string, Float32Array>;
  /** Whether outputs move along with the input. */
  moves: boolean;
  errors: Map<string, Float32Array>;
  quiver: Map<string, Float32Array>;
  metrics: Map<string, Record<string, number | null>>;
  /** Which of the metrics go from 0 to 1. */
  shares: Set<string>;
  at: number[];
  window: number | null;
  picture: InputData | null;
  errorRange: [number, number];
}

/** A drawn task: what it says of every model in words, and rows of a table where it has more than the metrics. */
export interface Detailed {
  said: Map<string, string>;
  table?: Table;
}

export interface Table {
  heads: string[];
  rows: { model: { name: string; colour: string }; cells: string[] }[];
}

export function nameOf(classes: string[], index: number): string {
  return classes[index] ?? `class ${index}`;
}

/** The metrics of every model at this point. */
export function metricTable({ models, metrics, shares }: DetailData): Table {
  const names = [...new Set([...metrics.values()].flatMap((found) => Object.keys(found)))];
  const rows = models.map((model) => ({ model, cells: names.map((name) => (shares.has(name) ? share : number)(metrics.get(model.name)?.[name])) }));
  return { heads: names.map((name) => name.replaceAll("_", " ")), rows: names.length ? rows : [] };
}
