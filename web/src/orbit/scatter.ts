import { guard, memo } from "../cache";
import { Choice, el, keep, mark } from "../dom";
import { count, number } from "../format";
import { Panel } from "../panel";
import type { GlyphData } from "../plots/glyphs";
import { better } from "../plots/panels";
import { scatter } from "../plots/scatter";
import { COLOURS, type ColourBy } from "../state";
import type { Store } from "../store";
import type { Meta, MetricInfo, Reference } from "../types";
import { sampleName } from "./chosen";
import { axisRange, extent, moments } from "./compute";
import { metricLabel, metricName, type Ranking, type Scene, type Shown } from "./scene";

const METHODS: Record<string, string> = { pca: "PCA", ica: "ICA", isomap: "Isomap", tsne: "t-SNE", umap: "UMAP" };
/** Methods that take some samples of many, and whose axes mean nothing. */
const SLOW = ["isomap", "tsne", "umap"];
const COLOUR_NAMES: Record<ColourBy, string> = { mean: "mean", variance: "variance", difference: "difference between models" };

const COLOUR_TITLES: Record<ColourBy, string> = { mean: "mean along the orbit", variance: "variance along the orbit", difference: "largest difference between models" };

/** Every sample's orbit as a point: alike ones lie close together. */
export class ScatterPanel {
  readonly panel: Panel;
  private readonly plot: ReturnType<typeof scatter>;
  private readonly reduction: Choice;
  private readonly colour: Choice;
  private readonly by: Choice;
  private readonly rank: HTMLInputElement;
  private readonly ranked = el("output", { class: "ranked", "data-testid": "ranked" });
  private readonly clear: HTMLButtonElement;
  private readonly plots: HTMLButtonElement;
  private order: Int32Array = new Int32Array(0);
  private readonly other = guard();
  private readonly flat = memo((colours: Float32Array[]) => joined(colours));
  private readonly range = memo((values: Float32Array) => extent(values));
  private readonly lasso = memo((samples: readonly number[] | null) => (samples === null ? null : new Set(samples)));
  private readonly glyphs = memo(glyphsOf);
  private readonly beside = memo(withChosen);
  private readonly shown = memo((samples: number, subset: Int32Array, models: number) => flags(samples, subset, models));

  constructor(store: Store, retry: () => void) {
    this.panel = new Panel("scatter", "Similar orbits", retry, () => this.plot.table());
    this.plot = scatter(this.panel.host, {
      pick: (sample) => store.set({ sample }),
      lasso: (samples) => store.set({ lasso: samples !== null && samples.length > 0 ? [...samples].sort((a, b) => a - b) : null }),
    });
    this.reduction = new Choice("Reduction", "reduction", (reduction) => store.set({ reduction }));
    this.colour = new Choice("Colour", "colour", (colour) => store.set({ colour: colour as ColourBy }));
    this.by = new Choice("Rank", "rank-by", (rank) => store.set({ rank: rank as ColourBy }));
    this.rank = el("input", { type: "range", min: 0, step: 1, "data-testid": "rank", "aria-label": "Sample by rank", oninput: () => this.slide(store) });
    this.clear = el("button", { type: "button", "data-testid": "lasso-clear", onclick: () => store.set({ lasso: null }) });
    const turn = (): void => store.set({ glyphs: !store.state.glyphs });
    this.plots = el("button", { type: "button", "data-testid": "glyphs", title: "Draw the orbits beside their points (g)", onclick: turn }, "Plots");
    this.panel.tools.append(this.reduction.node, this.colour.node, this.plots, el("div", { class: "rank" }, this.by.node, this.rank), el("div", { class: "rank ranks" }, this.ranked, this.clear));
  }

  render(scene: Scene): void {
    const { meta, pick, shown, points, colours, order } = scene;
    this.reduction.update(meta.reductions.map((value) => ({ value, text: METHODS[value] ?? value })), pick.reduction ?? "");
    const known = COLOURS.filter((one) => one !== "difference" || scene.differences !== null);
    for (const [choice, value] of [[this.colour, pick.colour], [this.by, pick.rank]] as const) choice.update(known.map((one) => ({ value: one, text: COLOUR_NAMES[one] })), value);
    mark(this.plots, { "aria-pressed": String(pick.glyphs) });
    keep(this.clear, { hidden: pick.lasso === null, textContent: `Clear the lasso (${pick.lasso?.length ?? 0})` });
    const method = METHODS[pick.reduction ?? ""] ?? pick.reduction ?? "";
    this.panel.describe(`${count(shown.length, "model")}, joint embedding`);
    if (order.state === "ready") this.place(scene, order.value);
    if (points === null) return this.panel.empty("This file holds no embedding of the orbits.");
    if (!this.panel.show(points, `Computing ${method} of all orbits…`) || !this.panel.show(colours)) return;
    const value = this.flat(colours.value);
    const members = this.shown(meta.samples, pick.members, shown.length);
    if (!value.some((one, i) => members[i] === 1 && !Number.isNaN(one))) return this.panel.empty("This metric is undefined along every orbit shown.");
    if (!this.other(points.value, value, shown, pick.members, pick.lasso, pick.sample, pick.colour, pick.metric, scene.thumbnails, pick.glyphs, pick.bounds.join())) return;
    const some = SLOW.includes(pick.reduction ?? "") ? drawnOf(points.value, value, meta.samples, pick.members) : null;
    const beside = some === null || scene.values.state !== "ready" ? null : this.beside(points.value, scene.values.value, meta.samples, pick.sample ?? -1);
    this.panel.describe([count(shown.length, "model"), some ?? "joint embedding"].join(", "));
    this.panel.readout(beside === null ? "" : `${sampleName(meta, pick.sample ?? 0)} is none of them: it stands at the most similar orbit that is drawn.`, []);
    const glyphs = pick.glyphs && scene.values.state === "ready" ? this.glyphs(meta, shown, scene.values.value, pick.metric, pick.reference, ...pick.bounds) : null;
    this.plot.update({
      embedding: points.value,
      points: beside ?? points.value,
      axes: SLOW.includes(pick.reduction ?? "") ? `${method}: alike orbits are close; directions and distances mean nothing` : null,
      models: shown.map(({ name }) => name),
      colours: shown.map(({ colour }) => colour),
      samples: meta.samples,
      shown: members,
      value,
      valueRange: this.range(value),
      valueLabel: `${COLOUR_TITLES[pick.colour]}: ${metricLabel(pick.metric, pick.reference)} (${direction(pick)})`,
      selected: pick.sample ?? -1,
      lasso: this.lasso(pick.lasso),
      thumbnails: scene.thumbnails,
      glyphs,
      label: (sample) => sampleName(meta, sample),
    });
  }

  /** The sample so many ranks away from the chosen one. */
  neighbour(sample: number | null, by: number): number | null {
    const now = sample === null ? -1 : this.order.indexOf(sample);
    return this.order[Math.min(this.order.length - 1, Math.max(0, now + by))] ?? null;
  }

  destroy(): void {
    this.plot.destroy();
  }

  private place({ meta, pick, differences }: Scene, { samples: order, value }: Ranking): void {
    this.order = order;
    const now = pick.sample === null ? -1 : order.indexOf(pick.sample);
    keep(this.rank, { max: String(Math.max(0, order.length - 1)), value: String(Math.max(0, now)), disabled: order.length < 2 });
    const element = pick.rank === "difference" && differences?.state === "ready" ? differences.value.element[order[now] ?? -1] : undefined;
    const where = element === undefined || element < 0 ? "" : ` at ${meta.elements[element]}`;
    const tied = now < 0 ? 0 : order.filter((one) => value[one] === value[order[now]]).length - 1;
    const equal = tied > 0 ? `, ${tied.toLocaleString("en")} equal` : "";
    const text = now < 0 ? `– of ${order.length}` : `${now + 1} of ${order.length}${equal} · ${pick.rank} ${number(value[order[now]])}${where}`;
    keep(this.ranked, { textContent: text, title: text });
    mark(this.rank, { "aria-valuetext": text });
  }

  private slide(store: Store): void {
    const sample = this.order[Number(this.rank.value)];
    if (sample !== undefined) store.set({ sample }, "soon");
  }
}

function joined(arrays: Float32Array[]): Float32Array {
  const found = new Float32Array(arrays.reduce((sum, one) => sum + one.length, 0));
  let at = 0;
  for (const one of arrays) {
    found.set(one, at);
    at += one.length;
  }
  return found;
}

/** Which points belong to the subset. */
function flags(samples: number, subset: Int32Array, models: number): Uint8Array {
  const found = new Uint8Array(samples * models);
  for (let model = 0; model < models; model++) for (const sample of subset) found[model * samples + sample] = 1;
  return found;
}

/** How many of the members are drawn where a method takes some of them alone, in words; null if it takes all. */
function drawnOf(points: Float32Array, value: Float32Array, samples: number, members: Int32Array): string | null {
  const rows = Array.from({ length: value.length / samples }, (_, model) => model * samples);
  const known = (has: (index: number) => boolean): number => members.filter((sample) => rows.some((row) => has(row + sample))).length;
  const [drawn, there] = [known((index) => !Number.isNaN(points[2 * index])), known((index) => !Number.isNaN(value[index]))];
  return drawn < there ? `${drawn.toLocaleString("en")} of ${there.toLocaleString("en")} samples, chosen at random` : null;
}

/** The points with those of a sample that was not taken, each where the most similar orbit lies; null if nothing has to be added. */
function withChosen(points: Float32Array, values: Float32Array[], samples: number, sample: number): Float32Array | null {
  if (sample < 0 || !values.some((_, model) => Number.isNaN(points[2 * (model * samples + sample)]))) return null;
  const K = values[0].length / samples;
  const found = points.slice();
  values.forEach((own, model) => {
    const orbit = own.subarray(sample * K, (sample + 1) * K);
    const at = model * samples + sample;
    if (!Number.isNaN(points[2 * at]) || orbit.every(Number.isNaN)) return;
    let [best, least] = [-1, Infinity];
    values.forEach((others, other) => {
      for (let i = 0; i < samples; i++) {
        if (Number.isNaN(points[2 * (other * samples + i)])) continue;
        const far = distance(orbit, others, i * K);
        if (far < least) [best, least] = [other * samples + i, far];
      }
    });
    if (best >= 0) found.set(points.subarray(2 * best, 2 * best + 2), 2 * at);
  });
  return found.every((one, i) => Object.is(one, points[i])) ? null : found;
}

/** The mean squared difference of an orbit and the one that begins at a place, over the elements that both have. */
function distance(orbit: Float32Array, others: Float32Array, start: number): number {
  let [sum, n] = [0, 0];
  orbit.forEach((value, k) => {
    const far = value - others[start + k];
    if (Number.isNaN(far)) return;
    sum += far * far;
    n++;
  });
  return n > 0 ? sum / n : Infinity;
}

/** The orbit of every point as a small plot of one model, all on one scale. */
function glyphsOf(meta: Meta, shown: Shown[], values: Float32Array[], metric: MetricInfo, reference: Reference, low: number | null, high: number | null): GlyphData {
  const K = meta.coordinates.length;
  const means = values.map((one) => moments(one, K).mean);
  const range = axisRange(low, high, ...values);
  const parts = (index: number): [number, number] => [Math.floor(index / meta.samples), index % meta.samples];
  return {
    orbit(index) {
      const [model, sample] = parts(index);
      const { name, colour } = shown[model];
      const curves = [{ model: name, colour, values: values[model].subarray(sample * K, (sample + 1) * K) }];
      return { ...meta, curves, range, higherIsBetter: metric.higher_is_better, cursor: null, metric: metricName(metric, reference), compact: true };
    },
    mean(index) {
      const [model, sample] = parts(index);
      return means[model][sample];
    },
  };
}

/** What is good in the colours: a mean has its metric's own direction, and a variance is best where there is none. */
function direction({ colour, metric }: Scene["pick"]): string {
  if (colour === "difference") return "lower: they agree";
  return colour === "variance" ? "lower is steadier" : better(metric.higher_is_better);
}
