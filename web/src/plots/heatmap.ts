// An orbit of shifts as a heat map a model: dx to the right, dy down, one cell an element.

import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { valuePixels } from "../colour";
import { svg } from "../dom";
import type { Drawn, OrbitData } from "./data";
import { settled } from "./grid";
import { caption, colourBar, heading, inside, metricTitle, packedSquares, type Margins, type Rect } from "./panels";
import { identityMark, pixelCanvas, ruler, type Stage } from "./stage";

const MARGINS: Margins = [28, 0, 8, 18];

/** The grid of one axis: its values in order, and half a cell beyond the first and the last. */
function gridOf(data: OrbitData, axis: number): { places: number[]; span: [number, number] } {
  const places = [...new Set(data.coordinates.map((place) => place[axis]))].sort((a, b) => a - b);
  const half = data.axes[axis].step / 2;
  return { places, span: [places[0] - half, places[places.length - 1] + half] };
}

export function drawHeatmap(stage: Stage, data: OrbitData): Drawn {
  const [across, down] = [gridOf(data, 0), gridOf(data, 1)];
  const [columns, rows] = [across.places.length, down.places.length];
  const cells = data.coordinates.map(([dx, dy]) => down.places.indexOf(dy) * columns + across.places.indexOf(dx));
  const packing = packedSquares(stage, data, MARGINS);
  const panels = packing.squares.map((square) => ({
    square,
    x: scaleLinear(across.span, [square.x, square.x + square.width]),
    y: scaleLinear(down.span, [square.y, square.y + square.height]),
  }));
  type Panel = (typeof panels)[number];

  data.curves.forEach(({ model, colour, values }, index) => {
    const panel = panels[index];
    paint(panel.square, values);
    const [dx, dy] = data.coordinates[data.identity];
    stage.base.append(svg("rect", { class: "plot-rim", ...panel.square }), identityMark(panel.x(dx), panel.y(dy), 4));
    if (data.compact) return;
    heading(stage, [model], colour, panel.square.x, panel.square.y - 6, panel.square.width);
    axes(panel, index);
  });
  if (!data.compact) {
    const [horizontal, vertical] = data.axes.map(({ label, unit }) => (unit ? `${label} (${unit})` : label));
    caption(stage, `→ ${horizontal}, ↓ ${vertical}`);
    colourBar(stage, data.range, metricTitle(data));
  }

  function paint({ x, y, width, height }: Rect, values: Float32Array): void {
    const grid = new Float32Array(columns * rows).fill(NaN);
    cells.forEach((cell, index) => (grid[cell] = values[index]));
    stage.hatched(x, y, width, height);
    stage.context.imageSmoothingEnabled = false;
    stage.context.drawImage(pixelCanvas(columns, rows, valuePixels(grid, data.range)), x, y, width, height);
  }

  /** Ticks to the left of the first column and below the last map of every one. */
  function axes(panel: Panel, index: number): void {
    const { x, y, width, height } = panel.square;
    const ticks = Math.max(2, Math.floor(width / 40));
    if (index + packing.columns >= panels.length) stage.base.append(ruler(axisBottom<number>(panel.x).ticks(ticks).tickSize(3), 0, y + height));
    if (index % packing.columns === 0) stage.base.append(ruler(axisLeft<number>(panel.y).ticks(ticks).tickSize(3), x, 0));
  }

  return {
    cursor(at) {
      stage.overlay.replaceChildren();
      if (!at) return;
      for (const { square, x, y } of panels) {
        const [width, height] = [Math.max(6, square.width / columns), Math.max(6, square.height / rows)];
        const place = { x: x(at[0]) - width / 2, y: y(at[1]) - height / 2, width, height };
        stage.overlay.append(svg("rect", { class: "plot-cell-under", ...place }), svg("rect", { class: "plot-cell", ...place }));
      }
    },
    spots: ([dx, dy]) => panels.map(({ x, y }) => [x(dx), y(dy)]),
    locate(px, py, held) {
      const index = held ?? panels.findIndex(({ square }) => inside(square, px, py));
      if (index < 0) return null;
      const { x, y } = panels[index];
      const within = (value: number, axis: number): number => Math.min(data.axes[axis].high, Math.max(data.axes[axis].low, value));
      return { at: [settled(data.axes[0], within(x.invert(px), 0)), settled(data.axes[1], within(y.invert(py), 1))], panel: index };
    },
  };
}
