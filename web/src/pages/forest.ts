import { scaleLinear } from "d3-scale";
import { dashOf, modelColour } from "../colour";
import { svg } from "../dom";
import { ceiling, interval, number } from "../format";
import { axisRange } from "../orbit/compute";
import type { ScoreInfo } from "../types";
import type { Row } from "./rows";

const WIDTH = 600;
const NAMES = 170;
const NUMBERS = 214;
const LINE = 15;
const PAD = 8;
/** How many models stand side by side in the legend. */
const ABREAST = 3;

/** One score: a line for every explainer, on it a dot with its interval for every model; controls are hollow. */
export function forest(score: ScoreInfo, rows: Row[], models: string[]): SVGSVGElement {
  const explainers = [...new Set(rows.map((row) => row.explainer))];
  const reached = rows.filter((row) => row.state !== "pending").flatMap((row) => [row.value, row.low, row.high].filter((x) => x !== null));
  const [low, high] = axisRange(score.low, score.high, reached);
  const x = scaleLinear([low, high], [NAMES + PAD, WIDTH - NUMBERS - PAD]);
  if (score.low === null || score.high === null) x.nice(4);
  const step = Math.max(1, models.length) * LINE + 8;
  const bottom = explainers.length * step + 4;
  const several = models.length > 1;
  const height = bottom + 44 + (several ? Math.ceil(models.length / ABREAST) * LINE + PAD : 0);
  const drawing = svg("svg", { viewBox: `0 -20 ${WIDTH} ${height}`, class: "forest", role: "img", "aria-label": `${score.title}: values with intervals` });
  drawing.append(svg("text", { x: 0, y: -8, class: "strong" }, `${score.title}${score.direction ? `, ${score.direction} is better` : ""}`));
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
    for (const row of own) drawing.append(...marks(row, x, x(x.domain()[0]), middle + (models.indexOf(row.model) - (models.length - 1) / 2) * LINE, models.indexOf(row.model)));
  });
  if (several) drawing.append(...legend(models, bottom + 14 + LINE + PAD));
  return drawing;
}

/** Which colour and dash is which model's, a few side by side. */
function legend(models: string[], top: number): SVGElement[] {
  return models.flatMap((model, i) => {
    const [x, y, colour] = [(i % ABREAST) * (WIDTH / ABREAST), top + Math.floor(i / ABREAST) * LINE, modelColour(i)];
    const line = svg("line", { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, stroke: colour, "stroke-width": 1.6, "stroke-dasharray": dashOf(colour) });
    const name = svg("text", { x: x + 24, y }, short(model));
    name.append(svg("title", {}, model));
    return [line, svg("circle", { cx: x + 9, cy: y - 4, r: 4, fill: colour }), name];
  });
}

/** A row's interval, open to the edge of the axis where its low end is not known; an arrow where the value is only a bound. */
function marks(row: Row, x: (value: number) => number, edge: number, y: number, model: number): SVGElement[] {
  const colour = modelColour(Math.max(0, model));
  const said = svg("text", { x: WIDTH, y: y + 4, "text-anchor": "end", class: row.state === "done" ? "number" : "number quiet", "data-state": row.state }, forestText(row));
  said.append(svg("title", {}, [row.said, row.failed].filter(Boolean).join(": ")));
  if (row.value === null || row.state !== "done") return [said];
  const line = { y1: y, y2: y, stroke: colour, "stroke-width": 1.6 };
  const place = x(row.value);
  const found: SVGElement[] = [];
  if (row.high !== null) found.push(svg("line", { ...line, x1: row.low === null ? edge : x(row.low), x2: x(row.high), "stroke-dasharray": dashOf(colour) }));
  if (row.bound) found.push(svg("path", { d: `M${place - 6} ${y}H${place - 16}M${place - 12} ${y - 3.5}L${place - 16} ${y}L${place - 12} ${y + 3.5}`, class: "at-most", fill: "none", stroke: colour, "stroke-width": 1.6 }));
  const dot = svg("circle", { cx: place, cy: y, r: 4, fill: row.control ? "none" : colour, stroke: colour, "stroke-width": 1.6 });
  dot.append(svg("title", {}, `${row.model}, ${row.explainer}: ${forestText(row)}`));
  return [...found, dot, said];
}

/** A row's value with its interval, in words where there is none. */
export function forestText(row: Row): string {
  if (row.state === "reading") return "reading…";
  if (row.state === "pending") return row.value === null ? `pending, ${row.progress}` : `so far ${row.bound ? "≤ " : ""}${number(row.value)}, ${row.progress}`;
  if (row.state !== "done") return row.state;
  if (row.unseen !== null) return `${number(row.value)} (all equal, unseen ≤ ${ceiling(row.unseen)})`;
  if (row.low === null && row.high !== null) return `${row.bound ? "≤ " : ""}${number(row.value)} (≤ ${number(row.high)})`;
  return `${row.bound ? "≤ " : ""}${interval(row.value, row.low, row.high)}`;
}

function short(name: string): string {
  return name.length > 24 ? `${name.slice(0, 23)}…` : name;
}
