// Shifts and angles as one slice of each per model: a heat map of all shifts at the chosen angle, and below it all angles at the chosen shift.

import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { valuePixels } from "../colour";
import { svg } from "../dom";
import type { Axis } from "../types";
import type { Drawn, OrbitData } from "./data";
import { nearest, settled } from "./grid";
import { caption, colourBar, heading, inside, metricTitle, packedSquares, type Margins, type Rect } from "./panels";
import { identityMark, pixelCanvas, ruler, type Stage } from "./stage";

const MARGINS: Margins = [28, 0, 8, 2];
/** What the slice of angles takes of a square: the ticks of the shifts, the slice, and its own ticks. */
const BELOW = 50;
const TICKS = 18;
const STRIP = 12;
const QUARTER = 90;

export function drawSlices(stage: Stage, data: OrbitData): Drawn {
  const { coordinates, curves, axes, compact } = data;
  const [across, down, turn] = axes;
  const places = axes.map((_, axis) => [...new Set(coordinates.map((place) => place[axis]))].sort((a, b) => a - b));
  const [columns, rows, turns] = places.map(({ length }) => length);
  const numbers = new Map(coordinates.map((place, index) => [place.join(), index]));
  const span = (axis: number): [number, number] => [places[axis][0] - axes[axis].step / 2, places[axis][places[axis].length - 1] + axes[axis].step / 2];
  const panels = packedSquares(stage, data, MARGINS).squares.map((square) => {
    const side = compact ? square.width : Math.max(1, square.width - BELOW);
    const map: Rect = { x: square.x + (square.width - side) / 2, y: square.y, width: side, height: side };
    const strip: Rect = { x: square.x, y: square.y + side + TICKS, width: square.width, height: STRIP };
    const [x, y] = [scaleLinear(span(0), [map.x, map.x + side]), scaleLinear(span(1), [map.y, map.y + side])];
    return { map, strip, x, y, angle: scaleLinear(span(2), [strip.x, strip.x + strip.width]) };
  });
  const identity = coordinates[data.identity];
  let current = data.cursor ?? identity;
  /** The element whose slices are painted. */
  let painted = -1;

  panels.forEach(({ map, strip, x, y, angle }, panel) => {
    stage.base.append(svg("rect", { class: "plot-rim", ...map }));
    if (compact) return;
    heading(stage, [curves[panel].model], curves[panel].colour, map.x, map.y - 6, map.width);
    const ticks = Math.max(2, Math.floor(map.width / 40));
    stage.base.append(ruler(axisBottom<number>(x).ticks(ticks).tickSize(3), 0, map.y + map.height), ruler(axisLeft<number>(y).ticks(ticks).tickSize(3), map.x, 0));
    const degrees = axisBottom<number>(angle).tickValues(places[2].filter((value) => value % QUARTER === 0)).tickFormat((value) => `${value}°`);
    stage.base.append(svg("rect", { class: "plot-rim", ...strip }), ruler(degrees.tickSize(3), 0, strip.y + strip.height));
  });
  if (!compact) {
    caption(stage, `map: → ${across.label}, ↓ ${down.label} (${across.unit}); bar: ${turn.label}`, "map: shift (px), bar: angle");
    colourBar(stage, data.range, metricTitle(data));
  }
  paint();

  function paint(): void {
    const index = nearest(data, current);
    if (index === painted) return;
    painted = index;
    const [dx, dy, degrees] = coordinates[index];
    const map = places[1].flatMap((row) => places[0].map((column) => numbers.get([column, row, degrees].join()) ?? -1));
    const strip = places[2].map((one) => numbers.get([dx, dy, one].join()) ?? -1);
    panels.forEach((panel, i) => {
      pixels(panel.map, columns, rows, map.map((one) => curves[i].values[one]));
      if (!compact) pixels(panel.strip, turns, 1, strip.map((one) => curves[i].values[one]));
    });
  }

  function pixels({ x, y, width, height }: Rect, wide: number, high: number, values: number[]): void {
    stage.hatched(x, y, width, height);
    stage.context.imageSmoothingEnabled = false;
    stage.context.drawImage(pixelCanvas(wide, high, valuePixels(values, data.range)), x, y, width, height);
  }

  return {
    cursor(at) {
      current = at ?? identity;
      paint();
      stage.overlay.replaceChildren();
      const [slice, [dx, dy]] = [coordinates[painted], current];
      for (const { map, strip, x, y, angle } of panels) {
        if (slice[2] === identity[2]) stage.overlay.append(identityMark(x(identity[0]), y(identity[1]), 4));
        if (at === null || compact) continue;
        if (slice[0] === identity[0] && slice[1] === identity[1]) stage.overlay.append(identityMark(angle(identity[2]), strip.y + STRIP / 2, 4));
        const [width, height] = [Math.max(6, map.width / columns), Math.max(6, map.height / rows)];
        const wide = strip.width / turns;
        mark({ x: x(dx) - width / 2, y: y(dy) - height / 2, width, height });
        mark({ x: angle(slice[2]) - wide / 2, y: strip.y - 2, width: wide, height: STRIP + 4 });
      }
    },
    spots: ([dx, dy]) => panels.map(({ x, y }) => [x(dx), y(dy)]),
    locate(px, py, held) {
      const found = held ?? panels.flatMap(({ map, strip }) => [map, grown(strip)]).findIndex((room) => inside(room, px, py));
      if (found < 0) return null;
      const { x, y, angle } = panels[Math.floor(found / 2)];
      if (found % 2 === 0) return { at: [within(across, x.invert(px)), within(down, y.invert(py)), current[2]], panel: found };
      return compact ? null : { at: [current[0], current[1], settled(turn, angle.invert(px))], panel: found };
    },
  };

  function mark(cell: Rect): void {
    stage.overlay.append(svg("rect", { class: "plot-cell-under", ...cell }), svg("rect", { class: "plot-cell", ...cell }));
  }
}

function within(axis: Axis, value: number): number {
  return settled(axis, Math.min(axis.high, Math.max(axis.low, value)));
}

/** The slice of angles is thin: fingers may miss it by a little. */
function grown({ x, y, width, height }: Rect): Rect {
  return { x, y: y - 6, width, height: height + TICKS };
}
