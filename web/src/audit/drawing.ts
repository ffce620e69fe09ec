import { scaleLinear } from "d3-scale";
import { el, svg } from "../dom";
import { number } from "../format";
import { breakable } from "./chosen";
import type { Drawing, PlotLine } from "./types";

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
      return facts(drawing.names, drawing.values, drawing.changed ?? [], name);
    case "bars":
      return bars(drawing, name);
    case "lines":
      return lanes(drawing.rows, name, line);
    case "traces":
      return lanes(drawing.rows, name, trace);
    case "points":
      return points(drawing.places, drawing.shares, name);
    case "graph":
      return graph(drawing, name);
    case "plot":
      return plot(drawing.lines, name);
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

/** Columns with their values; those that were changed are grey, behind an arrow. */
function facts(names: readonly string[], values: readonly string[], changed: readonly number[], name: string): SVGSVGElement {
  const others = new Set(changed);
  const node = lined(names.map((one, i) => `${others.has(i) ? "→ " : ""}${one.length > 20 ? `${one.slice(0, 19)}…` : one}: ${values[i] || "–"}`), name);
  changed.forEach((i) => node.children[i]?.classList.add("quiet"));
  return node;
}

/** Lines of text; a long one makes all of them smaller, so that none is cut. */
function lined(texts: readonly string[], name: string): SVGSVGElement {
  const node = frame(Math.max(SIDE, ...texts.map((text) => text.length * LETTER)), Math.max(1, texts.length) * BAR, name);
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

const NODE = 5;
/** How far the nodes stay from the border. */
const EDGE = 12;

/** Nodes and edges; an explained one is red or blue, and one that was removed is dotted. */
function graph(drawing: Extract<Drawing, { kind: "graph" }>, name: string): SVGSVGElement {
  const node = frame(SIDE, SIDE, name);
  const at = drawing.places.map(([x, y]) => [EDGE + (SIDE - 2 * EDGE) * x, EDGE + (SIDE - 2 * EDGE) * y]);
  const known = new Set(drawing.edges.map(([from, to]) => `${from} ${to}`));
  const [nodes, links] = [new Set(drawing.gone_nodes), new Set(drawing.gone_links)];
  drawing.edges.forEach(([from, to], i) => {
    const d = pathBetween(at[from], at[to], known.has(`${to} ${from}`));
    const css = links.has(i) ? "link gone" : "link";
    node.append(svg("path", { d, class: css }));
    const share = drawing.links?.[i] ?? 0;
    if (share !== 0) node.append(svg("path", { d, class: `link ${share < 0 ? "negative" : "positive"} bar`, opacity: Math.abs(share).toFixed(3) }));
  });
  at.forEach(([cx, cy], i) => {
    node.append(svg("circle", { cx, cy, r: NODE, class: nodes.has(i) ? "node gone" : "node" }));
    const share = drawing.nodes?.[i] ?? 0;
    if (share !== 0) node.append(coloured(svg("circle", { cx, cy, r: NODE }), share));
  });
  return node;
}

/** A line that ends before the node it leads to; of an edge in both directions, each bends to its own side. A loop is a circle. */
function pathBetween([x1, y1]: number[], [x2, y2]: number[], both: boolean): string {
  if (x1 === x2 && y1 === y2) return `M${x1} ${y1}m0 ${-NODE}a5 5 0 1 1 0.1 0`;
  const far = Math.hypot(x2 - x1, y2 - y1);
  const [dx, dy] = [(x2 - x1) / far, (y2 - y1) / far];
  const [ex, ey] = [x2 - dx * (NODE + 1), y2 - dy * (NODE + 1)];
  const bend = both ? Math.min(10, far / 6) : 0;
  const wing = (side: number): string => `M${ex.toFixed(1)} ${ey.toFixed(1)}l${(-6 * dx - side * 3 * dy).toFixed(1)} ${(-6 * dy + side * 3 * dx).toFixed(1)}`;
  const curve = `Q${((x1 + x2) / 2 - bend * dy).toFixed(1)} ${((y1 + y2) / 2 + bend * dx).toFixed(1)} ${ex.toFixed(1)} ${ey.toFixed(1)}`;
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}${curve}${wing(1)}${wing(-1)}`;
}

const TALL = 132;
/** The place of a plot within its drawing: left, right, top and bottom. */
const BOX = [34, SIDE - 6, 6, TALL - 20];

/** Lines against their places, the own one on top; gaps where there is no value. */
function plot(lines: readonly PlotLine[], name: string): SVGSVGElement {
  const node = frame(SIDE, TALL, name);
  const [left, right, top, bottom] = BOX;
  const known = (which: "places" | "values"): number[] => lines.flatMap((one) => one[which].filter((value) => value !== null));
  const across = extent(known("places"));
  const x = scaleLinear(across, [left, right]);
  const y = scaleLinear(extent(known("values")), [bottom, top]).nice(3);
  for (const tick of y.ticks(3)) {
    node.append(svg("path", { d: `M${left} ${y(tick).toFixed(1)}H${right}`, class: "axis" }), svg("text", { x: left - 4, y: y(tick) + 4, "text-anchor": "end", class: "word tick" }, String(Number(tick.toPrecision(3))).replace("-", "−")));
  }
  across.forEach((place, i) => node.append(svg("text", { x: x(place), y: TALL - 5, "text-anchor": i === 0 ? "start" : "end", class: "word tick" }, String(Number(place.toPrecision(3))))));
  const order = { other: 0, control: 1, draw: 2, own: 3 };
  for (const line of [...lines].sort((a, b) => order[a.look] - order[b.look])) {
    const path = svg("path", { d: pathOf(line, x, y), class: `course ${line.look}` });
    path.append(svg("title", {}, line.name));
    node.append(path);
  }
  return node;
}

function extent(values: readonly number[]): [number, number] {
  const [low, high] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  return low < high ? [low, high] : Number.isFinite(low) ? [low - 0.5, low + 0.5] : [0, 1];
}

function pathOf({ places, values }: PlotLine, x: (place: number) => number, y: (value: number) => number): string {
  let pen = "M";
  return places.map((place, i) => {
    const value = values[i];
    if (place === null || value === null) {
      pen = "M";
      return "";
    }
    const step = `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
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
  const wide = drawing?.kind === "words" ? " tile-wide" : drawing?.kind === "facts" || drawing?.kind === "bars" ? " tile-text" : "";
  const shown = drawing === null ? el("p", { class: "quiet tile-empty" }, missing) : drawn(drawing, caption);
  return el("figure", { class: `tile${wide}`, ...attributes }, el("figcaption", {}, el("strong", {}, ...breakable(caption)), ...below), shown);
}
