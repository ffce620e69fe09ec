import { guard, memo } from "../cache";
import { Choice, el, keep, mark } from "../dom";
import { count, number } from "../format";
import { Panel } from "../panel";
import { scatter } from "../plots/scatter";
import type { ColourBy } from "../state";
import type { Store } from "../store";
import { sampleName } from "./chosen";
import { across, extent } from "./compute";
import type { Scene } from "./scene";

const METHODS: Record<string, string> = { pca: "PCA", ica: "ICA", isomap: "Isomap", tsne: "t-SNE", umap: "UMAP" };
const COLOURS: ColourBy[] = ["mean", "variance"];

/** Every sample's orbit as a point: alike ones lie close together. */
export class ScatterPanel {
  readonly panel: Panel;
  private readonly plot: ReturnType<typeof scatter>;
  private readonly reduction: Choice;
  private readonly colour: Choice;
  private readonly rank: HTMLInputElement;
  private readonly ranked = el("output", { class: "quiet" });
  private readonly clear: HTMLButtonElement;
  private order: Int32Array = new Int32Array(0);
  private readonly other = guard();
  private readonly flat = memo((colours: Float32Array[]) => joined(colours));
  private readonly range = memo((values: Float32Array) => extent(values));
  private readonly average = memo(across);
  private readonly lasso = memo((samples: readonly number[] | null) => (samples === null ? null : new Set(samples)));
  private readonly shown = memo((samples: number, subset: Int32Array, models: number) => flags(samples, subset, models));

  constructor(store: Store, retry: () => void) {
    this.panel = new Panel("scatter", "Similar orbits", retry);
    this.plot = scatter(this.panel.host, {
      pick: (sample) => store.set({ sample }),
      lasso: (samples) => store.set({ lasso: samples !== null && samples.length > 0 ? [...samples].sort((a, b) => a - b) : null }),
    });
    this.reduction = new Choice("Reduction", "reduction", (reduction) => store.set({ reduction }));
    this.colour = new Choice("Colour", "colour", (colour) => store.set({ colour: colour as ColourBy }));
    this.rank = el("input", { type: "range", min: 0, step: 1, "data-testid": "rank", "aria-label": "Sample by rank", oninput: () => this.slide(store) });
    this.clear = el("button", { type: "button", "data-testid": "lasso-clear", onclick: () => store.set({ lasso: null }) });
    this.panel.tools.append(this.reduction.node, this.colour.node, this.clear, el("label", { class: "rank" }, "Rank", this.rank, this.ranked));
  }

  render(scene: Scene): void {
    const { meta, pick, shown, points, colours, order } = scene;
    this.reduction.update(meta.reductions.map((value) => ({ value, text: METHODS[value] ?? value })), pick.reduction ?? "");
    this.colour.update(COLOURS.map((value) => ({ value, text: value })), pick.colour);
    keep(this.clear, { hidden: pick.lasso === null, textContent: `Clear the lasso (${pick.lasso?.length ?? 0})` });
    this.panel.describe(`${count(shown.length, "model")}, joint embedding`);
    if (colours.state === "ready" && order.state === "ready") this.place(scene, order.value, this.average(colours.value));
    if (points === null) return this.panel.empty("This file holds no embedding of the orbits.");
    if (!this.panel.show(points) || !this.panel.show(colours)) return;
    const value = this.flat(colours.value);
    const members = this.shown(meta.samples, pick.members, shown.length);
    if (!value.some((one, i) => members[i] === 1 && !Number.isNaN(one))) return this.panel.empty("This metric is undefined along every orbit shown.");
    if (!this.other(points.value, value, shown, pick.members, pick.lasso, pick.sample, pick.colour, pick.metric, scene.thumbnails)) return;
    this.plot.update({
      points: points.value,
      models: shown.map(({ name }) => name),
      colours: shown.map(({ colour }) => colour),
      samples: meta.samples,
      shown: members,
      value,
      valueRange: this.range(value),
      valueLabel: `${pick.colour} of ${pick.metric.label} along the orbit (${direction(pick)})`,
      selected: pick.sample ?? -1,
      lasso: this.lasso(pick.lasso),
      thumbnails: scene.thumbnails,
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

  private place({ pick }: Scene, order: Int32Array, value: Float32Array): void {
    this.order = order;
    const now = pick.sample === null ? -1 : order.indexOf(pick.sample);
    keep(this.rank, { max: String(Math.max(0, order.length - 1)), value: String(Math.max(0, now)), disabled: order.length < 2 });
    const text = now < 0 ? `– of ${order.length}` : `${now + 1} of ${order.length} · ${pick.colour} ${number(value[order[now]])}`;
    keep(this.ranked, { textContent: text });
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

/** What is good in the colours: a mean has its metric's own direction, and a variance is best where there is none. */
function direction({ colour, metric }: Scene["pick"]): string {
  return colour === "variance" ? "lower is steadier" : `${metric.higher_is_better ? "higher" : "lower"} is better`;
}
