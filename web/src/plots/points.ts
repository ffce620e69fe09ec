// Points of a scatter, one shape a model: a few are drawn one by one, many are stamped into one image.

import { symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolStar, symbolTriangle, symbolWye, type SymbolType } from "d3-shape";
import { memo } from "../cache";
import { sequential, type Theme } from "../colour";
import { pixelCanvas } from "./stage";

/** A shape by its corners, in units of the side of a square as large. */
function cornered(...corners: [number, number][]): SymbolType {
  return {
    draw(context, size) {
      const side = Math.sqrt(size);
      corners.forEach(([x, y], i) => (i === 0 ? context.moveTo(side * x, side * y) : context.lineTo(side * x, side * y)));
      context.closePath();
    },
  };
}

const SHAPES = [
  ...[symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross, symbolStar, symbolWye],
  cornered([0, 0.88], [0.76, -0.44], [-0.76, -0.44]),
  cornered([-0.85, -0.3], [0.85, -0.3], [0.85, 0.3], [-0.85, 0.3]),
  cornered([-0.3, -0.85], [0.3, -0.85], [0.3, 0.85], [-0.3, 0.85]),
  cornered([0.88, 0], [-0.44, 0.76], [-0.44, -0.76]),
  cornered([-0.88, 0], [0.44, 0.76], [0.44, -0.76]),
  cornered([-0.75, -0.75], [0.75, -0.75], [-0.75, 0.75], [0.75, 0.75]),
  cornered([-0.75, -0.75], [-0.75, 0.75], [0.75, -0.75], [0.75, 0.75]),
];
const SHADES = 64;
const MANY = 1000;
const FAINT = 0.13;
const COVERED = 110;

/** A point to paint: its place, its model, its fraction of the value's range (NaN: undefined), and whether it stands back. */
export interface Dot {
  x: number;
  y: number;
  model: number;
  fraction: number;
  faint: boolean;
}

/** A model's shape as an SVG path about the origin, about so many pixels across. */
export function shapePath(model: number, size: number): string {
  return symbol(SHAPES[model % SHAPES.length], 0.7 * size * size)() ?? "";
}

function pathOf(model: number, radius: number): Path2D {
  return new Path2D(symbol(SHAPES[model % SHAPES.length], 3 * radius * radius)() ?? "");
}

/** Paint points into a room of a canvas from the origin, those that stand back first. */
export function paintDots(context: CanvasRenderingContext2D, dots: Dot[], colours: string[], width: number, height: number, theme: Theme): void {
  const order = dots.some(({ faint }) => faint) ? [...dots.filter(({ faint }) => faint), ...dots.filter(({ faint }) => !faint)] : dots;
  if (dots.length > MANY) stampMany(context, order, colours.length, width, height, theme);
  else drawFew(context, order, colours, theme);
}

function drawFew(context: CanvasRenderingContext2D, dots: Dot[], colours: string[], theme: Theme): void {
  const radius = dots.length > 200 ? 4 : 5;
  const shapes = colours.map((_, model) => pathOf(model, radius));
  context.save();
  context.lineWidth = 1.2;
  for (const { x, y, model, fraction, faint } of dots) {
    context.globalAlpha = faint ? FAINT : 1;
    context.fillStyle = Number.isNaN(fraction) ? theme.gap : sequential(fraction);
    context.strokeStyle = colours.length > 1 ? colours[model] : theme.surface;
    context.translate(x, y);
    context.fill(shapes[model]);
    context.stroke(shapes[model]);
    context.translate(-x, -y);
  }
  context.restore();
}

/** A model's stamp: which pixels it covers, and their colours in every shade (the last one: undefined), standing back or not. */
interface Stamp {
  columns: number[];
  rows: number[];
  shades: Int32Array[];
  faint: Int32Array[];
}

const stampsOf = memo((models: number, cell: number, radius: number, ratio: number, surface: string, gap: string): Stamp[] => {
  const sheet = pixelCanvas(cell * (SHADES + 1), cell);
  const brush = sheet.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
  const painted = (paint: () => void): Uint8ClampedArray => {
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, sheet.width, sheet.height);
    for (let shade = 0; shade <= SHADES; shade++) {
      brush.setTransform(ratio, 0, 0, ratio, (shade + 0.5) * cell, 0.5 * cell);
      brush.fillStyle = shade < SHADES ? sequential(shade / (SHADES - 1)) : gap;
      paint();
    }
    return brush.getImageData(0, 0, sheet.width, sheet.height).data;
  };
  brush.lineWidth = 0.7;
  brush.strokeStyle = surface;
  return Array.from({ length: models }, (_, model) => {
    const path = pathOf(model, radius);
    const pixels = painted(() => {
      brush.fill(path);
      brush.globalAlpha = 0.45;
      brush.stroke(path);
      brush.globalAlpha = 1;
    });
    return cutOut(pixels, cell, behind(surface));
  });
});

/** The red, green and blue of a colour. */
function behind(colour: string): Uint8ClampedArray {
  const brush = pixelCanvas(1, 1).getContext("2d") as CanvasRenderingContext2D;
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  return brush.getImageData(0, 0, 1, 1).data;
}

function cutOut(pixels: Uint8ClampedArray, cell: number, surface: Uint8ClampedArray): Stamp {
  const width = cell * (SHADES + 1);
  const all = Array.from({ length: cell * cell }, (_, at) => at);
  const covered = all.filter((at) => pixels[4 * (Math.floor(at / cell) * width + (at % cell)) + 3] >= COVERED);
  const coloured = (shade: number, share: number): Int32Array =>
    Int32Array.from(covered, (at) => {
      const from = 4 * (Math.floor(at / cell) * width + shade * cell + (at % cell));
      const [red, green, blue] = [0, 1, 2].map((part) => Math.round(share * pixels[from + part] + (1 - share) * surface[part]));
      return (255 << 24) | (blue << 16) | (green << 8) | red;
    });
  const shades = Array.from({ length: SHADES + 1 }, (_, shade) => shade);
  return {
    columns: covered.map((at) => at % cell),
    rows: covered.map((at) => Math.floor(at / cell)),
    shades: shades.map((shade) => coloured(shade, 1)),
    faint: shades.map((shade) => coloured(shade, FAINT)),
  };
}

/** Copy stamps into one image with a margin, so that no pixel has to be asked whether it is inside. */
function stampMany(context: CanvasRenderingContext2D, dots: Dot[], models: number, width: number, height: number, theme: Theme): void {
  const ratio = window.devicePixelRatio || 1;
  const radius = dots.length > 5000 ? 2.4 : 3;
  const cell = Math.ceil((2 * radius + 3) * ratio);
  const stamps = stampsOf(models, cell, radius, ratio, theme.surface, theme.gap);
  const image = context.createImageData(Math.ceil(width * ratio) + 2 * cell, Math.ceil(height * ratio) + 2 * cell);
  const pixels = new Int32Array(image.data.buffer);
  const offsets = stamps.map(({ columns, rows }) => Int32Array.from(columns, (column, i) => rows[i] * image.width + column));
  for (const { x, y, model, fraction, faint } of dots) {
    const shade = Number.isNaN(fraction) ? SHADES : Math.round(Math.min(1, Math.max(0, fraction)) * (SHADES - 1));
    const colours = faint ? stamps[model].faint[shade] : stamps[model].shades[shade];
    const corner = Math.round(y * ratio + cell / 2) * image.width + Math.round(x * ratio + cell / 2);
    const places = offsets[model];
    for (let i = 0; i < places.length; i++) pixels[corner + places[i]] = colours[i];
  }
  context.putImageData(image, -cell, -cell);
}
