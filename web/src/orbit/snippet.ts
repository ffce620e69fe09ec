import { copyText } from "../copy";
import { el, keep } from "../dom";
import { nearest } from "../plots/orbit";
import type { Meta } from "../types";
import type { Chosen } from "./chosen";
import type { Scene } from "./scene";

/** The lines of Python that load what is chosen, under a heading that opens them. */
export class Snippet {
  private readonly code = el("code", { "data-testid": "snippet" });
  private readonly told = el("span", { class: "quiet", role: "status" });
  readonly node = el(
    "details",
    { class: "python" },
    el("summary", {}, "Load what is chosen in Python"),
    el("pre", { tabindex: 0 }, this.code),
    el("button", { type: "button", onclick: () => void this.copy() }, "Copy"),
    this.told,
  );

  render({ meta, pick, shown }: Scene): void {
    keep(this.code, { textContent: lines(meta, pick, shown.map(({ name }) => name)) });
  }

  private async copy(): Promise<void> {
    keep(this.told, { textContent: (await copyText(this.code.textContent ?? "")) ? "Python copied." : "The browser does not let this page copy: select the lines instead." });
  }
}

function lines(meta: Meta, pick: Chosen, models: string[]): string {
  const { metric, reference, sample } = pick;
  const own = (index: number): number => meta.numbers?.[index] ?? index;
  const by = `${text(metric.name)}, reference=${text(reference)}`;
  const k = nearest(meta, pick.at);
  const found = [
    "import veracity",
    "",
    `run = veracity.OrbitResult(${text(meta.folder)})`,
    `models = ${list(models.map(text))}`,
    `subset = ${subsetOf(meta, pick, own)}`,
    "table = run.table(subset)",
    `table = table[table["model"].isin(models) & (table["metric"] == ${text(metric.name)}) & table["reference"].isin([${text(reference)}, ""])]`,
    `means = {model: run.aggregate(model, ${text(metric.name)}, subset, ${text(reference)}) for model in models}`,
  ];
  if (sample === null) return found.join("\n");
  const last = [`orbit = run.individual(${own(sample)}, ${by})[models]`, `here = orbit.iloc[${k}]  # at ${text(meta.elements[k])}`];
  const outputs = `outputs = {model: run.outputs(model, ${own(sample)}) for model in models}`;
  return [...found, ...last, outputs].join("\n");
}

/** The subset as `OrbitResult.chosen` takes it: numbers, a group, or all samples. */
function subsetOf(meta: Meta, { lasso, samples, subset }: Chosen, own: (index: number) => number): string {
  if (lasso !== null) return list(Array.from(samples, (one) => String(own(one))));
  if (subset === null) return meta.numbers ? "None  # all samples of the run: this file holds some of them" : "None";
  return meta.groups[subset] === undefined ? String(subset) : text(meta.groups[subset]);
}

function list(parts: string[]): string {
  return `[${parts.join(", ")}]`;
}

/** A text as Python writes one: JSON escapes what Python does. */
function text(value: string): string {
  return JSON.stringify(value);
}
