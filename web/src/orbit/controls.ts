import { guard } from "../cache";
import { modelColour } from "../colour";
import { Choice, el, swatch } from "../dom";
import type { Store } from "../store";
import type { Meta } from "../types";
import { groupName, type Chosen } from "./chosen";
import { metricName } from "./scene";

const SWITCH = "Measure by the models' own consensus instead of the ground truth (c)";
const EXPLAINED = "An explanation is compared with the one at the identity: neither ground truth nor consensus takes part";
const ALONE = "This run has no ground truth: all is measured by the consensus";

/** The choices that all views share: subset, metric, reference, models. */
export class Controls {
  readonly node: HTMLElement;
  private readonly subset: Choice;
  private readonly metric: Choice;
  private readonly consensus: HTMLInputElement;
  private readonly switch: HTMLLabelElement;
  private readonly models: HTMLButtonElement[];
  private pick: Chosen | null = null;
  private readonly other = guard();

  constructor(
    private readonly meta: Meta,
    private readonly store: Store,
  ) {
    this.subset = new Choice("Subset", "subset", (value) =>
      store.set({ subset: value === "all" ? null : Number(value), sample: null, lasso: null }),
    );
    this.metric = new Choice("Metric", "metric", (metric) => store.set({ metric }));
    this.consensus = el("input", { type: "checkbox", role: "switch", "data-testid": "consensus", onchange: () => this.refer() });
    this.switch = el("label", { class: "switch" }, this.consensus, "Consensus");
    this.models = meta.models.map((model, i) => this.chip(model.name, i, facts(model)));
    this.node = el(
      "div",
      { class: "controls", role: "toolbar", "aria-label": "What is shown" },
      this.subset.node,
      this.metric.node,
      this.switch,
      el("div", { class: "chips", role: "group", "aria-label": "Models", "data-testid": "model" }, ...this.models),
    );
  }

  update(pick: Chosen): void {
    this.pick = pick;
    if (!this.other(pick.subset, pick.metric, pick.reference, pick.models)) return;
    this.subset.update(this.subsets(), pick.subset === null ? "all" : String(pick.subset), this.meta.labels === null);
    this.metric.update(
      this.meta.metrics.map((metric) => ({ value: metric.name, text: metricName(metric) })),
      pick.metric.name,
    );
    const explained = typeof pick.metric.explainer === "string";
    this.consensus.checked = pick.reference === "consensus" && !explained;
    this.consensus.disabled = explained || pick.metric.references.length < 2;
    this.switch.title = explained ? EXPLAINED : this.consensus.disabled ? ALONE : SWITCH;
    this.models.forEach((chip, i) => chip.setAttribute("aria-pressed", String(pick.models.includes(i))));
  }

  /** Shows or hides a model; one always stays. */
  toggle(model: number): void {
    if (this.pick === null || model >= this.meta.models.length) return;
    const before = this.pick.models;
    const shown = before.includes(model) ? before.filter((one) => one !== model) : [...before, model].sort((a, b) => a - b);
    if (shown.length === 0) return;
    this.store.set({ models: shown.length === this.meta.models.length ? null : shown.map((one) => this.meta.models[one].name) });
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

/** What is known of a model, one line a fact. */
function facts({ name, ...known }: Meta["models"][number]): string {
  const lines = Object.entries(known).flatMap(([fact, value]) => (typeof value === "string" || typeof value === "number" ? [`${fact}: ${value}`] : []));
  return [name, ...lines].join("\n");
}
