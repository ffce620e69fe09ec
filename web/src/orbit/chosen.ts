import { memo } from "../cache";
import { nearest } from "../plots/grid";
import { START, type ColourBy, type State, type View } from "../state";
import type { Meta, MetricInfo, Reference } from "../types";

/** What the state means for one run: every choice made, with what is not chosen (or not there) filled in. */
export interface Chosen {
  metric: MetricInfo;
  /** What axes and colours reach: the metric's bounds, or no further than the values. */
  bounds: [number | null, number | null];
  reference: Reference;
  /** Which models are shown, by number. */
  models: number[];
  reduction: string | null;
  colour: ColourBy;
  rank: ColourBy;
  glyphs: boolean;
  subset: number | null;
  lasso: readonly number[] | null;
  /** The samples of the subset. */
  members: Int32Array;
  /** Those of them in the lasso, where there is one. */
  samples: Int32Array;
  sample: number | null;
  at: number[];
  view: View | null;
  /** The numbers of the two measured elements that are compared, and whether each is pinned. */
  pins: [Pin, Pin];
  /** The sample that stands beside the chosen one: the next one of the subset, unless one is held. */
  second: number | null;
  explainer: string | null;
}

export interface Pin {
  name: "A" | "B";
  k: number;
  pinned: boolean;
}

/** A function that reads states for one run. */
export function chooser(meta: Meta): (state: State) => Chosen {
  const subsets = new Map<number | null, Int32Array>();
  const subsetOf = (subset: number | null): Int32Array => {
    if (!subsets.has(subset)) subsets.set(subset, classOf(meta, subset));
    return subsets.get(subset)!;
  };
  const within = memo((samples: Int32Array, lasso: readonly number[] | null) => {
    if (lasso === null) return samples;
    const wanted = new Set(lasso);
    return samples.filter((sample) => wanted.has(sample));
  });
  const shown = memo((names: readonly string[] | null) => {
    const found = meta.models.flatMap((model, i) => (names === null || names.includes(model.name) ? [i] : []));
    return found.length > 0 ? found : meta.models.map((_, i) => i);
  });
  return (state) => {
    const metric = meta.metrics.find((one) => one.name === state.metric) ?? meta.metrics.find((one) => one.name === "confidence") ?? meta.metrics[0];
    const subset = state.subset !== null && subsetOf(state.subset).length > 0 ? state.subset : null;
    const members = subsetOf(subset);
    const samples = within(members, state.lasso);
    const known = state.sample !== null && state.sample < meta.samples ? state.sample : null;
    const at = fits(meta, state.at) ? [...state.at] : [...meta.coordinates[meta.identity]];
    const sample = known ?? samples[0] ?? null;
    const models = shown(state.models);
    const colour = offered(state.colour, models.length);
    return {
      metric,
      bounds: state.fit ? [null, null] : [metric.low, metric.high],
      reference: state.reference !== null && metric.references.includes(state.reference) ? state.reference : metric.references[0],
      models,
      reduction: state.reduction !== null && meta.reductions.includes(state.reduction) ? state.reduction : (meta.reductions[0] ?? null),
      colour,
      rank: state.rank === null ? colour : offered(state.rank, models.length),
      glyphs: state.glyphs,
      subset,
      lasso: state.lasso,
      members,
      samples,
      sample,
      at,
      view: state.view,
      pins: [pin(meta, "A", state.pinA, meta.coordinates[meta.identity]), pin(meta, "B", state.pinB, at)],
      second: state.second !== null && state.second < meta.samples ? state.second : beside(members, sample),
      explainer: state.explainer !== null && meta.explainers.includes(state.explainer) ? state.explainer : null,
    };
  };
}

/** A number of orbits as it was chosen; one model has no difference from another. */
function offered(by: ColourBy, models: number): ColourBy {
  return by === "difference" && models < 2 ? START.colour : by;
}

function fits({ axes }: Meta, at: readonly number[] | null): at is readonly number[] {
  return at?.length === axes.length;
}

/** A place that is compared: the measured element nearest to it, or else to where it stands unless it is pinned. */
function pin(meta: Meta, name: Pin["name"], at: readonly number[] | null, otherwise: number[]): Pin {
  return { name, k: nearest(meta, fits(meta, at) ? [...at] : otherwise), pinned: fits(meta, at) };
}

/** The sample of a subset after another one, or the first one after the last. */
function beside(members: Int32Array, sample: number | null): number | null {
  return members.find((one) => one > (sample ?? -1)) ?? members[0] ?? null;
}

function classOf(meta: Meta, subset: number | null): Int32Array {
  const found = new Int32Array(meta.samples).map((_, i) => i);
  return subset === null ? found : found.filter((i) => meta.labels?.[i] === subset);
}

/** A subset by its name, or by its number where it has none. */
export function groupName(meta: Meta, label: number): string {
  return meta.groups[label] ?? meta.classes[label] ?? String(label);
}

/** A sample's number in the run; a report may hold only some of them. */
export function numberOf({ numbers }: Meta, sample: number): number {
  return numbers?.[sample] ?? sample;
}

/** The sample that has a number in the run, or null. */
export function sampleOf({ numbers, samples }: Meta, number: number): number | null {
  const sample = numbers ? numbers.indexOf(number) : number;
  return sample >= 0 && sample < samples ? sample : null;
}

/** A sample in words: its number in the run, and its subset. */
export function sampleName(meta: Meta, sample: number): string {
  const label = meta.labels?.[sample] ?? null;
  const number = `sample ${numberOf(meta, sample)}`;
  return label === null ? number : `${number}, ${groupName(meta, label)}`;
}

export const REFERENCE: Record<Reference, string> = { truth: "ground truth", consensus: "consensus" };

/** What the chosen metric is measured by: a map is measured by the one at the identity, whatever the reference. */
export function measuredBy({ metric, reference }: Pick<Chosen, "metric" | "reference">): string {
  return metric.explainer ? "by the explanation at the identity" : `by the ${REFERENCE[reference]}`;
}

/** The level of the run's intervals. */
export function levelOf({ confidence }: Meta): number {
  return confidence ?? 0.95;
}
