import { scaleLinear } from "d3-scale";
import type { Loaded } from "../cache";
import { svg } from "../dom";
import { count, number } from "../format";
import type { Store } from "../store";
import { Board } from "./board";
import { nameOf, ofSample, subjectOf, type Choice } from "./chosen";
import { selectedText } from "./selection";
import type { Case, Selection, Spread } from "./types";

const HEIGHT = 210;
const BARS = 118;
const STRIP = 44;

/** One explainer's values over all samples, the chosen one marked. */
export class SpreadPanel {
  readonly board: Board;

  constructor(
    private readonly store: Store,
    retry: () => void,
    csv: () => Promise<string>,
  ) {
    this.board = new Board("spread", "Distribution over samples", retry, { name: "distribution", svg: () => this.board.body.querySelector("svg"), csv });
  }

  render(choice: Choice, found: Loaded<Spread>, chosen: Case | null, control: number | null, selection: Loaded<Selection> | null): void {
    if (!this.board.show(found)) return;
    const spread = found.value;
    const subject = subjectOf(choice);
    const lost = [spread.undefined > 0 ? `${spread.undefined.toLocaleString("en")} undefined` : "", spread.failed > 0 ? `${spread.failed.toLocaleString("en")} failed` : ""];
    const middle = spread.quartiles === null ? "" : `median ${number(spread.quartiles[2])}, half of them from ${number(spread.quartiles[1])} to ${number(spread.quartiles[3])}`;
    const all = `${nameOf(subject.explainer)} on ${subject.model}, ${ofSample(choice.score).title}: ${[count(spread.n, "sample"), ...lost, middle].filter(Boolean).join(", ")}`;
    this.board.describe(spread.chosen === null ? all : `${all}; in colour: ${selectedWords(spread.chosen, selection)}`);
    if (spread.n === 0) return this.board.empty(spread.pooled ? "This score is one number of the whole data set: a single sample has none." : "No sample has a defined value.");
    const value = chosen?.values.find((one) => one.explainer === subject.explainer && one.score === subject.score)?.value ?? null;
    this.board.body.replaceChildren(this.drawing(spread, chosen === null ? null : { sample: chosen.sample, value }, control, choice));
  }

  private drawing(spread: Spread, chosen: { sample: number; value: number | null } | null, control: number | null, choice: Choice): SVGSVGElement {
    const [low, high] = open([spread.edges[0], spread.edges[spread.edges.length - 1]]);
    const ends = [low, high, ...(control === null ? [] : [control])];
    const x = scaleLinear([Math.min(...ends), Math.max(...ends)], [3, 97]);
    const most = Math.max(...spread.counts);
    const label = `Histogram of ${count(spread.n, "value")} from ${number(low)} to ${number(high)}${chosen?.value != null ? `; sample ${chosen.sample} has ${number(chosen.value)}` : ""}`;
    const strip = spread.samples === null ? -10 : STRIP;
    const node = svg("svg", { class: spread.chosen === null ? "spread-plot" : "spread-plot faded", height: HEIGHT - STRIP + strip, role: "img", "aria-label": label });
    const said = x.tickFormat(5);
    for (const tick of x.ticks(5)) {
      node.append(svg("line", { x1: `${x(tick)}%`, x2: `${x(tick)}%`, y1: 18, y2: BARS + strip + 24, class: "grid" }));
      node.append(svg("text", { x: `${x(tick)}%`, y: BARS + strip + 40, "text-anchor": "middle" }, said(tick)));
    }
    spread.counts.forEach((n, i) => {
      if (n === 0) return;
      const tall = Math.max(1.5, (n / most) * (BARS - 22));
      const bar = svg("rect", { x: `${x(spread.edges[i])}%`, width: `${Math.max(0.6, x(spread.edges[i + 1]) - x(spread.edges[i]) - 0.15)}%`, y: BARS - tall, height: tall, class: "bar" });
      bar.append(svg("title", {}, `${count(n, "sample")} from ${number(spread.edges[i])} to ${number(spread.edges[i + 1])}`));
      node.append(bar);
    });
    spread.chosen?.counts.forEach((n, i) => {
      if (n === 0) return;
      const tall = Math.max(1.5, (n / most) * (BARS - 22));
      const bar = svg("rect", { x: `${x(spread.edges[i])}%`, width: `${Math.max(0.3, x(spread.edges[i + 1]) - x(spread.edges[i]) - 0.15)}%`, y: BARS - tall, height: tall, class: "bar selected", "data-count": n });
      bar.append(svg("title", {}, `${count(n, "selected sample")} from ${number(spread.edges[i])} to ${number(spread.edges[i + 1])}`));
      node.append(bar);
    });
    spread.samples?.forEach((sample, i) => {
      const value = spread.values![i];
      const y = BARS + 10 + ((sample * 0.618034) % 1) * (STRIP - 6);
      const dot = svg("circle", { cx: `${x(value)}%`, cy: y, r: 3, class: `dot${sample === chosen?.sample ? " chosen" : ""}${spread.chosen?.marked?.[i] ? " selected" : ""}`, "data-sample": sample, onclick: () => this.choose(sample, choice) });
      dot.append(svg("title", {}, `sample ${sample}: ${number(value)}`));
      node.append(dot);
    });
    if (control !== null) {
      node.append(svg("line", { x1: `${x(control)}%`, x2: `${x(control)}%`, y1: 18, y2: BARS, class: "control" }));
      node.append(mark(x(control), "random control", "quiet"));
    }
    if (chosen?.value != null) {
      node.append(svg("line", { x1: `${x(chosen.value)}%`, x2: `${x(chosen.value)}%`, y1: 18, y2: BARS + strip + 10, class: "chosen" }));
      const text = mark(x(chosen.value), `sample ${chosen.sample}: ${number(chosen.value)}`, "chosen");
      text.setAttribute("data-testid", "spread-chosen");
      if (control !== null) text.setAttribute("y", String(BARS + strip + 58));
      node.append(text);
    }
    return node;
  }

  private choose(sample: number, choice: Choice): void {
    this.store.set({ sample, explainer: choice.explainer, models: [choice.model], score: choice.score.name });
  }
}

/** A range in which ticks can be told apart, around values that are all equal. */
export function open([low, high]: readonly [number, number]): [number, number] {
  const slack = high - low <= 1e-8 * Math.max(1, Math.abs(low), Math.abs(high)) ? 0.05 * Math.max(1e-3, Math.abs(low)) : 0;
  return [low - slack, high + slack];
}

/** How many of the selected samples have a value, and where the middle half of them lies. */
function selectedWords({ n, quartiles }: NonNullable<Spread["chosen"]>, selection: Loaded<Selection> | null): string {
  const middle = quartiles === null ? "" : `, median ${number(quartiles[2])}, half of them from ${number(quartiles[1])} to ${number(quartiles[3])}`;
  return `${n.toLocaleString("en")} of ${selectedText(selection)}${middle}`;
}

/** A text at a place that does not leave the plot. */
function mark(percent: number, text: string, css: string): SVGTextElement {
  const anchor = percent < 25 ? "start" : percent > 75 ? "end" : "middle";
  return svg("text", { x: `${percent}%`, y: 12, "text-anchor": anchor, class: css }, text);
}
