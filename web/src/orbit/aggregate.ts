import { guard, memo } from "../cache";
import { count, number } from "../format";
import { Panel } from "../panel";
import { orbitPlot, type OrbitPlot } from "../plots/orbit";
import type { Table } from "../save";
import { groupName, levelOf, measuredBy } from "./chosen";
import { aggregate, axisRange, type Aggregate } from "./compute";
import { isShare, metricLabel, metricName, type Scene } from "./scene";

/** The plot of a metric's mean over the chosen samples, along the orbit. */
export class AggregatePlot {
  private readonly plot: OrbitPlot;
  private readonly means = memo((values: Float32Array[], samples: Int32Array, K: number, low: number, high: number, confidence: number): Aggregate[] =>
    values.map((one) => aggregate(one, K, samples, [low, high], confidence)),
  );
  private readonly other = guard();

  constructor(host: HTMLElement, whose: string, move: (at: number[], final: boolean) => void) {
    this.plot = orbitPlot(host, whose, move);
  }

  /** The numbers that are drawn. */
  of({ meta, pick }: Scene, values: Float32Array[]): Aggregate[] {
    const { low, high } = pick.metric;
    return this.means(values, pick.samples, meta.coordinates.length, low ?? -Infinity, high ?? Infinity, levelOf(meta));
  }

  /** Draws the mean, on the scale of its own values unless another one is given. */
  update(scene: Scene, values: Float32Array[], range?: [number, number]): void {
    const { meta, pick, shown } = scene;
    const means = this.of(scene, values);
    if (!this.other(means, shown, pick.metric, pick.reference, pick.at.join(), pick.bounds.join(), range?.join())) return;
    this.plot.update({
      ...meta,
      curves: shown.map(({ name, colour }, i) => ({ model: name, colour, values: means[i].mean, low: means[i].low, high: means[i].high })),
      range: range ?? axisRange(...pick.bounds, ...reached(means)),
      higherIsBetter: pick.metric.higher_is_better,
      cursor: pick.at,
      metric: metricName(pick.metric, pick.reference),
      share: isShare(pick.metric),
    });
  }

  table(): Table | null {
    return this.plot.table();
  }

  destroy(): void {
    this.plot.destroy();
  }
}

/** What a plot of means has to reach: the means and their bands. */
export function reached(means: Aggregate[]): Float32Array[] {
  return means.flatMap(({ mean, low, high }) => [mean, low, high]);
}

/** Whose mean is drawn, in words. */
export function chosenSamples({ meta, pick }: Scene): string {
  const whose = pick.lasso !== null ? " in the lasso" : pick.subset !== null ? ` of class ${groupName(meta, pick.subset)}` : "";
  return count(pick.samples.length, "sample") + whose;
}

/** The chosen metric's mean over the chosen samples, along the orbit. */
export class AggregatePanel {
  readonly panel: Panel;
  private readonly plot: AggregatePlot;

  constructor(move: (at: number[], final: boolean) => void, retry: () => void) {
    this.panel = new Panel("aggregate", "Aggregate", retry, () => this.plot.table());
    this.plot = new AggregatePlot(this.panel.host, "all samples", move);
  }

  render(scene: Scene): void {
    const { pick, shown, values } = scene;
    this.panel.describe(chosenSamples(scene));
    if (!this.panel.show(values)) return;
    if (pick.samples.length === 0) return this.panel.empty("No sample is both in this subset and in the lasso.");
    this.plot.update(scene, values.value);
    const { unit } = pick.metric;
    const means = this.plot.of(scene, values.value);
    this.panel.readout(`Mean over the orbit: ${metricLabel(pick.metric, pick.reference)}, ${measuredBy(pick)}`, shown.map(({ name, colour }, i) => ({ colour, text: `${name} ${number(means[i].overall)}${unit ? ` ${unit}` : ""}` })));
  }

  destroy(): void {
    this.plot.destroy();
  }
}
