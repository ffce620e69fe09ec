// What an orbit plot is given, and what every one of its forms gives back.

import type { Axis, Layout } from "../types";
import type { Stage } from "./stage";

/** One model's values at every element, (K,), with their band where samples were averaged. */
export interface Curve {
  model: string;
  colour: string;
  values: Float32Array;
  low?: Float32Array;
  high?: Float32Array;
  live?: { at: number[]; value: number };
}

/** An orbit to draw. Arrays are compared by identity: hand over the same ones while only the cursor moves. */
export interface OrbitData {
  layout: Layout;
  axes: Axis[];
  coordinates: number[][];
  identity: number;
  elements: string[];
  curves: Curve[];
  range: [number, number];
  higherIsBetter: boolean;
  cursor: number[] | null;
  /** Places that are marked by a letter: on every panel, or on that of one curve, in its colour. */
  marks?: { name: string; at: number[]; curve?: number }[];
  metric: string;
  /** Whether the metric goes from 0 to 1. */
  share?: boolean;
  tiles?: { model: string; maps: Float32Array; side: number }[];
  tileRange?: [number, number];
  compact?: boolean;
}

/** A place of the stage as a point of the orbit, on the panel of one model (0 where all share one). */
export interface Place {
  at: number[];
  panel: number;
}

/** A drawn form: it can still move its cursor and tell which point of the orbit lies under the pointer. */
export interface Drawn {
  cursor(at: number[] | null, curves: Curve[]): void;
  /** Where a point of the orbit lies on the stage: once, or once a panel. */
  spots(at: number[]): [number, number][];
  locate(x: number, y: number, held: number | null): Place | null;
}

export type Form = (stage: Stage, data: OrbitData) => Drawn;
