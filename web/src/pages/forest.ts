import { scaleLinear } from "d3-scale";
import { dashOf, modelColour } from "../colour";
import { el, svg } from "../dom";
import { interval } from "../format";
import { axisRange } from "../orbit/compute";
import type { ScoreInfo } from "../types";
import type { Row } from "./rows";

const WIDTH = 560;
const NAMES = 170;
const NUMBERS = 172;
const LINE = 15;
const PAD = 8;

/** One score: a line for every explainer, on it a dot with its interval for every model; controls are hollow. */
export function forest(score: ScoreInfo, rows: Row[], models: string[]): HTMLElement {
  const explainers = [...new Set(rows.map((row) => row.explainer))];
  const reached = rows.flatMap((row) => [row.value, row.low, row.high].filter((x) => x !== null));
  const [low, high] = axisRange(score.low, score.high, reached);
  const x = scaleLinear([low, high], [NAMES + PAD, WIDTH - NUMBERS - PAD]);
  if (score.low === null || score.high === null) x.nice(4);
  const step = Math.max(1, models.length) * LINE + 8;
  const bottom = explainers.length * step + 4;
  const height = bottom + 22;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "forest", role: "img", "aria-label": `${score.title}: values with intervals` });
  const named = x.tickFormat(4);
  for (const tick of x.ticks(4)) {
    drawing.append(svg("line", { x1: x(tick), x2: x(tick), y1: 0, y2: bottom, class: tick === 0 ? "grid zero" : "grid" }));
    drawing.append(svg("text", { x: x(tick), y: bottom + 14, "text-anchor": "middle", class: "quiet" }, named(tick)));
  }
  explainers.forEach((explainer, i) => {
    const own = rows.filter((row) => row.explainer === explainer);
    const control = own.some((row) => row.control);
    const middle = i * step + step / 2;
    const name = svg("text", { x: 0, y: middle + 4, class: control ? "quiet" : null }, short(explainer || "the model itself"));
    name.append(svg("title", {}, explainer), svg("tspan", { class: "quiet small" }, control ? "  control" : ""));
    drawing.append(name);
    for (const row of own) drawing.append(...marks(row, x, middle + (models.indexOf(row.model) - (models.length - 1) / 2) * LINE, models.indexOf(row.model)));
  });
  return el("figure", { class: "score", "data-testid": `score-${score.name}` }, caption(score), drawing);
}

function caption(score: ScoreInfo): HTMLElement {
  const better = score.direction === "higher" ? "higher is better" : score.direction === "lower" ? "lower is better" : "";
  return el("figcaption", {}, el("strong", {}, score.title), el("small", {}, better));
}

function marks(row: Row, x: (value: number) => number, y: number, model: number): SVGElement[] {
  const colour = modelColour(Math.max(0, model));
  const said = svg("text", { x: WIDTH, y: y + 4, "text-anchor": "end", class: "number" }, row.failed ? "failed" : text(row));
  if (row.failed) said.append(svg("title", {}, row.failed));
  if (row.value === null) return [said];
  const dot = svg("circle", { cx: x(row.value), cy: y, r: 4, fill: row.control ? "none" : colour, stroke: colour, "stroke-width": 1.6 });
  dot.append(svg("title", {}, `${row.model}, ${row.explainer}: ${text(row)}`));
  if (row.low === null || row.high === null) return [dot, said];
  return [svg("line", { x1: x(row.low), x2: x(row.high), y1: y, y2: y, stroke: colour, "stroke-width": 1.6, "stroke-dasharray": dashOf(colour) }), dot, said];
}

function text(row: Row): string {
  return `${row.bound ? "≤ " : ""}${interval(row.value, row.low, row.high)}`;
}

function short(name: string): string {
  return name.length > 24 ? `${name.slice(0, 23)}…` : name;
}
