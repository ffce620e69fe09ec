import { guard } from "../cache";
import { el, keep } from "../dom";
import { chance, share } from "../format";
import { floats } from "../packed";
import { Panel } from "../panel";
import { nearest, placeLabel } from "../plots/orbit";
import type { Store } from "../store";
import type { Meta, Packed } from "../types";
import { REFERENCE, sampleName, type Pin } from "./chosen";
import { frame, pairTables, type Compared, type Pair } from "./compared";
import { IndividualPlot } from "./individual";
import { byReference, stored } from "./moved";
import { isShare, metricLabel, type Scene, type Scenes } from "./scene";
import { Side } from "./side";

/** So many classes are listed whose probabilities differ most. */
const CLASSES = 3;

/** Two measured places of one orbit: input, outputs and metrics at both, and the differences (the paper's Figure 9). */
export class Places implements Compared {
  readonly node: HTMLElement;
  private readonly said: HTMLElement;
  private readonly panel: Panel;
  private readonly plot: IndividualPlot;
  private readonly sides: [Side, Side];
  private readonly figures = el("div", {});
  private readonly buttons: HTMLButtonElement[];
  private readonly other = guard();

  constructor(
    private readonly scenes: Scenes,
    store: Store,
    on: { move(at: number[], final: boolean): void; pin(name: Pin["name"]): void },
    retry: () => void,
  ) {
    this.panel = new Panel("places-plot", "Places", retry, () => this.plot.table());
    this.plot = new IndividualPlot(this.panel.host, "one sample, with the places A and B", on.move);
    this.sides = [new Side("place-A", "A", scenes, retry), new Side("place-B", "B", scenes, retry)];
    this.buttons = (["A", "B"] as const).map((name) => el("button", { type: "button", "data-testid": `pin-${name}`, onclick: () => on.pin(name) }));
    const panels = [this.panel, ...this.sides.map(({ panel }) => panel)].map(({ node }) => node);
    const made = frame("places", this.buttons, () => store.set({ view: null }), el("div", { class: "panels" }, ...panels), this.figures);
    this.node = made.node;
    this.said = made.said;
  }

  render(scene: Scene): void {
    const { meta, pick, shown, values, framed, beside } = scene;
    const here = nearest(meta, pick.at);
    pick.pins.forEach(({ name, pinned, k }, i) => {
      const does = !pinned ? `Pin ${name} here` : k === here ? `Let ${name} go` : `Move ${name} here`;
      keep(this.buttons[i], { textContent: does, title: `${does}: ${measuredAt(meta, here, pick.at)} (${name.toLowerCase()})` });
    });
    if (pick.sample === null || framed === null) return this.panel.empty("Choose a sample to compare two places of its orbit.");
    keep(this.said, { textContent: `${sampleName(meta, pick.sample)}. ${follows(pick.pins)} Both are the nearest measured places.` });
    if (this.panel.show(values)) this.plot.update(scene, null, values.value);
    this.panel.describe(placeLabel(meta, pick.at));
    this.sides.forEach((side, i) => {
      const { k } = pick.pins[i];
      side.panel.describe(measuredAt(meta, k, pick.at));
      side.render(scene, pick.sample ?? 0, k, framed);
    });
    if (framed.state !== "ready" || values.state !== "ready") return;
    const [a, b] = pick.pins.map(({ k }) => k);
    if (!this.other(framed.value, values.value, shown, a, b, pick.metric, pick.reference, beside)) return;
    const names: [string, string] = [`A: ${meta.elements[a]}`, `B: ${meta.elements[b]}`];
    const said = `by the ${REFERENCE[pick.reference]}; difference: B less A`;
    this.figures.replaceChildren(pairTables("places-table", said, names, this.pairs(scene, framed.value, a, b)));
  }

  destroy(): void {
    this.plot.destroy();
    for (const side of this.sides) side.destroy();
  }

  /** The metrics of every model, the chosen one first, and the class probabilities that differ most. */
  private pairs({ meta, pick, shown }: Scene, packed: Packed, a: number, b: number): { name: string; colour: string; pairs: Pair[] }[] {
    const sample = pick.sample ?? 0;
    const [first, second] = [a, b].map((k) => stored(meta, sample, k, packed, this.scenes.stored(sample, k)));
    return shown.map((model) => {
      const [before, after] = [first, second].map((one) => byReference(one, model.name, pick.reference));
      const known = [pick.metric, ...meta.metrics.filter((one) => one !== pick.metric)].filter(({ name }) => name in before);
      const metrics = known.map((metric): Pair => ({
        what: metricLabel(metric, pick.reference),
        unit: metric.unit,
        ...(isShare(metric) ? { say: share } : {}),
        values: [before[metric.name] ?? NaN, after[metric.name] ?? NaN],
        marked: metric === pick.metric,
      }));
      const [p, q] = [first, second].map(({ arrays }) => floats(arrays.get(`outputs/${model.name}`)));
      return { ...model, pairs: [...metrics, ...(meta.task === "classification" && p && q ? classes(meta, p, q) : [])] };
    });
  }
}

/** The classes whose probabilities differ most between two outputs. */
function classes(meta: Meta, p: Float32Array, q: Float32Array): Pair[] {
  const order = Array.from(p, (_, index) => index).sort((i, j) => Math.abs(q[j] - p[j]) - Math.abs(q[i] - p[i]) || i - j);
  return order.slice(0, CLASSES).map((index) => ({
    what: `probability of ${meta.classes[index] ?? `class ${index}`}`,
    unit: "",
    values: [p[index], q[index]],
    marked: false,
    say: chance,
  }));
}

/** A measured place, with the chosen one where that lies between measured places and is nearest to it. */
function measuredAt(meta: Meta, k: number, at: number[]): string {
  const between = nearest(meta, at) === k && placeLabel(meta, at) !== meta.elements[k];
  return `${meta.elements[k]} (${between ? `measured; you are at ${placeLabel(meta, at)}` : "measured"})`;
}

/** What moves while somebody drags. */
function follows([a, b]: [Pin, Pin]): string {
  if (a.pinned && b.pinned) return "Both places are pinned.";
  if (b.pinned) return "A is the identity; B is pinned.";
  return `${a.pinned ? "A is pinned" : "A is the identity"}; B follows the place that you choose.`;
}
