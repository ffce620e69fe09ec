// What the interface's answers hold (docs: veracity.report.interactive.answers), and what the drawing modules share.

export type Layout = "polar" | "heatmap" | "slices" | "tiles" | "disk" | "line";
export type Task = "classification" | "detection" | "flow" | "regression";
export type InputKind = "image" | "scene" | "pair" | "cloud" | "series" | "none";
export type Reference = "truth" | "consensus";

export interface Axis {
  name: string;
  label: string;
  unit: string;
  low: number;
  high: number;
  period: number | null;
  step: number;
}

export interface MetricInfo {
  name: string;
  label: string;
  /** What it is called where outputs are compared with the consensus. */
  consensus_label?: string;
  unit: string;
  low: number | null;
  high: number | null;
  higher_is_better: boolean;
  /** What it can be measured by; one where that makes no difference. */
  references: Reference[];
  /** Whose explanations it follows, else null. */
  explainer?: string | null;
}

export interface ModelInfo {
  name: string;
  [fact: string]: unknown;
}

export interface TableRow {
  model: string;
  metric: string;
  reference: Reference;
  value: number | null;
  low: number | null;
  high: number | null;
  identity: number | null;
  worst: number | null;
  worst_at: string | null;
}

export interface GapRow {
  model: string;
  value: number | null;
  low: number | null;
  high: number | null;
  n: number;
  undefined: number;
}

export interface AgreementRow {
  model: string;
  metric: string;
  correlation: number | null;
  low: number | null;
  high: number | null;
  n: number;
  undefined: number;
  aggregate: number | null;
}

/** How far a run has come: running, unfinished (pending cells and nobody measuring), finished with failures, or done. */
export interface RunState {
  stage: "running" | "unfinished" | "failures" | "done";
  cells: number;
  measured: number;
  failed: number;
  pending: number;
  unit: string;
  command: string;
  /** All of it in words. */
  sentence: string;
  /** In a file: when it was written. */
  note?: string;
}

/** An orbit run: everything the page needs before any array is asked for. */
export interface Meta {
  kind: "orbits";
  id: string;
  title: string;
  /** Where the run lies: on the machine of the server, or in a file the name of its folder. */
  folder: string;
  created: string | null;
  about: Record<string, unknown>;
  layout: Layout;
  axes: Axis[];
  coordinates: number[][];
  identity: number;
  elements: string[];
  plane: string | null;
  task: Task;
  classes: string[];
  /** What the labels count to: the subsets' names. */
  groups: string[];
  models: ModelInfo[];
  metrics: MetricInfo[];
  samples: number;
  labels: (number | null)[] | null;
  input: { kind: InputKind; shape: number[]; window: number | null };
  thumbnail: { size: number; channels: number } | null;
  reductions: string[];
  explainers: string[];
  /** Whether outputs move along with the input. */
  moves?: boolean;
  live: boolean;
  /** Why there are no live models, where that is known. */
  why?: string | null;
  table: TableRow[];
  gaps: GapRow[];
  agreement: AgreementRow[];
  notes: string[];
  /** What the run says in words, over all of its samples. */
  answer: string[];
  /** The sample and the element that the page opens on. */
  telling: { sample: number; element: number };
  state?: RunState | null;
  /** The level of the intervals, such as 0.95. */
  confidence?: number | null;
  /** In a file of some samples: which of the run's they are. */
  numbers?: number[] | null;
  /** And of how many. */
  of?: number;
}

export interface ScoreInfo {
  name: string;
  title: string;
  direction: string;
  low: number | null;
  high: number | null;
  /** Whether it is one number of the whole data set, so that single samples have none. */
  pooled: boolean;
  /** What the value of one sample is, where that is not the score itself. */
  of_sample: { title: string; direction: string } | null;
  /** Which of self_agreement and random_control are on the same scale, so that they may stand beside it. */
  beside: string[];
}

export type Cell = string | number | boolean | null;

/** An audit's run: one row of the table for every model, explainer and score. */
export interface AuditMeta {
  kind: "audit";
  title: string;
  created: string | null;
  models: string[];
  explainers: string[];
  scores: ScoreInfo[];
  /** The random control that is fair to each explainer. */
  nulls: Record<string, string>;
  /** The group of transforms that scores of symmetry ask about; "" without one. */
  symmetry: string;
  samples: number;
  /** The level of the intervals, such as 0.95. */
  confidence: number;
  /** Whether the numbers of the table are still being derived, as of very many samples. */
  partial: boolean;
  /** Which samples can be listed, by model. */
  choices: Record<string, string[]>;
  /** Where the run lies on the server's machine. */
  folder: string;
  table: Record<string, Cell>[];
  failures: Record<string, Cell>[];
  notes: string[];
  state: RunState | null;
  /** Whether any draw of a sample can be computed, and why not. */
  live: boolean;
  why: string | null;
}

/** A folder of another kind: its report and nothing else. */
export interface ReportMeta {
  kind: "report";
  /** Its kind in words, such as "a card". */
  words?: string;
  title: string;
  /** Its runs that are here too. */
  parts?: { id: string; name: string }[];
  state: RunState | null;
}

/** A run that has nothing to show yet, and how far its parts are. */
export interface WaitingMeta {
  kind: "waiting";
  title: string;
  created: string | null;
  state: RunState | null;
  rows: Record<string, Cell>[];
  /** The runs of a study that are here too. */
  parts?: { id: string; name: string }[];
  /** What a finished study found. */
  table?: { columns: string[]; rows: Record<string, Cell>[] };
}

export type RunMeta = Meta | AuditMeta | ReportMeta | WaitingMeta;

export interface RunEntry {
  id: string;
  kind: string;
  title: string;
  created: string | null;
  path: string;
  state: RunState | null;
  /** Of a running run: how many seconds it will still take, where that is known. */
  left?: number | null;
  /** Its kind in words, such as "an audit". */
  words?: string;
  models?: string[];
  explainers?: string[];
  samples?: number;
  /** Of orbits: what tells its inputs from others, and the plane of the axes of rotation. */
  data?: string;
  plane?: string | null;
  /** Of a study: the names of its runs. */
  parts?: string[];
  /** Of a damaged run: what is wrong, in a sentence. */
  why?: string;
}

/** What a finished run says: its verdict in words, and its main figure in few numbers; "" and null where it has none. */
export interface Verdict {
  verdict: string;
  figure: SmallFigure | null;
}

/** Values with intervals by explainer, words of a card, or means along an orbit by model; `more` rows or curves are left out. */
export type SmallFigure = { title: string; more: number } & (
  | { kind: "intervals"; rows: { name: string; control: boolean; value: number; low: number | null; high: number | null }[] }
  | { kind: "words"; questions: string[]; rows: { name: string; words: string[] }[] }
  | { kind: "curves"; curves: { name: string; values: (number | null)[] }[] }
);

/** What moved from one run to another. */
export interface Comparison {
  before: { id: string; title: string; path: string };
  after: { id: string; title: string; path: string };
  answer: string;
  /** What the numbers of the rows are, and in which direction they are better; "" where the scores say it. */
  numbers: string;
  rows: Record<string, Cell>[];
  lists: { title: string; lines: string[] }[];
  notes: string[];
}

export interface RunIndex {
  version: string;
  runs: RunEntry[];
}

export type Numbers = Float32Array | Uint8Array | BigInt64Array;

export interface PackedArray {
  data: Numbers;
  shape: number[];
}

export interface PackedHeader {
  arrays: { name: string; dtype: string; shape: number[]; offset: number }[];
  [key: string]: unknown;
}

/** Named arrays with a JSON header (see packed.ts). */
export interface Packed {
  header: PackedHeader;
  arrays: Map<string, PackedArray>;
}

/** model -> metric -> reference -> value */
export type LiveMetrics = Record<string, Record<string, Partial<Record<Reference, number | null>>>>;
