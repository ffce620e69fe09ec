import { el } from "../dom";
import { number } from "../format";
import type { Cell } from "../types";

export interface Column {
  key: string;
  title: string;
  /** Whether its numbers are counts. */
  whole?: boolean;
}

/** A table whose columns sort it when their heads are pressed; undefined stays last. */
export function sortable(columns: Column[], rows: Record<string, Cell>[], id: string): HTMLElement {
  const body = el("tbody", {});
  const heads = columns.map(({ key, title }) => {
    const button = el("button", { type: "button", onclick: () => sort(key) }, title);
    return el("th", { scope: "col", "aria-sort": "none" }, button);
  });
  let by = "";
  let sign = 1;

  const fill = (shown: Record<string, Cell>[]): void => body.replaceChildren(...shown.map((row) => el("tr", {}, ...columns.map(({ key, whole }) => cell(row[key], whole)))));

  const sort = (key: string): void => {
    sign = key === by ? -sign : 1;
    by = key;
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key !== key ? "none" : sign > 0 ? "ascending" : "descending"));
    fill([...rows].sort((a, b) => order(a[key], b[key], sign)));
  };

  fill(rows);
  return el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "numbers", "data-testid": id }, el("thead", {}, el("tr", {}, ...heads)), body));
}

function order(a: Cell | undefined, b: Cell | undefined, sign: number): number {
  const missing = Number(a === null || a === undefined) - Number(b === null || b === undefined);
  if (missing !== 0) return missing;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a ?? "").localeCompare(String(b ?? ""));
}

function cell(value: Cell | undefined, whole = false): HTMLElement {
  if (typeof value === "number") return el("td", { class: "n" }, whole ? value.toLocaleString("en") : number(value));
  if (typeof value === "boolean") return el("td", {}, value ? "yes" : "");
  return el("td", { class: value === null || value === undefined ? "n" : null }, value ?? "–");
}
