// A scene and the window that moves over it: what the models do not see is dimmed.

import { svg } from "../dom";
import { pixelCanvas, type Stage } from "../plots/stage";
import type { InputData } from "./data";
import { drawSheets, raster, type Shown } from "./sheets";

/** The corner (left, top) of the window in the scene: at its centre, moved by (dx, dy) whole pixels. */
export function windowCorner([height, width]: number[], window: number, [dx, dy]: number[]): [number, number] {
  return [Math.floor((width - window) / 2) + Math.round(dx), Math.floor((height - window) / 2) + Math.round(dy)];
}

/** What the window shows. */
export function cropOf({ input, shape, window, at }: InputData): HTMLCanvasElement | null {
  if (!input || window === null) return null;
  const [left, top] = windowCorner(shape, window, at);
  const crop = pixelCanvas(window, window);
  crop.getContext("2d")?.drawImage(raster(input, shape), -left, -top);
  return crop;
}

export function drawScene(stage: Stage, data: InputData): void {
  const { input, shape, window, at } = data;
  if (!input || window === null) return;
  const picture = raster(input, shape);
  const [left, top] = windowCorner(shape, window, at);
  const home = windowCorner(shape, window, [0, 0]);
  drawSheets(stage, [{ title: "scene and window", picture }], (shown) => {
    dim(shown);
    const place = ([column, row]: number[]): Record<string, number> => {
      return { x: shown.x + shown.scale * column, y: shown.y + shown.scale * row, width: shown.scale * window, height: shown.scale * window };
    };
    stage.base.append(svg("rect", { class: "window-home", ...place(home) }));
    stage.base.append(svg("rect", { class: "plot-cell-under", ...place([left, top]) }), svg("rect", { class: "plot-cell", ...place([left, top]) }));
  });

  function dim({ x, y, scale }: Shown): void {
    const veil = new Path2D();
    veil.rect(x, y, scale * picture.width, scale * picture.height);
    veil.rect(x + scale * left, y + scale * top, scale * (window ?? 0), scale * (window ?? 0));
    stage.context.fillStyle = stage.theme.surface;
    stage.context.globalAlpha = 0.62;
    stage.context.fill(veil, "evenodd");
    stage.context.globalAlpha = 1;
  }
}
