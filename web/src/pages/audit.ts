import { memo } from "../cache";
import { modelColour } from "../colour";
import { Choice, el, swatch } from "../dom";
import { date } from "../format";
import type { Page } from "../page";
import type { State } from "../state";
import type { Store } from "../store";
import type { AuditMeta, Cell } from "../types";
import { forest } from "./forest";
import { rowsOf } from "./rows";
import { sortable, type Column } from "./sortable";

const COLUMNS: Column[] = [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "score", title: "Score" },
  { key: "value", title: "Value" },
  { key: "low", title: "95 % low" },
  { key: "high", title: "95 % high" },
  { key: "n", title: "Samples", whole: true },
  { key: "undefined", title: "Undefined", whole: true },
  { key: "self_agreement", title: "Self-agreement" },
  { key: "random_control", title: "Random control" },
  { key: "control", title: "Control" },
];

/** An audit of explainers: every score as a forest plot, and all of them in one table. */
export function auditPage(meta: AuditMeta, store: Store): Page {
  const chosen = new Choice("Score", "score", (score) => store.set({ score: score || null }));
  const legend = el("ul", { class: "legend" }, ...meta.models.map((name, i) => el("li", {}, swatch(modelColour(i)), name)), el("li", { class: "quiet" }, "hollow: a control"));
  const report = el("button", { type: "button", "data-testid": "full-report", onclick: () => store.set({ page: "report" }) }, "Full report");
  const title = el("div", { class: "titled" }, el("h1", {}, meta.title || "Audit"), el("span", { class: "quiet" }, date(meta.created)), chosen.node, report);
  const figures = el("div", {});
  const fill = memo((score: string | null) => figures.replaceChildren(...content(meta, score)));
  const options = [{ value: "", text: "all" }, ...meta.scores.map(({ name, title: text }) => ({ value: name, text }))];
  const render = ({ score }: State): void => {
    const known = meta.scores.some(({ name }) => name === score) ? score : null;
    chosen.update(options, known ?? "");
    fill(known);
  };
  const node = el("div", { class: "wide", "data-testid": "audit" }, title, legend, figures, ...list("Failures", meta.failures.map(said)), ...list("Notes", meta.notes));
  return { node, render, key: () => false, destroy: () => undefined };
}

/** The plots and the table of one score, or of all. */
function content(meta: AuditMeta, score: string | null): HTMLElement[] {
  const scores = meta.scores.filter(({ name }) => score === null || name === score);
  if (scores.length === 0) return [el("p", {}, "This run holds no scores yet.")];
  const rows = meta.table.filter((row) => scores.some(({ name }) => name === row.score));
  return [
    el("div", { class: "scores" }, ...scores.map((one) => forest(one, rowsOf(meta, one.name), meta.models))),
    el("h2", {}, "All numbers"),
    sortable(COLUMNS, rows, "scores-table"),
  ];
}

function said(failure: string | Record<string, Cell>): string {
  return typeof failure === "string" ? failure : Object.values(failure).filter((part) => part !== null && part !== "").join(": ");
}

/** A titled list; nothing where there is nothing to say. */
export function list(title: string, lines: readonly string[]): HTMLElement[] {
  if (lines.length === 0) return [];
  return [el("h2", {}, title), el("ul", { class: "lines" }, ...lines.map((line) => el("li", {}, line)))];
}
