import { rowsOf, type Row } from "../pages/rows";
import type { Pictures, State } from "../state";
import type { AuditMeta, ScoreInfo } from "../types";
import type { Order, Picks, Subject } from "./types";

/** What is chosen on the page of an audit; it holds over all panels. */
export interface Choice {
  model: string;
  score: ScoreInfo;
  explainer: string;
  sample: number | null;
  /** Why this sample is shown although nobody chose one; "" if somebody did. */
  because: string;
  order: Order;
  only: string;
  /** The score that samples are sorted by; "" for the chosen one. */
  by: string;
  /** The selection of samples, as texts. */
  picks: Picks;
  pictures: Pictures;
  /** The scores that single samples have: first those of the explainer, then those of its model. */
  single: ScoreInfo[];
  /** The rows of the score on the model, best first, controls behind. */
  ranked: Row[];
}

export function choose(meta: AuditMeta, state: State): Choice | null {
  if (meta.scores.length === 0) return null;
  const model = meta.models.find((name) => name === state.models?.[0]) ?? meta.models[0];
  const explained = meta.scores.find(({ name }) => meta.table.some((row) => row.score === name && row.explainer));
  const score = meta.scores.find(({ name }) => name === state.score) ?? explained ?? meta.scores[0];
  const ranked = rank(rowsOf(meta, score.name).filter((row) => row.model === model), score);
  const explainer = (ranked.find((row) => row.explainer === state.explainer) ?? ranked[0])?.explainer ?? "";
  const order = state.sort === "best" || state.sort === "number" ? state.sort : "worst";
  const only = (meta.choices[model] ?? []).includes(state.only ?? "") ? (state.only ?? "all") : "all";
  const measured = (name: string, of: string): boolean => meta.table.some((row) => row.score === name && row.model === model && (row.explainer ?? "") === of);
  const own = meta.scores.filter(({ name, pooled }) => !pooled && measured(name, explainer));
  const single = [...own, ...meta.scores.filter((one) => !one.pooled && !own.includes(one) && measured(one.name, ""))];
  const by = single.some(({ name }) => name === state.by && name !== score.name) ? (state.by ?? "") : "";
  const pictures = state.pictures === "all" && !meta.live ? "inputs" : (state.pictures ?? "inputs");
  return { model, score, explainer, sample: state.sample, because: "", order, only, by, picks: state.picks, pictures, single, ranked };
}

/** A score as single samples have it. */
export function ofSample(score: ScoreInfo): ScoreInfo {
  return { ...score, ...score.of_sample };
}

export function subjectOf(choice: Choice): Subject {
  return { model: choice.model, explainer: choice.explainer, score: choice.score.name };
}

/** Why the first sample of the list is shown. */
export function becauseFirst({ order, only, by, picks, single, score }: Choice, start: number): string {
  const sorted = single.find(({ name }) => name === by) ?? score;
  if (start > 0 || order === "number") return "the first of the list, as nobody chose one";
  const among = only !== "all" ? " of the list" : picks.length > 0 ? " of the selected ones" : "";
  return `the ${order}${among} by ${ofSample(sorted).title}, as nobody chose one`;
}

/** Best first; controls behind explainers, and what has no value behind what has one. */
export function rank(rows: Row[], score: ScoreInfo): Row[] {
  const sign = score.direction === "higher" ? -1 : score.direction === "lower" ? 1 : 0;
  const place = (row: Row): number => Number(row.control) * 2 + Number(row.value === null);
  return [...rows].sort((a, b) => place(a) - place(b) || sign * ((a.value ?? 0) - (b.value ?? 0)));
}

/** What stands for an explainer; a score of a model has none. */
export function nameOf(explainer: string): string {
  return explainer || "the model itself";
}

/** A name that may be broken behind its underscores. */
export function breakable(name: string): (Node | string)[] {
  return name.split(/(?<=_)/).flatMap((part, i) => (i === 0 ? [part] : [document.createElement("wbr"), part]));
}

export function better(score: ScoreInfo): string {
  return score.direction === "higher" ? "higher is better" : score.direction === "lower" ? "lower is better" : "";
}

export function arrow(score: ScoreInfo): string {
  return score.direction === "higher" ? " ↑" : score.direction === "lower" ? " ↓" : "";
}
