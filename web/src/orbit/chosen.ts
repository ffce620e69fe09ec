import { memo } from "../cache";
import type { ColourBy, State } from "../state";
import type { Meta, MetricInfo, Reference } from "../types";

/** What the state means for one run: every choice made, with what is not chosen (or not there) filled in. */
export interface Chosen {
  metric: MetricInfo;
  reference: Reference;
  /** Which models are shown, by number. */
  models: number[];
  reduction: string | null;
  colour: ColourBy;
  subset: number | null;
  lasso: readonly number[] | null;
  /** The samples of the subset. */
  members: Int32Array;
  /** Those of them in the lasso, where there is one. */
  samples: Int32Array;
  sample: number | null;
  at: number[];
  explainer: string | null;
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
    return {
      metric,
      reference: state.reference !== null && metric.references.includes(state.reference) ? state.reference : metric.references[0],
      models: shown(state.models),
      reduction: state.reduction !== null && meta.reductions.includes(state.reduction) ? state.reduction : (meta.reductions[0] ?? null),
      colour: state.colour,
      subset,
      lasso: state.lasso,
      members,
      samples,
      sample: known ?? samples[0] ?? null,
      at: state.at?.length === meta.axes.length ? [...state.at] : [...meta.coordinates[meta.identity]],
      explainer: state.explainer !== null && meta.explainers.includes(state.explainer) ? state.explainer : null,
    };
  };
}

function classOf(meta: Meta, subset: number | null): Int32Array {
  const found = new Int32Array(meta.samples).map((_, i) => i);
  return subset === null ? found : found.filter((i) => meta.labels?.[i] === subset);
}

/** A subset by its name, or by its number where it has none. */
export function groupName(meta: Meta, label: number): string {
  return meta.groups[label] ?? meta.classes[label] ?? String(label);
}

/** A sample in words: its number in the run, and its subset. */
export function sampleName(meta: Meta, sample: number): string {
  const label = meta.labels?.[sample] ?? null;
  const number = `sample ${meta.numbers?.[sample] ?? sample}`;
  return label === null ? number : `${number}, ${groupName(meta, label)}`;
}

export const REFERENCE: Record<Reference, string> = { truth: "ground truth", consensus: "consensus" };

/** The level of the run's intervals. */
export function levelOf({ confidence }: Meta): number {
  return confidence ?? 0.95;
}
