import { guard } from "../cache";
import { modelColour } from "../colour";
import { Choice, el, keep, swatch } from "../dom";
import { carried, VIEWS, type View } from "../state";
import type { Store } from "../store";
import type { Meta, RunEntry } from "../types";
import { groupName, numberOf, sampleOf, type Chosen } from "./chosen";
import { TITLES } from "./compared";
import { metricName } from "./scene";

const SWITCH = "Measure by the models' own consensus instead of the ground truth (c)";
const EXPLAINED = "An explanation is compared with the one at the identity: neither ground truth nor consensus takes part";
const FIT = "Axes and colours reach only as far as the values, in place of the metric's bounds; every plot says how far that is";
const ALONE = "This run has no ground truth: all is measured by the consensus";

const DIFFER = "Go to the sample and the place where two of the models shown differ most, among the samples chosen, and rank samples by that (d)";

/** The choices that all views share: subset, metric, reference, models, and what is compared. */
export class Controls {
  readonly node: HTMLElement;
  private readonly plane: Choice;
  private readonly subset: Choice;
  private readonly sample: HTMLInputElement;
  private readonly unknown = el("span", { class: "unknown", role: "alert", "data-testid": "sample-unknown" });
  private readonly differ: HTMLButtonElement;
  private readonly metric: Choice;
  private readonly consensus: HTMLInputElement;
  private readonly switch: HTMLLabelElement;
  private readonly fit: HTMLInputElement;
  private readonly models: HTMLButtonElement[];
  private readonly views: [View, HTMLButtonElement][];
  private pick: Chosen | null = null;
  private readonly other = guard();

  constructor(
    private readonly meta: Meta,
    private readonly store: Store,
    private readonly turned: () => RunEntry[],
    private readonly on: { differ(): void; compared(): void },
  ) {
    this.plane = new Choice("Plane of the axes", "plane", (id) => this.turnTo(id));
    this.subset = new Choice("Subset", "subset", (value) =>
      store.set({ subset: value === "all" ? null : Number(value), sample: null, lasso: null }),
    );
    const leave = (event: Event): void => this.leave(event as KeyboardEvent);
    this.sample = el("input", { type: "text", inputmode: "numeric", autocomplete: "off", class: "number", title: "Go to a sample by its number (/)", "aria-label": "Go to a sample by its number", "data-testid": "sample-find", onkeydown: leave, onfocus: () => this.sample.select(), onblur: () => this.forget() });
    this.differ = el("button", { type: "button", "data-testid": "differ", title: DIFFER, onclick: on.differ }, "Where models differ most");
    this.metric = new Choice("Metric", "metric", (metric) => store.set({ metric }));
    this.consensus = el("input", { type: "checkbox", role: "switch", "data-testid": "consensus", onchange: () => this.refer() });
    this.switch = el("label", { class: "switch" }, this.consensus, "Consensus");
    this.fit = el("input", { type: "checkbox", role: "switch", "data-testid": "fit", onchange: () => store.set({ fit: this.fit.checked }) });
    this.models = meta.models.map((model, i) => this.chip(model.name, i, facts(model)));
    this.views = VIEWS.map((view) => [view, el("button", { type: "button", "data-testid": `view-${view}`, onclick: () => this.compare(view) }, TITLES[view])]);
    this.node = el(
      "div",
      { class: "controls", role: "toolbar", "aria-label": "What is shown" },
      this.plane.node,
      this.subset.node,
      el("div", { class: "find" }, el("label", { class: "choice" }, el("span", {}, "Sample"), this.sample), this.differ, this.unknown),
      this.metric.node,
      this.switch,
      el("label", { class: "switch", title: FIT }, this.fit, "Fit the range"),
      el("div", { class: "chips", role: "group", "aria-label": "Models", "data-testid": "model" }, ...this.models),
      el("div", { class: "views", role: "group", "aria-label": "Compare" }, el("span", { class: "quiet" }, "Compare"), ...this.views.map(([, button]) => button)),
    );
  }

  update(pick: Chosen): void {
    this.pick = pick;
    if (document.activeElement !== this.sample) this.forget();
    const planes = this.turned();
    keep(this.plane.node, { hidden: planes.length < 2 });
    this.plane.update(planes.map(({ id, plane }) => ({ value: id, text: plane ?? "" })), this.meta.id);
    if (!this.other(pick.subset, pick.metric, pick.reference, pick.models, pick.view, pick.bounds.join())) return;
    keep(this.differ, { hidden: pick.models.length < 2 });
    this.fit.checked = this.store.state.fit;
    this.subset.update(this.subsets(), pick.subset === null ? "all" : String(pick.subset), this.meta.labels === null);
    this.metric.update(
      this.meta.metrics.map((metric) => ({ value: metric.name, text: metricName(metric, pick.reference) })),
      pick.metric.name,
    );
    const explained = typeof pick.metric.explainer === "string";
    this.consensus.checked = pick.reference === "consensus" && !explained;
    this.consensus.disabled = explained || pick.metric.references.length < 2;
    this.switch.title = explained ? EXPLAINED : this.consensus.disabled ? ALONE : SWITCH;
    this.models.forEach((chip, i) => chip.setAttribute("aria-pressed", String(pick.models.includes(i))));
    for (const [view, button] of this.views) button.setAttribute("aria-pressed", String(view === pick.view));
  }

  /** Shows or hides a model; one always stays. */
  toggle(model: number): void {
    if (this.pick === null || model >= this.meta.models.length) return;
    const before = this.pick.models;
    const shown = before.includes(model) ? before.filter((one) => one !== model) : [...before, model].sort((a, b) => a - b);
    if (shown.length === 0) return;
    this.store.set({ models: shown.length === this.meta.models.length ? null : shown.map((one) => this.meta.models[one].name) });
  }

  /** Shows the rotations about axes in another plane, of the same samples. */
  private turnTo(id: string): void {
    const [from, to] = [this.meta.id, id].map((one) => this.turned().find((run) => run.id === one));
    if (to !== undefined) this.store.set(carried(this.store.state, from, to));
  }

  /** Compares and scrolls there, or stops comparing. */
  private compare(view: View): void {
    const next = this.pick?.view === view ? null : view;
    this.store.set({ view: next });
    if (next !== null) this.on.compared();
  }

  /** The next comparison, and none after the last one. */
  nextView(): void {
    const now = VIEWS.findIndex((view) => view === this.pick?.view);
    this.store.set({ view: VIEWS[now + 1] ?? null });
  }

  /** Puts the cursor where a sample's number is typed. */
  ask(): void {
    this.sample.focus();
  }

  /** Enter goes to the sample that was typed, Escape back to the page; a number that no sample has is told. */
  private leave(event: KeyboardEvent): void {
    if (event.key === "Escape") this.sample.blur();
    if (event.key !== "Enter") return keep(this.unknown, { textContent: "" });
    const typed = this.sample.value.trim().replace(/^#/, "");
    const sample = /^\d+$/.test(typed) ? sampleOf(this.meta, Number(typed)) : null;
    if (sample === null) return keep(this.unknown, { textContent: missing(this.meta, typed) });
    this.store.set({ sample });
    this.sample.blur();
  }

  /** Shows the number of the chosen sample again. */
  private forget(): void {
    const sample = this.pick?.sample ?? null;
    keep(this.sample, { value: sample === null ? "" : String(numberOf(this.meta, sample)) });
    keep(this.unknown, { textContent: "" });
  }

  nextMetric(): void {
    const { metrics } = this.meta;
    const now = metrics.findIndex((one) => one === this.pick?.metric);
    this.store.set({ metric: metrics[(now + 1) % metrics.length].name });
  }

  switchReference(): void {
    const other = this.pick?.metric.references.find((one) => one !== this.pick?.reference);
    if (other !== undefined) this.store.set({ reference: other });
  }

  private refer(): void {
    this.store.set({ reference: this.consensus.checked ? "consensus" : "truth" });
  }

  private chip(name: string, index: number, title: string): HTMLButtonElement {
    const pressed = (): void => this.toggle(index);
    return el("button", { type: "button", "data-model": name, "aria-pressed": "true", title, onclick: pressed }, swatch(modelColour(index)), name);
  }

  private subsets(): { value: string; text: string }[] {
    const counts = new Map<number, number>();
    for (const label of this.meta.labels ?? []) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
    const classes = [...counts].sort(([a], [b]) => a - b);
    return [
      { value: "all", text: `all (${this.meta.samples})` },
      ...classes.map(([label, n]) => ({ value: String(label), text: `${groupName(this.meta, label)} (${n})` })),
    ];
  }
}

/** Why no sample has the number that was typed. */
function missing({ numbers, samples, of }: Meta, typed: string): string {
  const said = typed === "" ? "Type the number of a sample" : `There is no sample ${typed} here`;
  if (numbers) return `${said}: this page holds ${samples.toLocaleString("en")}${of === undefined ? "" : ` of the run's ${of.toLocaleString("en")}`} samples.`;
  return `${said}: samples have the numbers 0 to ${samples - 1}.`;
}

/** What is known of a model, one line a fact. */
function facts({ name, ...known }: Meta["models"][number]): string {
  const lines = Object.entries(known).flatMap(([fact, value]) => (typeof value === "string" || typeof value === "number" ? [`${fact}: ${value}`] : []));
  return [name, ...lines].join("\n");
}
