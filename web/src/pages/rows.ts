import { ceiling, count, number } from "../format";
import type { AuditMeta, Cell } from "../types";

/** One model's and explainer's value of one score. */
export interface Row {
  model: string;
  explainer: string;
  value: number | null;
  low: number | null;
  high: number | null;
  n: number | null;
  undefined: number | null;
  control: boolean;
  bound: boolean;
  /** Where all samples are equal, the largest share of the population that may differ unseen. */
  unseen: number | null;
  state: string;
  failed: string;
  /** Where it stands, in words. */
  said: string;
  /** How many of its cells are measured, in words. */
  progress: string;
}

/** The rows of one score, in the table's order. */
export function rowsOf(meta: AuditMeta, score: string): Row[] {
  return meta.table.filter((row) => row.score === score).map(read);
}

function read(row: Record<string, Cell>): Row {
  return {
    model: String(row.model ?? ""),
    explainer: String(row.explainer ?? ""),
    value: numeric(row.value),
    low: numeric(row.low),
    high: numeric(row.high),
    n: numeric(row.n),
    undefined: numeric(row.undefined),
    control: row.control === true,
    bound: row.bound === true,
    unseen: numeric(row.unseen),
    state: String(row.state ?? ""),
    failed: typeof row.failed === "string" ? row.failed : "",
    said: stateText(row),
    progress: progressText(row),
  };
}

/** "1 of 8 cells", "2 of 64 samples": what failed; "" if nothing did. */
export function lostText(row: Record<string, Cell>): string {
  const every = numeric(row.samples) ?? (numeric(row.n) ?? 0) + (numeric(row.undefined) ?? 0) + (numeric(row.samples_failed) ?? 0);
  const lost = [
    numeric(row.cells_failed) ? `${row.cells_failed} of ${cells(row)}` : "",
    numeric(row.samples_failed) ? `${row.samples_failed} of ${count(every, "sample")}` : "",
  ];
  return lost.filter(Boolean).join(", ");
}

/** "pending, 3 of 8 cells", "done, 1 of 8 cells failed". */
export function stateText(row: Record<string, Cell>): string {
  const state = String(row.state ?? "");
  if (state === "pending") return `${state}, ${progressText(row)}`;
  return state !== "failed" && lostText(row) ? `${state}, ${lostText(row)} failed` : state;
}

/** "3 of 8 cells" */
export function progressText(row: Record<string, Cell>): string {
  return `${row.cells_measured ?? 0} of ${cells(row)}`;
}

function cells(row: Record<string, Cell>): string {
  return count(numeric(row.cells) ?? 0, "cell");
}

/** A row's value: "≤ −2.00" where it is only a bound, "so far 0.91" where the row is pending. */
export function valueText(row: Record<string, Cell>): string {
  const value = numeric(row.value);
  if (row.state === "reading") return "";
  if (value === null) return row.state === "undefined" ? "undefined" : "–";
  return `${row.state === "pending" ? "so far " : ""}${row.bound === true ? "≤ " : ""}${number(value)}`;
}

/** An end of a row's interval: open where only the other is known; none of a pending row. */
export function endText(row: Record<string, Cell>, end: "low" | "high"): string {
  const [own, other] = [numeric(row[end]), numeric(row[end === "low" ? "high" : "low"])];
  if (row.state === "pending") return "–";
  if (own !== null) return end === "high" && other === null ? `≤ ${number(own)}` : number(own);
  return other === null ? "–" : "not known";
}

/** "≤ 11.3 %" where all samples are equal and so much of the population may differ unseen; else nothing. */
export function unseenText(row: Record<string, Cell>): string {
  const share = numeric(row.unseen);
  return share === null || row.state === "pending" ? "" : `≤ ${ceiling(share)}`;
}

function numeric(cell: Cell | undefined): number | null {
  return typeof cell === "number" ? cell : null;
}
