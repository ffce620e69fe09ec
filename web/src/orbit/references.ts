import { guard, memo } from "../cache";
import { el, keep } from "../dom";
import { number, share } from "../format";
import { floats } from "../packed";
import { Panel } from "../panel";
import { nearest } from "../plots/orbit";
import type { Store } from "../store";
import type { Meta, Reference } from "../types";
import { AggregatePlot, chosenSamples, reached } from "./aggregate";
import { REFERENCE, sampleName } from "./chosen";
import { frame, pairTables, type Compared, type Pair } from "./compared";
import { axisRange, moments } from "./compute";
import { errorTop, IndividualPlot } from "./individual";
import { errorsBy } from "./moved";
import { isShare, type Scene } from "./scene";

const BOTH: [Reference, Reference] = ["truth", "consensus"];

/** The plots against the truth beside those against the consensus, of one sample and of the mean (the paper's Figure 12). */
export class References implements Compared {
  readonly node: HTMLElement;
  private readonly said: HTMLElement;
  private readonly columns: { reference: Reference; single: Panel; own: IndividualPlot; whole: Panel; mean: AggregatePlot }[];
  private readonly figures = el("div", {});
  private readonly moments = memo((truth: Float32Array[], consensus: Float32Array[], K: number) => [truth, consensus].map((values) => values.map((one) => moments(one, K).mean)));
  private readonly other = guard();

  constructor(store: Store, move: (at: number[], final: boolean) => void, retry: () => void) {
    this.columns = BOTH.map((reference) => {
      const by = `by the ${REFERENCE[reference]}`;
      const single: Panel = new Panel(`references-sample-${reference}`, `Sample, ${by}`, retry, () => own.table());
      const whole: Panel = new Panel(`references-mean-${reference}`, `Mean, ${by}`, retry, () => mean.table());
      const own = new IndividualPlot(single.host, `one sample, ${by}`, move);
      const mean = new AggregatePlot(whole.host, `the chosen samples, ${by}`, move);
      return { reference, single, own, whole, mean };
    });
    const panels = [...this.columns.map(({ single }) => single), ...this.columns.map(({ whole }) => whole)].map(({ node }) => node);
    const made = frame("references", [], () => store.set({ view: null }), el("div", { class: "panels pairs" }, ...panels), this.figures);
    this.node = made.node;
    this.said = made.said;
  }

  render(scene: Scene): void {
    const { meta, pick, shown, references, packed } = scene;
    const panels = this.columns.flatMap(({ single, whole }) => [single, whole]);
    if (references === null) {
      keep(this.said, { textContent: pick.metric.explainer ? "An explanation is compared with the one at the identity: choose another metric." : "This run has no ground truth to stand beside the consensus." });
      for (const panel of panels) panel.empty("There is nothing to compare.");
      return this.figures.replaceChildren();
    }
    keep(this.said, { textContent: "Both plots of a row have one scale. Where they are alike, the consensus can stand in for the ground truth." });
    if (references.state !== "ready") return panels.forEach((panel) => void panel.show(references));
    const { sample } = pick;
    const K = meta.coordinates.length;
    const values = references.value;
    const rows = sample === null ? [] : values.flat().map((one) => one.subarray(sample * K, (sample + 1) * K));
    const maps = packed?.state === "ready" ? BOTH.flatMap((reference) => shown.flatMap(({ name }) => floats(packed.value.arrays.get(errorsBy(reference) + name)) ?? [])) : [];
    const scale = { range: axisRange(...pick.bounds, ...rows), ...(maps.length > 0 ? { top: Math.max(...maps.map(errorTop)) } : {}) };
    const aggregates = this.columns.map(({ mean }, i) => mean.of(scene, values[i]));
    const range = axisRange(...pick.bounds, ...reached(aggregates.flat()));
    this.columns.forEach(({ reference, single, own, whole, mean }, i) => {
      const by = { ...scene, pick: { ...pick, reference } };
      if (sample === null) single.empty("Choose a sample to see its orbit.");
      else {
        single.describe(sampleName(meta, sample));
        single.show(references);
        own.update(by, null, values[i], scale);
      }
      whole.describe(chosenSamples(scene));
      if (pick.samples.length === 0) return whole.empty("No sample is both in this subset and in the lasso.");
      whole.show(references);
      mean.update(by, values[i], range);
    });
    const k = nearest(meta, pick.at);
    if (!this.other(values, shown, sample, k, pick.metric, pick.samples)) return;
    const means = this.moments(...values, K);
    const { label, unit } = pick.metric;
    const models = shown.map((model, m) => {
      const pair = (what: string, of: (i: number) => number, marked = false): Pair => ({ what, unit, values: [of(0), of(1)], marked, ...(isShare(pick.metric) ? { say: share } : {}) });
      const single = sample === null ? [] : [pair(`${label} along the orbit, ${sampleName(meta, sample)}`, (i) => means[i][m][sample], true), pair(`${label} at ${meta.elements[k]}, ${sampleName(meta, sample)}`, (i) => values[i][m][sample * K + k])];
      const all = pick.samples.length === 0 ? [] : [pair(`${label} along the orbit, mean of ${chosenSamples(scene)}`, (i) => aggregates[i][m].overall, true), pair(`${label} at ${meta.elements[k]}, mean of ${chosenSamples(scene)}`, (i) => aggregates[i][m].mean[k])];
      return { ...model, pairs: [...single, ...all], more: correlations(meta, model.name, pick.metric.name) };
    });
    this.figures.replaceChildren(pairTables("references-table", "difference: consensus less ground truth", [`By the ${REFERENCE.truth}`, `By the ${REFERENCE.consensus}`], models));
  }

  destroy(): void {
    for (const { own, mean } of this.columns) {
      own.destroy();
      mean.destroy();
    }
  }
}

/** How alike the run's plots are, over all of its samples. */
function correlations(meta: Meta, model: string, metric: string): string {
  const found = meta.agreement.find((row) => row.model === model && row.metric === metric);
  return found === undefined ? "" : `correlation of the plots ${number(found.correlation)} per sample and ${number(found.aggregate)} of the means, over all samples`;
}
