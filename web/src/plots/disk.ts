// Rotations about the axes of a plane as a disk a model: the polar angle is the axis, the radius the angle of rotation.

import { valuePixels } from "../colour";
import { svg } from "../dom";
import type { Drawn, OrbitData } from "./data";
import { nearest, settled } from "./grid";
import { caption, colourBar, heading, metricTitle, packedSquares, type Margins, type Rect } from "./panels";
import { identityMark, label, pixelCanvas, type Stage } from "./stage";

const MARGINS: Margins = [28, 14, 28, 24];
const CLOSE: Margins = [2, 0, 2, 2];
const DEGREES = 180 / Math.PI;
/** There opposite directions are the same rotation. */
const HALF_TURN = 180;
/** Disks that are smaller have no room for numbers. */
const ROOMY = 84;

const known = new WeakMap<number[][], Map<number, Int32Array>>();

/** The element of every pixel of a disk this many pixels wide, -1 outside of it; found once. */
function sectorsOf(data: OrbitData, side: number): Int32Array {
  const sizes = known.get(data.coordinates) ?? new Map<number, Int32Array>();
  const found = sizes.get(side) ?? sectors(data, side);
  known.set(data.coordinates, sizes.set(side, found));
  return found;
}

function sectors(data: OrbitData, side: number): Int32Array {
  const [direction, angle] = data.axes;
  const [columns, rows] = [Math.round((direction.period ?? 360) / direction.step), Math.round(angle.high / angle.step) + 1];
  const table = Int32Array.from({ length: columns * rows }, (_, cell) =>
    nearest(data, [(cell % columns) * direction.step, Math.floor(cell / columns) * angle.step]),
  );
  const found = new Int32Array(side * side).fill(-1);
  const most = rows - 0.5;
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const [right, up] = [x + 0.5 - side / 2, side / 2 - y - 0.5];
      const ring = Math.round((Math.hypot(right, up) / (side / 2)) * most);
      const turn = Math.round((Math.atan2(up, right) * DEGREES) / direction.step);
      if (ring < rows) found[y * side + x] = table[ring * columns + ((turn + columns) % columns)];
    }
  }
  return found;
}

export function drawDisk(stage: Stage, data: OrbitData): Drawn {
  const [direction, angle] = data.axes;
  const most = angle.high + angle.step / 2;
  const several = data.curves.length > 1;
  const { squares } = packedSquares(stage, data, several ? CLOSE : MARGINS, true);
  const middle = ({ x, y, width }: Rect): [number, number] => [x + width / 2, y + width / 2];
  const point = (square: Rect, [at, far]: number[], beyond = 0): [number, number] => {
    const [x, y] = middle(square);
    const radius = ((square.width / 2) * far) / most + beyond;
    return [x + radius * Math.cos(at / DEGREES), y - radius * Math.sin(at / DEGREES)];
  };

  const pixels = Math.round((squares[0]?.width ?? 0) * (window.devicePixelRatio || 1));
  const elements = sectorsOf(data, pixels);
  data.curves.forEach(({ model, colour, values }, panel) => {
    const square = squares[panel];
    paint(square, values);
    stage.base.append(svg("circle", { class: "plot-rim", cx: middle(square)[0], cy: middle(square)[1], r: square.width / 2 }));
    stage.base.append(identityMark(...middle(square), 4));
    if (data.compact) return;
    heading(stage, [model], colour, square.x, square.y - (several ? 6 : 22), square.width);
    scales(square);
  });
  if (!data.compact) {
    caption(stage, `around: ${direction.label}, outwards: ${angle.label}`, "around: axis, outwards: angle");
    colourBar(stage, data.range, metricTitle(data));
  }

  function paint(square: Rect, values: Float32Array): void {
    const shown = Float32Array.from(elements, (index) => (index < 0 ? NaN : values[index]));
    stage.context.save();
    stage.context.beginPath();
    stage.context.arc(...middle(square), square.width / 2, 0, 2 * Math.PI);
    stage.context.clip();
    stage.hatched(square.x, square.y, square.width, square.width);
    stage.context.drawImage(pixelCanvas(pixels, pixels, valuePixels(shown, data.range)), square.x, square.y, square.width, square.width);
    stage.context.restore();
  }

  function scales(square: Rect): void {
    const [cx, cy] = middle(square);
    if (square.width < ROOMY) return;
    for (let spoke = 0; spoke < 360; spoke += several ? 90 : 45) {
      const [x, y] = point(square, [spoke, most], several ? (spoke % 180 ? -11 : -5) : 14);
      const anchor = several && spoke % 180 === 0 ? (spoke ? "start" : "end") : "middle";
      stage.base.append(label(several ? "plot-tick plot-over" : "plot-tick plot-halo", x, y + 4, `${spoke}°`, anchor));
    }
    for (const ring of several ? [90] : [45, 90, 135]) {
      const [x, y] = point(square, [67.5, ring]);
      stage.base.append(svg("circle", { class: "plot-ring", cx, cy, r: ((square.width / 2) * ring) / most }));
      stage.base.append(label("plot-tick plot-over", x, y + 4, `${ring}°`));
    }
  }

  return {
    cursor(at) {
      stage.overlay.replaceChildren();
      if (!at) return;
      for (const square of squares) {
        const [[cx, cy], [x1, y1], [x2, y2]] = [point(square, at), middle(square), point(square, [at[0], most])];
        stage.overlay.append(svg("line", { class: "plot-cursor plot-faint", x1, y1, x2, y2 }));
        const [fx, fy] = point(square, [at[0] + HALF_TURN, at[1]]);
        const same = ["plot-cell-under", "plot-cell plot-faint"].map((kind) => svg("circle", { class: kind, cx: fx, cy: fy, r: 5 }));
        if (at[1] === HALF_TURN) stage.overlay.append(...same);
        stage.overlay.append(svg("circle", { class: "plot-cell-under", cx, cy, r: 6 }), svg("circle", { class: "plot-cell", cx, cy, r: 6 }));
      }
    },
    spots: (at) => squares.map((square) => point(square, at)),
    locate(px, py, held) {
      const far = (square: Rect): number => Math.hypot(px - middle(square)[0], py - middle(square)[1]) / (square.width / 2);
      const panel = held ?? squares.findIndex((square) => far(square) <= 1);
      if (panel < 0) return null;
      const [x, y] = middle(squares[panel]);
      const degrees = Math.atan2(y - py, px - x) * DEGREES;
      return { at: [settled(direction, degrees), settled(angle, Math.min(1, far(squares[panel])) * most)], panel };
    },
  };
}
