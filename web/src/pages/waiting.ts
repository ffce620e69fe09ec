import { el } from "../dom";
import { date } from "../format";
import type { Page } from "../page";
import type { RunMeta, WaitingMeta } from "../types";
import { stateText } from "./rows";
import { sortable, type Column } from "./sortable";

const COLUMNS: Column[] = [
  { key: "model", title: "Model" },
  { key: "explainer", title: "Explainer" },
  { key: "state", title: "State", text: stateText },
  { key: "failed", title: "Error" },
];

/** A run that has nothing to draw yet: how far each model is. */
export function waitingPage(first: WaitingMeta): Page {
  const table = sortable(COLUMNS, first.rows, "waiting-table");
  const heading = el("div", { class: "titled" }, el("h1", {}, first.title || "Run"), el("span", { class: "quiet" }, date(first.created)));
  const node = el("main", { class: "wide", "data-testid": "waiting" }, heading, el("p", {}, "There is nothing to draw yet: the plots come when all of it is measured."), ...(first.rows.length > 0 ? [table.node] : []));
  const refresh = (meta: RunMeta): boolean => {
    if (meta.kind === "waiting") table.update(meta.rows);
    return meta.kind === "waiting";
  };
  return { node, render: () => undefined, key: () => false, destroy: () => undefined, refresh };
}
