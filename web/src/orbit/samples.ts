import { guard, memo } from "../cache";
import { el, keep } from "../dom";
import { share } from "../format";
import { floats } from "../packed";
import { Panel } from "../panel";
import { nearest, placeLabel } from "../plots/orbit";
import type { Store } from "../store";
import { measuredBy, sampleName } from "./chosen";
import { frame, pairTables, type Compared, type Pair } from "./compared";
import { axisRange, moments } from "./compute";
import { errorTop, IndividualPlot } from "./individual";
import { errorsBy } from "./moved";
import { isShare, metricLabel, type Scene, type Scenes } from "./scene";
import { Side } from "./side";

const NAMES = ["First", "Second"] as const;

/** Two samples at one place: their orbits on one scale, input and outputs of both, and the differences (the paper's Figure 5). */
export class Samples implements Compared {
  readonly node: HTMLElement;
  private readonly said: HTMLElement;
  private readonly columns: { panel: Panel; plot: IndividualPlot; side: Side }[];
  private readonly figures = el("div", {});
  private readonly means = memo((values: Float32Array[], K: number) => values.map((one) => moments(one, K).mean));
  private readonly other = guard();

  constructor(
    scenes: Scenes,
    store: Store,
    on: { move(at: number[], final: boolean): void; hold(): void; swap(): void },
    retry: () => void,
  ) {
    this.columns = NAMES.map((name) => {
      const panel: Panel = new Panel(`samples-plot-${name}`, `${name} orbit`, retry, () => plot.table());
      const plot = new IndividualPlot(panel.host, `the ${name.toLowerCase()} sample`, on.move);
      return { panel, plot, side: new Side(`samples-side-${name}`, `${name} sample`, scenes, retry) };
    });
    const hold = el("button", { type: "button", "data-testid": "hold", title: "Keep this sample as the second one, then choose another (h)", onclick: on.hold }, "Hold this sample");
    const swap = el("button", { type: "button", "data-testid": "swap", onclick: on.swap }, "Swap");
    const panels = this.columns.flatMap(({ panel, side }) => [panel.node, side.panel.node]);
    const made = frame("samples", [hold, swap], () => store.set({ view: null }), el("div", { class: "panels" }, ...panels), this.figures);
    this.node = made.node;
    this.said = made.said;
  }

  render(scene: Scene): void {
    const { meta, pick, shown, values } = scene;
    const both = [pick.sample, pick.second];
    const k = nearest(meta, pick.at);
    keep(this.said, { textContent: "Both plots have one scale. Choose the first sample above or by [ and ]; hold one to make it the second." });
    const K = meta.coordinates.length;
    const found = values.state === "ready" ? values.value : null;
    const rows = found === null ? [] : both.flatMap((sample) => found.map((one) => one.subarray((sample ?? 0) * K, ((sample ?? 0) + 1) * K)));
    const top = topOf(scene);
    const scale = { range: axisRange(...pick.bounds, ...rows), top };
    this.columns.forEach(({ panel, plot, side }, i) => {
      const [sample, packed] = [both[i], [scene.framed, scene.second][i]];
      if (sample === null || packed === null) return panel.empty("There is no sample to show.");
      panel.describe(sampleName(meta, sample));
      side.panel.describe(placeLabel(meta, meta.coordinates[k]));
      const own = { ...scene, packed, pick: { ...pick, sample, at: meta.coordinates[k] } };
      if (panel.show(values)) plot.update(own, null, values.value, scale);
      side.render(scene, sample, k, packed, top);
    });
    if (found === null || pick.sample === null || pick.second === null) return;
    if (!this.other(found, shown, pick.sample, pick.second, k, pick.metric, pick.reference)) return;
    const [a, b] = [pick.sample, pick.second];
    const means = this.means(found, K);
    const { unit } = pick.metric;
    const label = metricLabel(pick.metric, pick.reference);
    const models = shown.map((model, i) => {
      const pair = (what: string, first: number, second: number, marked: boolean): Pair => ({ what, unit, values: [first, second], marked, ...(isShare(pick.metric) ? { say: share } : {}) });
      const here = pair(`${label} at ${meta.elements[k]}`, found[i][a * K + k], found[i][b * K + k], false);
      return { ...model, pairs: [pair(`${label}, mean along the orbit`, means[i][a], means[i][b], true), here] };
    });
    const said = `${measuredBy(pick)}; difference: second less first`;
    this.figures.replaceChildren(pairTables("samples-table", said, [sampleName(meta, a), sampleName(meta, b)], models));
  }

  destroy(): void {
    for (const { plot, side } of this.columns) {
      plot.destroy();
      side.destroy();
    }
  }
}

/** Where the colours of both samples' error maps end; undefined if they have none. */
function topOf({ pick, shown, framed, second }: Scene): number | undefined {
  const found = [framed, second].flatMap((packed) =>
    packed?.state === "ready" ? shown.flatMap(({ name }) => floats(packed.value.arrays.get(errorsBy(pick.reference) + name)) ?? []) : [],
  );
  return found.length > 0 ? Math.max(...found.map(errorTop)) : undefined;
}
