// Pictures side by side: the input itself, and once more under every model's attribution.

import { attributionPixels, diverging } from "../colour";
import { svg } from "../dom";
import { heading, rooms, type Rect } from "../plots/panels";
import { label, pixelCanvas, type Stage } from "../plots/stage";
import { bytePixels } from "../plots/thumbnails";
import type { Attribution } from "./data";

const SMALL = 96;
const BAR = 30;

/** One picture, what it is called, and whether it is an attribution. */
export interface Sheet {
  title: string;
  /** The title in ever fewer words. */
  shorter?: string[];
  colour?: string;
  picture: HTMLCanvasElement;
  explains?: boolean;
}

/** Where a picture was drawn: its corner, and how many screen pixels one of its pixels takes. */
export interface Shown {
  x: number;
  y: number;
  scale: number;
}

const made = new WeakMap<Float32Array | Uint8Array, HTMLCanvasElement>();

/** Values 0 to 255 of shape (height, width, channels) as a picture, made once. */
export function raster(values: Float32Array | Uint8Array, [height, width, channels]: number[]): HTMLCanvasElement {
  const picture = made.get(values) ?? pixelCanvas(width, height, bytePixels(values, channels));
  made.set(values, picture);
  return picture;
}

/** The attributions' own sheets: each on a neutral ground, so that only its own colours are seen. */
export function explained(attribution: Attribution[] | undefined): Sheet[] {
  return (attribution ?? []).map(({ title, shorter, colour, map, height, width }) => {
    const ground = pixelCanvas(width, height);
    const brush = ground.getContext("2d") as CanvasRenderingContext2D;
    brush.fillStyle = diverging(0);
    brush.fillRect(0, 0, width, height);
    brush.drawImage(pixelCanvas(width, height, attributionPixels(map)), 0, 0);
    return { title, shorter, colour, picture: ground, explains: true };
  });
}

/** A picture as large as a room allows, with its aspect kept. */
export function fitted(stage: Stage, picture: HTMLCanvasElement, room: Rect): Shown {
  const scale = Math.min(room.width / picture.width, room.height / picture.height);
  const [x, y] = [room.x + (room.width - scale * picture.width) / 2, room.y + (room.height - scale * picture.height) / 2];
  stage.context.imageSmoothingEnabled = Math.max(picture.width, picture.height) > SMALL;
  stage.context.drawImage(picture, x, y, scale * picture.width, scale * picture.height);
  return { x, y, scale };
}

/** Draw every sheet; `after` may draw over each where it came to lie. */
export function drawSheets(stage: Stage, sheets: Sheet[], after?: (shown: Shown, sheet: Sheet) => void): void {
  const explains = sheets.some((sheet) => sheet.explains);
  const named = sheets.length > 1 ? 16 : 0;
  const whole = { x: 1, y: 0, width: stage.width - 2, height: stage.height - (explains ? BAR : 2) };
  rooms(sheets.length, whole, [0, named, 0, 0]).forEach((room, index) => {
    const sheet = sheets[index];
    const shown = fitted(stage, sheet.picture, { ...room, y: room.y + named, height: room.height - named });
    const [width, height] = [shown.scale * sheet.picture.width, shown.scale * sheet.picture.height];
    stage.base.append(svg("rect", { class: "plot-rim", x: shown.x, y: shown.y, width, height }));
    if (named) heading(stage, [sheet.title, ...(sheet.shorter ?? [])], sheet.colour ?? "none", shown.x, shown.y - 5, width);
    after?.(shown, sheet);
  });
  if (explains) attributionBar(stage);
}

function attributionBar(stage: Stage): void {
  const width = Math.min(stage.width - 150, 160);
  const [x, y] = [(stage.width - width) / 2, stage.height - 14];
  for (let column = 0; column < width; column++) {
    stage.context.fillStyle = diverging((2 * column) / (width - 1) - 1);
    stage.context.fillRect(x + column, y, 1.5, 8);
  }
  stage.base.append(label("plot-label", x - 6, y + 8, "against", "end"), label("plot-label", x + width + 6, y + 8, "for", "start"));
  stage.base.append(label("plot-label", x + width / 2, y - 4, "attribution, by its greatest entry"));
}
