import { el, svg } from "../dom";
import { number } from "../format";
import { breakable } from "./chosen";
import type { Drawing } from "./types";

const SIDE = 200;
const LANE = 60;
const BAR = 18;
const NAMES = 88;
const LETTER = 6.6;

/** An array as a drawing of its own proportions; its name is read out. */
export function drawn(drawing: Drawing, name: string): SVGSVGElement {
  switch (drawing.kind) {
    case "picture":
      return picture(drawing, name);
    case "words":
      return words(drawing.words, drawing.shares, name);
    case "facts":
      return facts(drawing.names, drawing.values, name);
    case "bars":
      return bars(drawing, name);
    case "lines":
      return lanes(drawing.rows, name, line);
    case "traces":
      return lanes(drawing.rows, name, trace);
    case "points":
      return points(drawing.places, drawing.shares, name);
    case "none":
      return lined([drawing.text], name);
  }
}

function frame(width: number, height: number, name: string): SVGSVGElement {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "drawing", role: "img", "aria-label": name });
}

function picture({ src, width, height }: { src: string; width: number; height: number }, name: string): SVGSVGElement {
  const tall = Math.max(20, (SIDE * height) / Math.max(1, width));
  const node = frame(SIDE, tall, name);
  node.append(svg("rect", { width: SIDE, height: tall, class: "ground" }), svg("image", { href: src, width: SIDE, height: tall, preserveAspectRatio: "none", class: "pixels" }));
  return node;
}

/** Red for positive, blue for negative shares, as opaque as they are large. */
function coloured(node: SVGElement, share: number): SVGElement {
  node.setAttribute("class", share < 0 ? "negative" : "positive");
  node.setAttribute("opacity", Math.abs(share).toFixed(3));
  return node;
}

function words(texts: readonly string[], shares: readonly number[], name: string): SVGSVGElement {
  const parts: SVGElement[] = [];
  let [x, y] = [0, 0];
  texts.forEach((text, i) => {
    const width = Math.min(SIDE * 2, text.length * LETTER + 6);
    if (x > 0 && x + width > SIDE * 2) [x, y] = [0, y + 20];
    parts.push(coloured(svg("rect", { x, y: y + 1, width, height: 18, rx: 3 }), 0.75 * (shares[i] ?? 0)));
    parts.push(svg("text", { x: x + 3, y: y + 14, class: "word" }, text));
    x += width + 3;
  });
  const node = frame(SIDE * 2, y + 20, `${name}: ${texts.join(" ")}`);
  node.append(...parts);
  return node;
}

function facts(names: readonly string[], values: readonly string[], name: string): SVGSVGElement {
  return lined(names.map((one, i) => `${one}: ${values[i] || "–"}`), name);
}

function lined(texts: readonly string[], name: string): SVGSVGElement {
  const node = frame(SIDE, Math.max(1, texts.length) * BAR, name);
  texts.forEach((text, i) => node.append(svg("text", { x: 0, y: i * BAR + 13, class: "word" }, text)));
  return node;
}

function bars(drawing: { names: string[]; values: (number | null)[]; shares: number[]; left: number }, name: string): SVGSVGElement {
  const more = drawing.left > 0 ? [`and ${drawing.left} smaller ones`] : [];
  const node = frame(SIDE, (drawing.names.length + more.length) * BAR, name);
  const middle = NAMES + (SIDE - NAMES) / 2;
  drawing.names.forEach((one, i) => {
    const share = drawing.shares[i];
    const width = (Math.abs(share) * (SIDE - NAMES)) / 2;
    const bar = svg("rect", { x: share < 0 ? middle - width : middle, y: i * BAR + 3, width, height: BAR - 6, class: share < 0 ? "negative" : "positive" });
    bar.append(svg("title", {}, `${one}: ${number(drawing.values[i])}`));
    node.append(svg("text", { x: 0, y: i * BAR + 13, class: "word" }, one.length > 14 ? `${one.slice(0, 13)}…` : one), bar);
  });
  node.append(svg("path", { d: `M${middle} 0V${drawing.names.length * BAR}`, class: "axis" }));
  more.forEach((text) => node.append(svg("text", { x: 0, y: drawing.names.length * BAR + 13, class: "word quiet" }, text)));
  return node;
}

function lanes(rows: number[][], name: string, draw: (row: number[], top: number) => SVGElement[]): SVGSVGElement {
  const node = frame(SIDE, Math.max(1, rows.length) * LANE, name);
  rows.forEach((row, i) => node.append(...draw(row, i * LANE)));
  return node;
}

function line(row: number[], top: number): SVGElement[] {
  const x = (i: number): string => ((SIDE * i) / Math.max(1, row.length - 1)).toFixed(1);
  const d = row.map((level, i) => `${i === 0 ? "M" : "L"}${x(i)} ${(top + 3 + (LANE - 6) * (1 - level)).toFixed(1)}`).join("");
  return [svg("path", { d, class: "thread" })];
}

function trace(row: number[], top: number): SVGElement[] {
  const middle = top + LANE / 2;
  const step = SIDE / Math.max(1, row.length);
  const path = (wanted: (share: number) => boolean): string =>
    row.map((share, i) => (wanted(share) ? `M${(step * (i + 0.5)).toFixed(1)} ${middle}v${((-share * (LANE - 6)) / 2).toFixed(1)}` : "")).join("");
  const width = Math.max(0.8, step - 0.6).toFixed(1);
  return [
    svg("path", { d: `M0 ${middle}H${SIDE}`, class: "axis" }),
    svg("path", { d: path((share) => share > 0), class: "positive bar", "stroke-width": width }),
    svg("path", { d: path((share) => share < 0), class: "negative bar", "stroke-width": width }),
  ];
}

function points(places: [number, number][], shares: number[], name: string): SVGSVGElement {
  const node = frame(SIDE, SIDE, name);
  places.forEach(([x, y], i) => {
    const share = shares[i] ?? 0;
    const dot = svg("circle", { cx: SIDE * x, cy: SIDE * y, r: 2.2, class: "faint" });
    node.append(Math.abs(share) < 0.06 ? dot : coloured(dot, share));
  });
  return node;
}

const GAP = 14;
const HEAD = 34;

/** Drawings with captions in a grid, as one drawing that can be saved. */
export function sheet(tiles: readonly { caption: string; below: string; drawing: Drawing | null }[], across = 4): SVGSVGElement | null {
  if (tiles.length === 0) return null;
  const rows: (typeof tiles)[number][][] = [];
  for (let i = 0; i < tiles.length; i += across) rows.push(tiles.slice(i, i + across));
  const parts: SVGElement[] = [];
  let y = GAP;
  for (const row of rows) {
    let tallest = 20;
    row.forEach(({ caption, below, drawing }, i) => {
      const x = GAP + i * (SIDE + GAP);
      parts.push(svg("text", { x, y: y + 12, class: "word strong" }, caption), svg("text", { x, y: y + 27, class: "word quiet" }, below));
      if (drawing === null) return;
      const inner = drawn(drawing, caption);
      const [, , width, height] = (inner.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
      const tall = (SIDE * height) / width;
      for (const [key, value] of Object.entries({ x, y: y + HEAD, width: SIDE, height: tall })) inner.setAttribute(key, String(value));
      tallest = Math.max(tallest, tall);
      parts.push(inner);
    });
    y += HEAD + tallest + GAP;
  }
  const width = GAP + Math.min(across, tiles.length) * (SIDE + GAP);
  const node = svg("svg", { viewBox: `0 0 ${width} ${y}`, width, height: y, class: "drawing sheet", role: "img", "aria-label": "Explanations side by side" });
  node.append(...parts);
  return node;
}

/** A captioned drawing of the page. */
export function tile(caption: string, below: (Node | string)[], drawing: Drawing | null, missing: string, attributes: Record<string, string | null> = {}): HTMLElement {
  const wide = drawing?.kind === "words" ? " tile-wide" : "";
  const shown = drawing === null ? el("p", { class: "quiet tile-empty" }, missing) : drawn(drawing, caption);
  return el("figure", { class: `tile${wide}`, ...attributes }, el("figcaption", {}, el("strong", {}, ...breakable(caption)), ...below), shown);
}
