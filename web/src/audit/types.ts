import type { Channel, Heard } from "../source";
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
  /** The same of the selected samples, within the same bins; null without a selection. */
  chosen: { n: number; quartiles: number[] | null; counts: number[]; marked: boolean[] | null } | null;
}

export type Order = "worst" | "best" | "number";

export interface CaseRow {
  sample: number;
  value: number | null;
  failed: string;
  facts: [string, string][];
  /** The value of the score that the page is sorted by, where that is another one. */
  by: number | null;
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
  | { kind: "facts"; names: string[]; values: string[]; changed?: number[] }
  | { kind: "bars"; names: string[]; values: (number | null)[]; shares: number[]; left: number }
  | { kind: "lines"; rows: number[][]; left: number }
  | { kind: "traces"; rows: number[][]; left: number }
  | { kind: "points"; places: [number, number][]; shares: number[] }
  | { kind: "graph"; places: [number, number][]; edges: [number, number][]; nodes?: number[]; links?: number[]; gone_nodes?: number[]; gone_links?: number[] }
  | { kind: "plot"; lines: PlotLine[] }
  | { kind: "none"; text: string };

/** A line of a plot; of all lines, the chosen one lies on top. */
export interface PlotLine {
  name: string;
  look: "own" | "draw" | "other" | "control";
  places: (number | null)[];
  values: (number | null)[];
}

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
  /** What else is known of a point that a search found: both classes, the input, and how the point differs from it. */
  search: { label: number; predicted: number; input: Drawing; difference: Drawing; largest: number } | null;
}

/** One explainer of a course. `draws` are few draws one by one, of which `values` is the mean; `sets` are those of each distance. */
export interface CourseLine {
  explainer: string;
  /** The name of a search. */
  title: string;
  places: (number | null)[];
  values: (number | null)[];
  draws: (number | null)[][];
  sets?: string[];
}

/** What the run stored of a sample step by step: its curve, its searches, or its distances to the models of the other folds. */
export interface Course {
  kind: "curve" | "search" | "folds";
  across: string;
  up: string;
  lines: CourseLine[];
}

export interface Case {
  sample: number;
  /** Whether it is selected; null without a selection. */
  chosen: boolean | null;
  values: CaseValue[];
  facts: [string, string][];
  /** Null where the run did not keep it. */
  input: Drawing | null;
  pairs: CasePair[];
  /** Null where the score has none. */
  course: Course | null;
}

export interface Explained {
  explainer: string;
  drawing: Drawing | null;
}

/** One draw of a sample, which the models are asked about. */
export interface DrawQuestion extends Subject {
  sample: number;
  draw: number;
}

/** One level of a draw, or the model of another fold; null where a score looks at neither the input nor the explanation. */
export interface Step {
  name: string;
  value: number | null;
  stored: number | null;
  input: Drawing | null;
  map: Drawing | null;
}

/** A training sample behind an explanation by example. */
export interface Example {
  number: number;
  value: number;
  label: number;
  drawing: Drawing;
}

/** The steps of a draw, and what there was before the first of them. */
export interface Steps {
  quantity: string;
  /** A name for what there was before. */
  before: string;
  input: Drawing | null;
  map: Drawing | null;
  steps: Step[];
}

/** What the engine measures there now, and what the run's table holds; no pair and no steps where the score is undefined. */
export interface DrawAnswer extends DrawQuestion {
  value: number | null;
  stored: number | null;
  draws: number;
  pair: CasePair | null;
  steps: Steps | null;
  /** Of an explanation by example, the training samples that speak most for the explained output, then those that speak most against it. */
  examples: Example[] | null;
}

/** The parts of a selection of samples, as texts. */
export type Picks = readonly string[];

/** A selection: how many samples it has of how many, and its parts in words and in Python. */
export interface Selection {
  n: number;
  total: number;
  parts: { words: string; kind: string; python: string }[];
}

/** What a score of an explainer is on the selected samples. */
export interface SelectedValue {
  explainer: string;
  value: number | null;
  n: number;
}

/** Samples in the plane of two scores: those that are drawn, of all that have both. */
export interface Plane {
  total: number;
  n: number;
  ends: [[number, number], [number, number]];
  samples: number[];
  x: number[];
  y: number[];
  /** How many selected samples have both scores, and the places of those that are drawn. */
  chosen: { n: number; marked: number[] } | null;
}

/** Which small drawings are asked for. */
export interface Thumbs {
  model: string;
  explainer: string;
  kind: "inputs" | "all" | "explanations";
  samples: readonly number[];
}

export interface Thumbnails {
  /** Whether the samples are rows of a table, which have no pictures. */
  table: boolean;
  drawings: { sample: number; drawing: Drawing | null }[];
}

/** How a page of samples is made up. */
export interface Listing {
  order: Order;
  /** The score that it is sorted by; "" for the one whose values it shows. */
  by: string;
  only: string;
  start: number;
  around: number | null;
}

export interface Option {
  value: string;
  text: string;
}

/** What a person can give: an image, a text, or a row of a table. */
export type OwnForm = { models: string[]; label: boolean; largest: number } & (
  | { kind: "image"; width: number; height: number; mode: string; sizes: Option[]; pixels: Option[]; likely: string }
  | { kind: "text"; tokens: number | null }
  | { kind: "row"; columns: { name: string; levels: string[] | null }[]; first: string[]; fields: boolean }
);

/** A question about an input that was given: the prediction of a model, the explanation by an explainer, or a score; or, without an input, what can be given. */
export interface OwnQuestion extends Subject {
  input: string;
}

/** What a model says of an input, and what can be asked about it. */
export interface OwnPrediction {
  input: Drawing;
  steps: string[];
  /** How it differs from all audited samples, and whether inverting it would change that. */
  doubt: string;
  invertible: boolean;
  prediction: { top: [string, number][]; of: number; explained?: [string, number] } | { values: number[]; of: number };
  explainers: string[];
  /** The scores that can be measured, by explainer; "" for those of the model itself. */
  scores: Record<string, string[]>;
  without: [string, string][];
}

/** The value of a score, and how many audited samples have a lower one or the same one. */
export interface OwnValue {
  value: number | null;
  of: number;
  lower: number;
  same: number;
}

/** What a score is, how it was set, what it says in this run, and its assumptions, which may fail on some samples. */
export interface ScoreWords {
  definition: string;
  settings: string[];
  answer: string[];
  assumptions: { text: string; fails: boolean }[];
}

/** The first and the last rank that paired differences leave to an explainer, among explanations of its kind. */
export interface Place {
  first: number;
  last: number;
  kind: string;
}

/** By model and score, the ranks of explainers, or why nobody is ranked. */
export type Ranks = Record<string, Record<string, { ranks: Record<string, Place>; why: string }>>;

/** The answers about an audit and its samples. */
export interface AuditSource {
  words(id: string, score: string): Promise<ScoreWords>;
  ranks(id: string): Promise<Ranks>;
  /** The audit with all numbers of its table. */
  whole(id: string): Promise<AuditMeta>;
  spread(id: string, subject: Subject, picks: Picks): Promise<Spread>;
  csv(id: string, subject: Subject, picks: Picks): Promise<string>;
  cases(id: string, subject: Subject, picks: Picks, listing: Listing): Promise<CasePage>;
  case(id: string, sample: number, model: string, score: string, picks: Picks): Promise<Case>;
  plane(id: string, model: string, explainer: string, x: string, y: string, picks: Picks): Promise<Plane>;
  selection(id: string, picks: Picks): Promise<Selection>;
  selectionValues(id: string, model: string, score: string, picks: Picks): Promise<SelectedValue[]>;
  selectionCsv(id: string, model: string, explainer: string, picks: Picks): Promise<string>;
  thumbnails(id: string, asked: Thumbs): Promise<Thumbnails>;
  explanation(id: string, sample: number, subject: Subject): Promise<Explained>;
  /** A channel to the models, where they are at hand. */
  channel<Q extends object>(id: string, heard: Heard<Q>): Channel<Q>;
  /** Sends an input, and gives the name under which it can be asked about. */
  give(id: string, data: Blob, how: Record<string, string>): Promise<string>;
}
