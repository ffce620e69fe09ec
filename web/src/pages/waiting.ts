import { el } from "../dom";
import { date } from "../format";
import type { Page } from "../page";
import type { Store } from "../store";
import type { RunMeta, WaitingMeta } from "../types";
import { partLinks } from "./report";
import { stateText } from "./rows";
import { sortable, type Column } from "./sortable";

const COLUMNS: Column[] = [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "state", title: "State", text: stateText },
  { key: "failed", title: "Error" },
];

const LATER = "There is nothing to draw yet: the plots come when all of it is measured.";
const NO_REPORT = "This study has no report. Its runs have pages of their own.";
const FOUND = "This is what the study found. Its runs have pages of their own.";

/** A run that has nothing to draw yet: how far each model is. A finished study without a report leads to its runs. */
export function waitingPage(first: WaitingMeta, store: Store): Page {
  const table = sortable(COLUMNS, first.rows, "waiting-table");
  const heading = el("div", { class: "titled" }, el("h1", {}, first.title || "Run"), el("span", { class: "quiet" }, date(first.created)));
  const node = el("main", { class: "wide", "data-testid": "waiting" }, heading);
  node.append(el("p", {}, first.table ? FOUND : finished(first) ? NO_REPORT : LATER), ...(first.rows.length > 0 ? [table.node] : []));
  if (first.table) node.append(sortable(first.table.columns.map((key) => ({ key, title: titled(key) })), first.table.rows, "found-table").node);
  const links = partLinks(first.parts ?? [], store);
  if (links !== null) node.append(links);
  const refresh = (meta: RunMeta): boolean => {
    if (meta.kind !== "waiting" || finished(meta) !== finished(first)) return false;
    table.update(meta.rows);
    return true;
  };
  return { node, render: () => undefined, key: () => false, destroy: () => undefined, refresh };
}

/** A column's name as a heading: "Worst sample". */
function titled(key: string): string {
  return `${key.charAt(0).toUpperCase()}${key.slice(1)}`.replaceAll("_", " ");
}

/** Whether a study is done, so that no plots will come. */
function finished({ parts, state }: WaitingMeta): boolean {
  return parts !== undefined && (state?.stage === "done" || state?.stage === "failures");
}
