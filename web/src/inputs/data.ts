// What an input view is given.

import type { Axis } from "../types";

/** A model's attribution of the moved input, or the one that is expected there, with what is said of it. */
export interface Attribution {
  model: string;
  title: string;
  /** The title in ever fewer words. */
  shorter: string[];
  colour: string;
  map: Float32Array;
  height: number;
  width: number;
}

/** A sample and where it is moved to. `moved` is what the models saw, where that is known; without `input`, `absent` says why. */
export interface InputData {
  kind: string;
  shape: number[];
  input: Float32Array | Uint8Array | null;
  moved: Float32Array | Uint8Array | null;
  window: number | null;
  axes: Axis[];
  plane: string | null;
  at: number[];
  title: string;
  absent?: string;
  attribution?: Attribution[];
}
