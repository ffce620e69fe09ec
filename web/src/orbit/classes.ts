import { guard, memo } from "../cache";
import { el, keep, swatch } from "../dom";
import { count, number } from "../format";
import { better, metricTitle } from "../plots/panels";
import { orbitPlot, type OrbitPlot } from "../plots/orbit";
import { rangeBar } from "../plots/rangebar";
import type { Store } from "../store";
import { groupName, levelOf, measuredBy } from "./chosen";
import { frame, type Compared } from "./compared";
import { aggregate, axisRange, type Aggregate } from "./compute";
import { metricName, type Scene } from "./scene";

/** Of more classes, those with the most samples are drawn. */
const MOST = 48;
/** Forms whose values are colours, which need a bar to be read. */
const COLOURED = new Set(["heatmap", "slices", "disk", "tiles"]);

interface Group {
  label: number;
  samples: Int32Array;
}

/** The mean plot of every class, all on one scale (the paper's Figure 4); a click shows the class alone in the views above. */
export class Classes implements Compared {
  readonly node: HTMLElement;
  private readonly said: HTMLElement;
  private readonly grid = el("div", { class: "classes" });
  private readonly bar = el("div", { class: "class-bar" });
  private plots: OrbitPlot[] = [];
  private buttons: { label: number; node: HTMLButtonElement }[] = [];
  private readonly other = guard();
  private readonly groups = memo((labels: (number | null)[]) => groupsOf(labels));
  private readonly means = memo((values: Float32Array[], groups: Group[], K: number, low: number, high: number, level: number): Aggregate[][] =>
    groups.map(({ samples }) => values.map((one) => aggregate(one, K, samples, [low, high], level))),
  );

  constructor(private readonly store: Store) {
    const made = frame("classes", [], () => store.set({ view: null }), this.grid, this.bar);
    this.node = made.node;
    this.said = made.said;
  }

  render({ meta, pick, shown, values }: Scene): void {
    for (const { label, node } of this.buttons) node.setAttribute("aria-pressed", String(label === pick.subset));
    if (meta.labels === null) return keep(this.said, { textContent: "The samples of this run have no classes." });
    const all = this.groups(meta.labels);
    const groups = all.slice(0, MOST);
    const some = groups.length < all.length ? ` The ${MOST} classes of ${all.length} with the most samples.` : "";
    keep(this.said, { textContent: `${metricName(pick.metric, pick.reference)} ${measuredBy(pick)}: the mean of every class, on one scale.${some} Press one to see it alone above.` });
    if (values.state !== "ready" || !this.other(values.value, shown, pick.metric, pick.reference, pick.bounds.join())) return;
    const { low, high, unit } = pick.metric;
    const means = this.means(values.value, groups, meta.coordinates.length, low ?? -Infinity, high ?? Infinity, levelOf(meta));
    const range = axisRange(...pick.bounds, ...means.flat().map(({ mean }) => mean));
    const drawn = { ...meta, range, higherIsBetter: pick.metric.higher_is_better, cursor: null, metric: metricName(pick.metric, pick.reference), compact: true };
    this.clear();
    const order = groups.map((_, i) => i).sort((i, j) => groups[i].label - groups[j].label);
    this.buttons = order.map((i) => {
      const { label, samples } = groups[i];
      const name = groupName(meta, label);
      const host = el("span", { class: "class-plot" });
      const lines = shown.map((model, m) => el("span", { "data-model": model.name }, swatch(model.colour), `${number(means[i][m].overall)}${unit ? ` ${unit}` : ""}`));
      const words = [el("strong", {}, name), el("span", { class: "quiet" }, count(samples.length, "sample")), el("span", { class: "class-means" }, ...lines)];
      const press = (): void => this.choose(label);
      return { label, node: el("button", { type: "button", class: "class", "data-class": label, "aria-pressed": String(label === pick.subset), onclick: press }, host, ...words) };
    });
    this.grid.replaceChildren(...this.buttons.map(({ node }) => node));
    this.plots = order.map((i, place) => {
      const host = this.buttons[place].node.querySelector<HTMLElement>(".class-plot")!;
      const plot = orbitPlot(host, groupName(meta, groups[i].label));
      const curves = shown.map((model, m) => ({ model: model.name, colour: model.colour, values: means[i][m].mean, low: means[i][m].low, high: means[i][m].high }));
      plot.update({ ...drawn, curves });
      return plot;
    });
    const named = shown.map(({ name, colour }) => el("span", { class: "class-model" }, swatch(colour), name));
    this.bar.replaceChildren(...named, ...(COLOURED.has(meta.layout) ? [rangeBar(range, `${drawn.metric} (${better(drawn.higherIsBetter)})`)] : [el("span", { class: "quiet" }, `every plot: ${metricTitle(drawn)}`)]));
  }

  destroy(): void {
    this.clear();
  }

  /** Shows a class alone, or all samples again. */
  private choose(label: number): void {
    this.store.set({ subset: this.store.state.subset === label ? null : label, sample: null, lasso: null });
  }

  private clear(): void {
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
  }
}

/** The samples of every class, the largest class first. */
function groupsOf(labels: (number | null)[]): Group[] {
  const found = new Map<number, number[]>();
  labels.forEach((label, sample) => {
    if (label === null) return;
    const own = found.get(label) ?? [];
    own.push(sample);
    found.set(label, own);
  });
  const groups = [...found].map(([label, samples]) => ({ label, samples: Int32Array.from(samples) }));
  return groups.sort((a, b) => b.samples.length - a.samples.length || a.label - b.label);
}
