import { memo } from "../cache";
import { modelColour } from "../colour";
import { Choice, el, swatch } from "../dom";
import { date } from "../format";
import type { Page } from "../page";
import type { State } from "../state";
import type { Store } from "../store";
import type { AuditMeta, Cell, RunMeta } from "../types";
import { forest } from "./forest";
import { endText, lostText, rowsOf, stateText, unseenText, valueText } from "./rows";
import { sortable, type Column } from "./sortable";

const COLUMNS: Column[] = [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "score", title: "Score" },
  { key: "state", title: "State", text: stateText },
  { key: "value", title: "Value", text: valueText, right: true },
  { key: "low", title: "95 % low", text: (row) => endText(row, "low"), right: true },
  { key: "high", title: "95 % high", text: (row) => endText(row, "high"), right: true },
  { key: "unseen", title: "Unseen", text: unseenText, right: true },
  { key: "n", title: "Samples", whole: true },
  { key: "undefined", title: "Undefined", whole: true },
  { key: "self_agreement", title: "Self-agreement" },
  { key: "random_control", title: "Random control" },
  { key: "control", title: "Control" },
];

/** An audit of explainers: every score as a forest plot, and all of them in one table. */
export function auditPage(first: AuditMeta, store: Store): Page {
  let meta = first;
  const chosen = new Choice("Score", "score", (score) => store.set({ score: score || null }));
  const legend = el("ul", { class: "legend" }, ...meta.models.map((name, i) => el("li", {}, swatch(modelColour(i)), name)), el("li", { class: "quiet" }, "hollow: a control"));
  const report = el("button", { type: "button", "data-testid": "full-report", onclick: () => store.set({ page: "report" }) }, "Full report");
  const title = el("div", { class: "titled" }, el("h1", {}, meta.title || "Audit"), el("span", { class: "quiet" }, date(meta.created)), chosen.node, report);
  const figures = el("div", { class: "scores" });
  const numbers = sortable(COLUMNS, [], "scores-table");
  const gaps = el("div", {});
  const fill = memo((meta: AuditMeta, score: string | null) => {
    const scores = meta.scores.filter(({ name }) => score === null || name === score);
    figures.replaceChildren(...scores.map((one) => forest(one, rowsOf(meta, one.name), meta.models)));
    numbers.update(meta.table.filter((row) => scores.some(({ name }) => name === row.score)));
    gaps.replaceChildren(...list("Failed", meta.failures.map(said)), ...list("Notes", meta.notes));
  });
  const render = ({ score }: State): void => {
    const known = meta.scores.some(({ name }) => name === score) ? score : null;
    chosen.update([{ value: "", text: "all" }, ...meta.scores.map(({ name, title: text }) => ({ value: name, text }))], known ?? "");
    fill(meta, known);
  };
  const refresh = (newer: RunMeta): boolean => {
    if (newer.kind !== "audit" || newer.models.join() !== meta.models.join()) return false;
    meta = newer;
    render(store.state);
    return true;
  };
  const shown = meta.scores.length > 0 ? [figures, el("h2", {}, "All numbers"), numbers.node] : [el("p", {}, "This run holds no scores.")];
  const node = el("main", { class: "wide", "data-testid": "audit" }, title, legend, ...shown, gaps);
  return { node, render, key: () => false, destroy: () => undefined, refresh };
}

/** "net: lime: equivariance: RuntimeError: no (2 of 8 cells)", or "(1 of 64 samples)" */
function said({ model, explainer, score, error, ...row }: Record<string, Cell>): string {
  return `${[model, explainer, score, error].filter(Boolean).join(": ")} (${lostText(row)})`;
}

/** A titled list; nothing where there is nothing to say. */
export function list(title: string, lines: readonly string[]): HTMLElement[] {
  if (lines.length === 0) return [];
  return [el("h2", {}, title), el("ul", { class: "lines" }, ...lines.map((line) => el("li", {}, line)))];
}
