import { guard, memo } from "../cache";
import { count, number } from "../format";
import { Panel } from "../panel";
import { orbitPlot, type OrbitPlot } from "../plots/orbit";
import { groupName, levelOf } from "./chosen";
import { aggregate, axisRange, type Aggregate } from "./compute";
import { metricName, type Scene } from "./scene";

/** The chosen metric's mean over the chosen samples, along the orbit. */
export class AggregatePanel {
  readonly panel: Panel;
  private readonly plot: OrbitPlot;
  private readonly means = memo((values: Float32Array[], samples: Int32Array, K: number, low: number, high: number, confidence: number): Aggregate[] =>
    values.map((one) => aggregate(one, K, samples, [low, high], confidence)),
  );
  private readonly other = guard();

  constructor(move: (at: number[], final: boolean) => void, retry: () => void) {
    this.panel = new Panel("aggregate", "Aggregate", retry);
    this.plot = orbitPlot(this.panel.host, "all samples", move);
  }

  render({ meta, pick, shown, values }: Scene): void {
    const whose = pick.lasso !== null ? " in the lasso" : pick.subset !== null ? ` of class ${groupName(meta, pick.subset)}` : "";
    this.panel.describe(count(pick.samples.length, "sample") + whose);
    if (!this.panel.show(values)) return;
    if (pick.samples.length === 0) return this.panel.empty("No sample is both in this subset and in the lasso.");
    const { low, high, unit } = pick.metric;
    const means = this.means(values.value, pick.samples, meta.coordinates.length, low ?? -Infinity, high ?? Infinity, levelOf(meta));
    if (!this.other(means, shown, pick.metric, pick.at.join())) return;
    this.plot.update({
      ...meta,
      curves: shown.map(({ name, colour }, i) => ({ model: name, colour, values: means[i].mean, low: means[i].low, high: means[i].high })),
      range: axisRange(low, high, ...means.flatMap((one) => [one.mean, one.low, one.high])),
      higherIsBetter: pick.metric.higher_is_better,
      cursor: pick.at,
      metric: metricName(pick.metric),
    });
    this.panel.readout("Mean over the orbit", shown.map(({ name, colour }, i) => ({ colour, text: `${name} ${number(means[i].overall)}${unit ? ` ${unit}` : ""}` })));
  }

  destroy(): void {
    this.plot.destroy();
  }
}
