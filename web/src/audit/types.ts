import type { AuditMeta } from "../types";

/** A row of the table: one explainer of one model by one score; the explainer of a score of the model itself is "". */
export interface Subject {
  model: string;
  explainer: string;
  score: string;
}

/** How a score is spread over samples; few samples come one by one. */
export interface Spread {
  n: number;
  undefined: number;
  failed: number;
  pooled: boolean;
  quartiles: number[] | null;
  counts: number[];
  edges: number[];
  samples: number[] | null;
  values: number[] | null;
}

export type Order = "worst" | "best" | "number";

export interface CaseRow {
  sample: number;
  value: number | null;
  failed: string;
  facts: [string, string][];
}

/** A page of samples. */
export interface CasePage {
  total: number;
  start: number;
  cases: CaseRow[];
}

/** What is drawn of an array. Shares are parts of the full colour, from -1 to 1. */
export type Drawing =
  | { kind: "picture"; src: string; width: number; height: number }
  | { kind: "words"; words: string[]; shares: number[] }
  | { kind: "facts"; names: string[]; values: string[] }
  | { kind: "bars"; names: string[]; values: (number | null)[]; shares: number[]; left: number }
  | { kind: "lines"; rows: number[][]; left: number }
  | { kind: "traces"; rows: number[][]; left: number }
  | { kind: "points"; places: [number, number][]; shares: number[] }
  | { kind: "none"; text: string };

export interface CaseValue {
  explainer: string;
  control: boolean;
  score: string;
  value: number | null;
  draws: number;
  undefined: number;
  failed: string;
}

/** A stored pair: the perturbed input, and the explanation that was expected and found there. */
export interface CasePair {
  explainer: string;
  draw: number;
  value: number | null;
  element: number[];
  formulas: { moved: string; expected: string; found: string };
  moved: Drawing;
  expected: Drawing;
  found: Drawing;
}

export interface Case {
  sample: number;
  values: CaseValue[];
  facts: [string, string][];
  /** Null where the run did not keep it. */
  input: Drawing | null;
  pairs: CasePair[];
}

export interface Explained {
  explainer: string;
  drawing: Drawing | null;
}

/** The answers about the samples of an audit. */
export interface AuditSource {
  /** The audit with all numbers of its table. */
  whole(id: string): Promise<AuditMeta>;
  spread(id: string, subject: Subject): Promise<Spread>;
  csv(id: string, subject: Subject): Promise<string>;
  cases(id: string, subject: Subject, order: Order, only: string, start: number, around: number | null): Promise<CasePage>;
  case(id: string, sample: number, model: string, score: string): Promise<Case>;
  explanation(id: string, sample: number, subject: Subject): Promise<Explained>;
}
