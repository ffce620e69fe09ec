import { modelColour } from "../colour";
import { el, swatch } from "../dom";
import { count, interval, number, percent } from "../format";
import { list } from "../pages/audit";
import type { AgreementRow, GapRow, Meta, MetricInfo, Reference, TableRow } from "../types";
import { levelOf, REFERENCE } from "./chosen";
import { metricLabel } from "./scene";

/** The run's numbers over all its samples: means along the orbit, equivariance gaps, consensus against truth. */
export function numbers(meta: Meta, metric: string, reference: Reference): HTMLElement {
  const known = new Map(meta.metrics.map((one) => [one.name, one]));
  const level = percent(levelOf(meta));
  const rows = meta.table.filter((row) => row.reference === reference && known.has(row.metric));
  const own = meta.metrics.some(({ explainer }) => typeof explainer === "string") ? ", equivariance of explanations by the one at the identity" : "";
  const all = meta.of !== undefined ? `${every(meta.of)} of the run` : `${every(meta.samples)}, whatever the subset and the lasso hold`;
  const along = table(
    "numbers-table",
    ["Along the orbit", `${all}; measured by the ${REFERENCE[reference]}${own}`],
    ["Model", "Metric", `Mean (${level})`, "At the identity", "Worst", "at"],
    rows.map((row) => ({ model: row.model, marked: row.metric === metric, cells: meanCells(row, known.get(row.metric)!) })),
    meta,
  );
  const gaps = table(
    "gap-table",
    ["Equivariance gap", `${all}; distance between the un-transformed output and the output for the original input`],
    ["Model", `Gap (${level})`, "Samples", ["Undefined", "distances along the orbits that are undefined"]],
    meta.gaps.map((row) => ({ model: row.model, marked: false, cells: gapCells(row, meta.task === "flow" ? "px" : "") })),
    meta,
  );
  const tables = [along, el("div", { class: "beside" }, gaps, el("div", {}, ...list("Notes", meta.notes)))];
  if (meta.agreement.length > 0) {
    const heads = ["Model", "Metric", `Correlation (${level})`, "Of the aggregate", "Samples", ["Undefined", "samples of which one of the two plots is constant or undefined"]] satisfies Head[];
    const found = meta.agreement.map((row) => ({ model: row.model, marked: row.metric === metric, cells: agreementCells(row, known.get(row.metric)) }));
    tables.push(table("agreement-table", ["Consensus against ground truth", `${all}; correlation of the two plots`], heads, found, meta));
  }
  return el("section", { class: "figures", "data-testid": "numbers", "aria-label": "Numbers" }, ...tables);
}

/** "all 100 samples", "the only sample". */
function every(samples: number): string {
  return samples === 1 ? "the only sample" : `all ${count(samples, "sample")}`;
}

/** A column's name, and what it means where that needs a word. */
type Head = string | [string, string];

interface Line {
  model: string;
  marked: boolean;
  cells: string[];
}

function meanCells(row: TableRow, metric: MetricInfo): string[] {
  const unit = metric.unit ? ` ${metric.unit}` : "";
  return [metricLabel(metric, row.reference), interval(row.value, row.low, row.high, metric.unit), number(row.identity) + unit, number(row.worst) + unit, row.worst_at ?? "–"];
}

function gapCells(row: GapRow, unit: string): string[] {
  return [interval(row.value, row.low, row.high, unit), String(row.n), String(row.undefined)];
}

function agreementCells(row: AgreementRow, metric: MetricInfo | undefined): string[] {
  return [metric?.label ?? row.metric, interval(row.correlation, row.low, row.high), number(row.aggregate), String(row.n), String(row.undefined)];
}

function table(id: string, [title, said]: [string, string], heads: Head[], lines: Line[], meta: Meta): HTMLElement {
  const head = el("tr", {}, ...heads.map(headed));
  const body = lines.map(({ model, marked, cells }) => {
    const colour = modelColour(meta.models.findIndex((one) => one.name === model));
    return el("tr", { class: marked ? "marked" : null }, el("th", { scope: "row" }, swatch(colour), model), ...cells.map((text) => el("td", {}, text)));
  });
  return el("div", { class: "scroll", tabindex: 0 }, el("table", { "data-testid": id }, el("caption", {}, title, el("span", {}, said)), el("thead", {}, head), el("tbody", {}, ...body)));
}

function headed(head: Head): HTMLElement {
  const [name, title] = typeof head === "string" ? [head, null] : head;
  return el("th", { scope: "col", title }, name);
}
