import { el } from "../dom";
import { number } from "../format";
import type { Cell } from "../types";

export interface Column {
  key: string;
  title: string;
  /** Whether its numbers are counts. */
  whole?: boolean;
  /** What is shown of a row instead of its value, by which it is still sorted. */
  text?: (row: Record<string, Cell>) => string;
  /** Whether its texts are numbers, or stand for one. */
  right?: boolean;
}

/** A table that keeps its order while its rows change. */
export interface Sortable {
  node: HTMLElement;
  update(rows: Record<string, Cell>[]): void;
}

/** A table whose columns sort it when their heads are pressed; undefined stays last. */
export function sortable(columns: Column[], first: Record<string, Cell>[], id: string): Sortable {
  const body = el("tbody", {});
  const heads = columns.map(({ key, title }) => {
    const button = el("button", { type: "button", onclick: () => sort(key) }, title);
    return el("th", { scope: "col", "aria-sort": "none" }, button);
  });
  let by = "";
  let sign = 1;
  let rows = first;

  const fill = (): void => {
    const shown = by === "" ? rows : [...rows].sort((a, b) => order(a[by], b[by], sign));
    body.replaceChildren(...shown.map((row) => el("tr", { "data-state": row.state ?? null, "data-verdict": row.verdict || null }, ...columns.map((column) => drawn(row, column)))));
  };

  const sort = (key: string): void => {
    sign = key === by ? -sign : 1;
    by = key;
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key !== key ? "none" : sign > 0 ? "ascending" : "descending"));
    fill();
  };

  fill();
  const table = el("table", { class: "numbers", "data-testid": id }, el("thead", {}, el("tr", {}, ...heads)), body);
  const update = (newer: Record<string, Cell>[]): void => {
    rows = newer;
    fill();
  };
  return { node: el("div", { class: "scroll", tabindex: 0 }, table), update };
}

function drawn(row: Record<string, Cell>, { key, whole, text, right }: Column): HTMLElement {
  return text === undefined ? cell(row[key], whole) : el("td", { class: right ? "n" : null }, text(row));
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
