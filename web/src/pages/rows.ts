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
  failed: string;
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
    failed: typeof row.failed === "string" ? row.failed : "",
  };
}

function numeric(cell: Cell | undefined): number | null {
  return typeof cell === "number" ? cell : null;
}
