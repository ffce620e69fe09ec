import { memo } from "../cache";
import { el } from "../dom";
import type { Header } from "../header";
import { Large } from "../large";
import type { Page } from "../page";
import { keyStep, nearest } from "../plots/orbit";
import type { DataSource } from "../source";
import type { State, View } from "../state";
import type { Store } from "../store";
import type { Meta, Packed, Reference, RunEntry } from "../types";
import { AggregatePanel } from "./aggregate";
import { Asking } from "./asking";
import { chooser, type Chosen, type Pin } from "./chosen";
import { Classes } from "./classes";
import type { Compared } from "./compared";
import { ranked } from "./compute";
import { Controls } from "./controls";
import { DetailPanel } from "./detail";
import { Gesture } from "./gesture";
import { IndividualPanel } from "./individual";
import { InputPanel } from "./input";
import { stored, type Moved } from "./moved";
import { numbers } from "./numbers";
import { Places } from "./places";
import { References } from "./references";
import { Samples } from "./samples";
import { ScatterPanel } from "./scatter";
import { Scenes, type Scene } from "./scene";
import { Snippet } from "./snippet";
import { Worst } from "./worst";

const SNAPS = "Read-only: dragging snaps to the measured grid";

/** The five linked views of an orbit evaluation, overview left, detail right; below them what is compared, so that the plots stay where they are. */
export class OrbitPage implements Page {
  readonly node: HTMLElement;
  private readonly chosen: (state: State) => Chosen;
  private readonly scenes: Scenes;
  private readonly asking: Asking;
  private readonly worst: Worst;
  private readonly controls: Controls;
  private readonly aggregate: AggregatePanel;
  private readonly scatter: ScatterPanel;
  private readonly individual: IndividualPanel;
  private readonly input: InputPanel;
  private readonly detail: DetailPanel;
  private readonly large: Large;
  private readonly gesture: Gesture;
  private readonly below = el("div", { class: "below" });
  private compared: { view: View; shown: Compared } | null = null;
  private scene: Scene | null = null;
  private gone = false;
  private readonly figures = el("div", {});
  private readonly snippet = new Snippet();
  private readonly tables = memo((metric: string, reference: Reference) => this.figures.replaceChildren(numbers(this.meta, metric, reference)));

  private readonly stored = memo((sample: number, k: number, packed: Packed, _: Float32Array[] | null, __: number) =>
    stored(this.meta, sample, k, packed, this.scenes.stored(sample, k)),
  );

  constructor(
    private readonly meta: Meta,
    source: DataSource,
    private readonly store: Store,
    private readonly header: Header,
    turned: () => RunEntry[],
  ) {
    const changed = (): void => {
      if (!this.gone) this.render(store.state);
    };
    const retry = (): void => this.scenes.retry();
    const move = (at: number[], final: boolean): void => this.move(at, final);
    this.chosen = chooser(meta);
    this.scenes = new Scenes(meta, source, changed);
    this.asking = new Asking(meta, source, changed);
    this.worst = new Worst(meta, source, changed);
    this.controls = new Controls(meta, store, turned, { differ: () => this.differ(), compared: () => this.below.scrollIntoView({ block: "nearest" }) });
    this.aggregate = new AggregatePanel(move, retry);
    this.scatter = new ScatterPanel(store, retry);
    this.individual = new IndividualPanel({ move, step: (by) => this.step(by), identity: () => this.identity(), worst: () => this.turnWorst() }, retry);
    this.input = new InputPanel(store, retry);
    this.detail = new DetailPanel(retry);
    const panels = [this.aggregate, this.scatter, this.individual, this.input, this.detail].map(({ panel }) => panel.node);
    const title = el("h1", { class: "unseen" }, meta.title || "Orbits");
    const answer = el("p", { class: "run-answer", "data-testid": "answer" }, meta.answer.join(" "));
    this.node = el("main", { class: "orbit", "data-testid": "orbit", "data-layout": meta.layout, "data-task": meta.task, "data-many": meta.models.length > 2 }, title, answer, this.controls.node, el("div", { class: "panels" }, ...panels), this.below, this.figures, this.snippet.node);
    this.large = new Large(this.node, store);
    this.gesture = new Gesture(this.individual.panel.tools);
    this.begin();
  }

  /** Whoever chose nothing yet sees the sample and the place that tell most. */
  private begin(): void {
    const { sample, at } = this.store.state;
    const { telling, coordinates } = this.meta;
    if (sample === null && at === null && telling.sample < this.meta.samples) this.store.set({ sample: telling.sample, at: [...coordinates[telling.element]] }, "replace");
  }

  render(state: State): void {
    const pick = this.choose(state);
    if (pick.sample !== null) this.asking.want({ sample: pick.sample, at: pick.at, explainer: pick.explainer });
    const scene = (this.scene = this.scenes.build(pick));
    const moved = this.moved(scene);
    this.controls.update(pick);
    this.compare(pick.view);
    this.compared?.shown.render(scene);
    this.aggregate.render(scene);
    this.scatter.render(scene);
    this.individual.render(scene, moved, state.worst ? this.worst.look(scene) : null);
    this.input.render(scene, moved, this.asking.state !== "none");
    this.detail.render(scene, moved);
    this.snippet.render(scene);
    this.tables(pick.metric.name, pick.reference);
    this.large.render(state.large);
    this.tell();
  }

  key(event: KeyboardEvent): boolean {
    if (this.large.key(event)) return true;
    const pick = this.choose(this.store.state);
    const at = keyStep(this.meta, pick.at, event.key);
    if (at !== null) this.stepTo(at);
    else if (event.key === "[") this.step(-1);
    else if (event.key === "]") this.step(1);
    else if (event.key === "m") this.controls.nextMetric();
    else if (event.key === "c") this.controls.switchReference();
    else if (event.key === "i") this.identity();
    else if (event.key === "v") this.controls.nextView();
    else if (event.key === "a") this.pin("A");
    else if (event.key === "b") this.pin("B");
    else if (event.key === "h") this.hold();
    else if (event.key === "w") this.turnWorst();
    else if (event.key === "d") this.differ();
    else if (event.key === "/") this.controls.ask();
    else if (event.key === "g") this.store.set({ glyphs: !this.store.state.glyphs });
    else if (/^[1-9]$/.test(event.key)) this.controls.toggle(Number(event.key) - 1);
    else return false;
    return true;
  }

  destroy(): void {
    this.gone = true;
    this.asking.close();
    this.worst.close();
    this.compare(null);
    this.large.close();
    for (const one of [this.aggregate, this.scatter, this.individual, this.input, this.detail]) one.destroy();
  }

  /** What is chosen; without models, at a measured place. */
  private choose(state: State): Chosen {
    const pick = this.chosen(state);
    return { ...pick, at: this.placed(pick.at) };
  }

  private placed(at: number[]): number[] {
    return this.asking.state === "none" ? [...this.meta.coordinates[nearest(this.meta, at)]] : at;
  }

  /** The models' answer, or what the run stored at the nearest element. */
  private moved({ pick, packed, values, beside }: Scene): Moved | null {
    if (pick.sample === null) return null;
    const live = this.asking.answer(pick.sample, pick.at);
    if (live !== null || packed?.state !== "ready") return live;
    return this.stored(pick.sample, nearest(this.meta, pick.at), packed.value, values.state === "ready" ? values.value : null, beside);
  }

  private move(at: number[], final = false): void {
    this.gesture.done(final);
    this.store.set({ at: this.placed(at) }, final ? "replace" : "soon");
  }

  private stepTo(at: number[]): void {
    this.move(at);
    this.gesture.done(true);
  }

  /** Pins a place of the orbit where it is now, at the nearest measured element; once more there lets it go. */
  private pin(name: Pin["name"]): void {
    const pick = this.choose(this.store.state);
    const [place, k] = [pick.pins[name === "A" ? 0 : 1], nearest(this.meta, pick.at)];
    const at = place.pinned && place.k === k ? null : [...this.meta.coordinates[k]];
    this.store.set({ view: "places", ...(name === "A" ? { pinA: at } : { pinB: at }) });
  }

  /** Keeps the chosen sample as the second one; the next sample by rank takes its place. */
  private hold(): void {
    const { sample } = this.choose(this.store.state);
    const next = this.scatter.neighbour(sample, 1);
    const other = next === sample ? this.scatter.neighbour(sample, -1) : next;
    this.store.set({ view: "samples", second: sample, sample: other });
  }

  private swap(): void {
    const { sample, second } = this.choose(this.store.state);
    this.store.set({ sample: second, second: sample });
  }

  /** Puts up what is compared, and takes down what was. */
  private compare(view: View | null): void {
    if (view === (this.compared?.view ?? null)) return;
    this.compared?.shown.destroy();
    this.compared = view === null ? null : { view, shown: this.made(view) };
    this.below.replaceChildren(...(this.compared === null ? [] : [this.compared.shown.node]));
  }

  private made(view: View): Compared {
    const move = (at: number[], final: boolean): void => this.move(at, final);
    const retry = (): void => this.scenes.retry();
    if (view === "classes") return new Classes(this.store);
    if (view === "references") return new References(this.store, move, retry);
    if (view === "samples") return new Samples(this.scenes, this.store, { move, hold: () => this.hold(), swap: () => this.swap() }, retry);
    return new Places(this.scenes, this.store, { move, pin: (name) => this.pin(name) }, retry);
  }

  private turnWorst(): void {
    this.store.set({ worst: !this.store.state.worst });
  }

  /** Goes to the sample and the measured place where two models differ most, of the samples chosen, and ranks samples by that. */
  private differ(): void {
    if (this.scene?.differences?.state !== "ready") return;
    const { value, element } = this.scene.differences.value;
    const [sample] = ranked(this.scene.pick.samples, value, true);
    if (sample === undefined || element[sample] < 0) return;
    this.store.set({ sample, at: [...this.meta.coordinates[element[sample]]], rank: "difference" });
  }

  private identity(): void {
    this.store.set({ at: null }, "replace");
  }

  private step(by: 1 | -1): void {
    const sample = this.scatter.neighbour(this.choose(this.store.state).sample, by);
    if (sample !== null) this.store.set({ sample }, "soon");
  }

  private tell(): void {
    const { state, problem } = this.asking;
    if (problem !== null) this.header.status("failed", problem);
    else if (state === "none") this.header.status("note", ...readOnly(this.meta.why));
    else if (state === "slow") this.header.status("note", "Asking the models…");
    else if (state === "lost") this.header.status("lost", "The server does not answer. Trying again…");
    else this.header.status("live", "Live models");
  }
}

/** Why there is nobody to ask, and the same at length. */
function readOnly(why: string | null | undefined): [string, string] {
  const plainly = `${SNAPS}, since there are no live models.`;
  return why ? [`Read-only. ${why}`, `${SNAPS}. ${why}`] : [plainly, plainly];
}
