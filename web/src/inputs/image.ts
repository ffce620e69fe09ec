// An image as the models saw it.

import type { Stage } from "../plots/stage";
import type { InputData } from "./data";
import { turned } from "./moves";
import { drawSheets, explained, raster } from "./sheets";

/** Whether images of these axes are turned here. */
export function turns(axes: InputData["axes"]): boolean {
  return axes.length === 1 && axes[0].name === "angle";
}

/** The moved image; where it is not at hand, a turned image is turned here. */
export function imageOf({ input, moved, shape, axes, at }: InputData): Float32Array | Uint8Array | null {
  if (moved || !input) return moved ?? input;
  return turns(axes) && at[0] !== 0 ? turned(input, shape, at[0]) : input;
}

export function drawImage(stage: Stage, data: InputData): void {
  const bytes = imageOf(data);
  if (!bytes) return;
  const picture = raster(bytes, data.shape);
  drawSheets(stage, [{ title: "input", picture }, ...explained(data.attribution)]);
}
