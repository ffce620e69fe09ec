import { memo } from "../cache";
import { el } from "../dom";
import type { Header } from "../header";
import type { Page } from "../page";
import { keyStep, nearest } from "../plots/orbit";
import type { DataSource } from "../source";
import type { State } from "../state";
import type { Store } from "../store";
import type { Meta, Packed, Reference } from "../types";
import { AggregatePanel } from "./aggregate";
import { Asking } from "./asking";
import { chooser, type Chosen } from "./chosen";
import { Controls } from "./controls";
import { DetailPanel } from "./detail";
import { IndividualPanel } from "./individual";
import { InputPanel } from "./input";
import { stored, type Moved } from "./moved";
import { numbers } from "./numbers";
import { ScatterPanel } from "./scatter";
import { Scenes, type Scene } from "./scene";

const SNAPS = "Read-only: dragging snaps to the measured grid";

/** The five linked views of an orbit evaluation, overview left, detail right. */
export class OrbitPage implements Page {
  readonly node: HTMLElement;
  private readonly chosen: (state: State) => Chosen;
  private readonly scenes: Scenes;
  private readonly asking: Asking;
  private readonly controls: Controls;
  private readonly aggregate: AggregatePanel;
  private readonly scatter: ScatterPanel;
  private readonly individual: IndividualPanel;
  private readonly input: InputPanel;
  private readonly detail: DetailPanel;
  private gone = false;
  private readonly figures = el("div", {});
  private readonly tables = memo((metric: string, reference: Reference) => this.figures.replaceChildren(numbers(this.meta, metric, reference)));

  private readonly stored = memo((sample: number, k: number, packed: Packed, _: Float32Array[] | null, __: number) =>
    stored(this.meta, sample, k, packed, this.scenes.stored(sample, k)),
  );

  constructor(
    private readonly meta: Meta,
    source: DataSource,
    private readonly store: Store,
    private readonly header: Header,
  ) {
    const changed = (): void => {
      if (!this.gone) this.render(store.state);
    };
    const retry = (): void => this.scenes.retry();
    const move = (at: number[], final: boolean): void => this.move(at, final);
    this.chosen = chooser(meta);
    this.scenes = new Scenes(meta, source, changed);
    this.asking = new Asking(meta, source, changed);
    this.controls = new Controls(meta, store);
    this.aggregate = new AggregatePanel(move, retry);
    this.scatter = new ScatterPanel(store, retry);
    this.individual = new IndividualPanel({ move, step: (by) => this.step(by), identity: () => this.identity() }, retry);
    this.input = new InputPanel(store, retry);
    this.detail = new DetailPanel(retry);
    const panels = [this.aggregate, this.scatter, this.individual, this.input, this.detail].map(({ panel }) => panel.node);
    const title = el("h1", { class: "unseen" }, meta.title || "Orbits");
    this.node = el("main", { class: "orbit", "data-testid": "orbit", "data-layout": meta.layout, "data-task": meta.task, "data-many": meta.models.length > 2 }, title, this.controls.node, el("div", { class: "panels" }, ...panels), this.figures);
  }

  render(state: State): void {
    const pick = this.choose(state);
    if (pick.sample !== null) this.asking.want({ sample: pick.sample, at: pick.at, explainer: pick.explainer });
    const scene = this.scenes.build(pick);
    const moved = this.moved(scene);
    this.controls.update(pick);
    this.aggregate.render(scene);
    this.scatter.render(scene);
    this.individual.render(scene, moved);
    this.input.render(scene, moved, this.asking.state !== "none");
    this.detail.render(scene, moved);
    this.tables(pick.metric.name, pick.reference);
    this.tell();
  }

  key(event: KeyboardEvent): boolean {
    const pick = this.choose(this.store.state);
    const at = keyStep(this.meta, pick.at, event.key);
    if (at !== null) this.move(at);
    else if (event.key === "[") this.step(-1);
    else if (event.key === "]") this.step(1);
    else if (event.key === "m") this.controls.nextMetric();
    else if (event.key === "c") this.controls.switchReference();
    else if (event.key === "i") this.identity();
    else if (/^[1-9]$/.test(event.key)) this.controls.toggle(Number(event.key) - 1);
    else return false;
    return true;
  }

  destroy(): void {
    this.gone = true;
    this.asking.close();
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
    this.store.set({ at: this.placed(at) }, final ? "replace" : "soon");
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
