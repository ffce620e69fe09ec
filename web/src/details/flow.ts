// A flow at one transform: every model's end-point error in each pixel, and its arrows over the true ones.

import { valuePixels } from "../colour";
import { el, svg } from "../dom";
import { number } from "../format";
import { movedField } from "../inputs/moves";
import { BAR, colourBar, heading, rooms, squareIn, type Margins, type Rect } from "../plots/panels";
import { pixelCanvas, type Stage } from "../plots/stage";
import type { DetailData, Detailed } from "./data";
import { swatch } from "./words";

const REACH = 1.4;
const ROOMY = 16;
const MARGINS: Margins = [2, 18, 2, 2];

/** The length of the longest arrow of some fields (2, side, side). */
function longest(fields: (Float32Array | null)[]): number {
  let most = 0;
  for (const field of fields) {
    const half = (field?.length ?? 0) / 2;
    for (let i = 0; field && i < half; i++) most = Math.max(most, Math.hypot(field[i], field[half + i]) || 0);
  }
  return most;
}

function meanOf(values: Float32Array | undefined): number {
  const known = (values ?? new Float32Array()).filter((value) => !Number.isNaN(value));
  return known.reduce((sum, value) => sum + value, 0) / known.length;
}

/** Arrows of a field (2, side, side) in pixels of a square, cut at its edges; one as long as `most` spans a little more than its cell. */
function arrows(stage: Stage, square: Rect, field: Float32Array, most: number, colour: string, width: number): void {
  const side = Math.round(Math.sqrt(field.length / 2));
  const every = Math.max(1, Math.ceil((ROOMY * side) / square.width));
  const first = Math.floor(every / 2);
  const cell = square.width / side;
  const scale = most > 0 ? (REACH * every * cell) / most : 0;
  stage.context.save();
  stage.context.beginPath();
  stage.context.rect(square.x, square.y, square.width, square.height);
  stage.context.clip();
  stage.context.strokeStyle = colour;
  stage.context.lineWidth = width;
  stage.context.beginPath();
  for (let i = 0; i < side * side; i++) {
    const [u, v] = [scale * field[i], scale * field[side * side + i]];
    if (Number.isNaN(u + v) || (i % side) % every !== first || Math.floor(i / side) % every !== first) continue;
    const [x, y] = [square.x + ((i % side) + 0.5) * cell - u / 2, square.y + (Math.floor(i / side) + 0.5) * cell - v / 2];
    const [back, turn, head] = [Math.atan2(-v, -u), 0.45, Math.min(3.5, 0.35 * Math.hypot(u, v))];
    stage.context.moveTo(x, y);
    stage.context.lineTo(x + u, y + v);
    stage.context.lineTo(x + u + head * Math.cos(back + turn), y + v + head * Math.sin(back + turn));
    stage.context.moveTo(x + u, y + v);
    stage.context.lineTo(x + u + head * Math.cos(back - turn), y + v + head * Math.sin(back - turn));
  }
  stage.context.stroke();
  stage.context.restore();
}

export function drawFlow(stage: Stage, data: DetailData): Detailed {
  const { models, errors, quiver, truth, consensus, at, errorRange } = data;
  const words = (name: string): string => (errors.has(name) ? `mean end-point error ${number(meanOf(errors.get(name)))} px` : "no output");
  const said = new Map(models.map(({ name }) => [name, words(name)]));
  if (!stage.begin()) return { said };
  const reference = (model: string): Float32Array | null => {
    const own = consensus.get(model);
    return truth ?? (own ? movedField(own, Math.round(Math.sqrt(own.length / 2)), at) : null);
  };
  const most = longest([...quiver.values(), ...models.map(({ name }) => reference(name))]);
  const whole = { x: 0, y: 0, width: stage.width, height: stage.height - BAR };
  const squares = rooms(2 * models.length, whole, MARGINS).map((room) => squareIn(room, MARGINS));
  models.forEach(({ name, colour }, index) => {
    tile(squares[2 * index], errors.get(name));
    titled(squares[2 * index], name, colour, "error");
    field(squares[2 * index + 1], name, colour);
    titled(squares[2 * index + 1], name, colour, "flow");
  });
  colourBar(stage, errorRange, "end-point error of a pixel (px, lower is better)");
  const beneath = truth ? "true flow" : consensus.size ? "consensus" : "";
  const shown = beneath ? [el("span", { class: "plot-entry plot-name" }, swatch(stage.theme.muted), beneath)] : [];
  const length = el("span", { class: "plot-name" }, `longest arrow: ${number(most)} px`);
  stage.legend.replaceChildren(...shown, el("span", { class: "plot-name" }, "model's colour: its flow"), length);

  /** In a narrow room the colour alone says whose it is. */
  function titled({ x, y, width }: Rect, name: string, colour: string, what: string): void {
    heading(stage, [`${name}: ${what}`, what], colour, x, y - 5, width);
  }

  function tile(square: Rect, values: Float32Array | undefined): void {
    stage.hatched(square.x, square.y, square.width, square.height);
    const side = Math.round(Math.sqrt(values?.length ?? 0));
    if (!values || side === 0) return;
    stage.context.imageSmoothingEnabled = false;
    stage.context.drawImage(pixelCanvas(side, side, valuePixels(values, errorRange)), square.x, square.y, square.width, square.height);
  }

  function field(square: Rect, name: string, colour: string): void {
    stage.base.append(svg("rect", { class: "plot-rim", ...square }));
    const [behind, own] = [reference(name), quiver.get(name)];
    if (behind) arrows(stage, square, behind, most, stage.theme.muted, 2.6);
    if (own) arrows(stage, square, own, most, colour, 1.3);
  }

  return { said };
}
