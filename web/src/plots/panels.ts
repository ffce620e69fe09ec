// Room for several pictures beside or below each other, and the colour bar that they share.

import { axisBottom } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { dashOf, fractionOf, sequential } from "../colour";
import { svg } from "../dom";
import { number } from "../format";
import type { OrbitData } from "./data";
import { label, ruler, type Stage } from "./stage";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Margins of a panel: left, top, right, bottom. */
export type Margins = [number, number, number, number];

/** The height that a colour bar takes at the bottom, and that of a line above it. */
export const BAR = 46;
export const CAPTION = 14;
const HEAD = 20;
const GAP = 12;
const SIZES = [11, 10, 9];

/** So many equal rooms, in the number of columns that leaves squares within their margins the most space. */
export function rooms(count: number, { x, y, width, height }: Rect, [left, top, right, bottom]: Margins = [0, 0, 0, 0], gap = 8): Rect[] {
  const sized = (columns: number): { across: number; down: number; side: number } => {
    const rows = Math.ceil(count / columns);
    const across = Math.max(1, (width - gap * (columns - 1)) / columns);
    const down = Math.max(1, (height - gap * (rows - 1)) / rows);
    return { across, down, side: Math.min(across - left - right, down - top - bottom) };
  };
  let columns = 1;
  for (let tried = 2; tried <= count; tried++) if (sized(tried).side > sized(columns).side + 1) columns = tried;
  const { across, down } = sized(columns);
  return Array.from({ length: count }, (_, index) => ({
    x: x + (index % columns) * (across + gap),
    y: y + Math.floor(index / columns) * (down + gap),
    width: across,
    height: down,
  }));
}

/** The largest square within a room, after margins. */
export function squareIn(room: Rect, [left, top, right, bottom]: Margins): Rect {
  const side = Math.max(1, Math.floor(Math.min(room.width - left - right, room.height - top - bottom)));
  const x = room.x + left + (room.width - left - right - side) / 2;
  const y = room.y + top + (room.height - top - bottom - side) / 2;
  return { x: Math.round(x), y: Math.round(y), width: side, height: side };
}

/** The square of every panel of an orbit's plot, above its caption and its colour bar. */
export function panelSquares(stage: Stage, data: OrbitData, margins: Margins): Rect[] {
  const kept: Margins = data.compact ? [2, 2, 2, 2] : margins;
  const whole = { x: 0, y: 0, width: stage.width, height: stage.height - (data.compact ? 0 : BAR + CAPTION) };
  return rooms(data.curves.length, whole, kept).map((room) => squareIn(room, kept));
}

/** Squares packed side by side, and which of them begin and end a column or a row. */
export interface Packing {
  squares: Rect[];
  columns: number;
}

/** Squares as large as fits above the caption and the colour bar, each under a heading; axes at the block's own margins are shared. */
export function packedSquares(stage: Stage, data: OrbitData, outer: Margins, centred = false): Packing {
  const count = data.curves.length;
  const [left, top, right, bottom] = data.compact ? [2, 2, 2, 2] : outer;
  const [head, gap, below] = data.compact ? [0, 4, 0] : [HEAD, GAP, BAR + CAPTION];
  const sized = (columns: number): number => {
    const rows = Math.ceil(count / columns);
    const across = (stage.width - left - right - gap * (columns - 1)) / columns;
    return Math.floor(Math.min(across, (stage.height - below - top - bottom - gap * (rows - 1)) / rows - head));
  };
  let columns = 1;
  for (let tried = 2; tried <= count; tried++) if (sized(tried) > sized(columns) + 1) columns = tried;
  const side = Math.max(1, sized(columns));
  const span = (many: number): number => many * side + gap * (many - 1);
  const rows = Math.ceil(count / columns);
  const y = Math.max(0, stage.height - below - top - bottom - span(rows) - rows * head) / 2 + top + head;
  const squares = Array.from({ length: count }, (_, index) => {
    const row = Math.floor(index / columns);
    const here = centred ? Math.min(columns, count - row * columns) : columns;
    const x = left + (stage.width - left - right - span(here)) / 2;
    return { x: Math.round(x + (index % columns) * (side + gap)), y: Math.round(y + row * (side + head + gap)), width: side, height: side };
  });
  return { squares, columns };
}

/** What the panels' places mean, in one line above the colour bar: of several ways to say it, the first that fits. */
export function caption(stage: Stage, ...ways: string[]): void {
  stage.base.append(label("plot-label", stage.width / 2, stage.height - BAR - 4, firstThatFits(stage, ways)));
}

/** The first of some lines that is no wider than the stage, else the last one. */
export function firstThatFits(stage: Stage, ways: string[]): string {
  stage.context.font = "11px system-ui, sans-serif";
  return ways.find((words) => stage.context.measureText(words).width <= stage.width) ?? ways[ways.length - 1];
}

export function inside({ x, y, width, height }: Rect, px: number, py: number): boolean {
  return px >= x && px <= x + width && py >= y && py <= y + height;
}

/** What stands at a place over a panel, in the first of its ways that fits, with a swatch of its colour where it has one. */
export function heading(stage: Stage, ways: string[], colour: string, x: number, y: number, width: number): void {
  const indent = colour === "none" ? 0 : 12;
  const { words, size } = fitting(stage, ways, width - indent);
  const named = label("plot-heading", x + indent, y, words, "start");
  named.style.fontSize = `${size}px`;
  const mark = dashOf(colour) === null ? svg("rect", { x, y: y - 8, width: 8, height: 8, rx: 2 }) : svg("path", { d: `M${x},${y - 8}h3v8h-3ZM${x + 5},${y - 8}h3v8h-3Z` });
  mark.setAttribute("fill", colour);
  stage.base.append(mark, named);
}

/** The first way that fits a width, in the largest letters that do; if none fits, the last one loses its middle. */
function fitting(stage: Stage, ways: string[], width: number): { words: string; size: number } {
  const wide = (words: string, size: number): boolean => {
    stage.context.font = `600 ${size}px system-ui, sans-serif`;
    return stage.context.measureText(words).width > width;
  };
  for (const words of ways) {
    const size = SIZES.find((one) => !wide(words, one));
    if (size !== undefined) return { words, size };
  }
  const [name, size] = [ways[ways.length - 1], SIZES[SIZES.length - 1]];
  let words = name;
  for (let kept = name.length - 1; kept > 3 && wide(words, size); kept--) {
    words = `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(name.length - Math.floor(kept / 2))}`;
  }
  return { words, size };
}

/** What the colours mean: a bar along the bottom of the stage. */
export function colourBar(stage: Stage, range: [number, number], title: string): void {
  const width = Math.min(stage.width - 24, 260);
  const x = (stage.width - width) / 2;
  const y = stage.height - 28;
  for (let column = 0; column < width; column++) {
    stage.context.fillStyle = sequential(column / (width - 1));
    stage.context.fillRect(x + column, y, 1.5, 8);
  }
  const scale = scaleLinear(range[1] > range[0] ? range : [range[0] - 1, range[0] + 1], [x, x + width]);
  const words = firstThatFits(stage, [title, title.replace(/ \([^()]*\)$/, "")]);
  stage.base.append(ruler(axisBottom<number>(scale).ticks(4).tickSize(3), 0, y + 8), label("plot-label", x + width / 2, y - 5, words));
}

/** The metric, how far its axis or its colours reach, and which end is good. */
export function metricTitle({ metric, range: [low, high], higherIsBetter }: Pick<OrbitData, "metric" | "range" | "higherIsBetter">): string {
  const end = (value: number): string => (Number.isInteger(value) ? String(value) : number(value));
  return `${metric}, ${end(low)} to ${end(high)} (${better(higherIsBetter)})`;
}

/** The same in ever fewer words, for rooms of different widths. */
export function metricTitles(data: Parameters<typeof metricTitle>[0]): string[] {
  return [metricTitle(data), `${data.metric} (${better(data.higherIsBetter)})`, data.metric];
}

export function better(higher: boolean): string {
  return `${higher ? "higher" : "lower"} is better`;
}

/** Ink that can be read on a value's colour. */
export function inkOn(value: number, range: [number, number]): string {
  return fractionOf(value, range) > 0.6 ? "#10141a" : "#ffffff";
}
