import { el, swatch } from "../dom";
import { number } from "../format";
import type { View } from "../state";
import type { Scene } from "./scene";

/** What stands below the five views while something is compared. Its numbers are those that the run measured. */
export interface Compared {
  readonly node: HTMLElement;
  render(scene: Scene): void;
  destroy(): void;
}

export const TITLES: Record<View, string> = { places: "Two places", samples: "Two samples", classes: "Classes", references: "Truth and consensus" };

/** A comparison's frame: its title, a line about it, its tools, and a button that closes it. */
export function frame(view: View, tools: Node[], close: () => void, ...body: Node[]): { node: HTMLElement; said: HTMLElement } {
  const said = el("p", { class: "quiet" });
  const id = `title-${view}`;
  const shut = el("button", { type: "button", "data-testid": "close-view", title: "Close the comparison (v: next one)", onclick: close }, "Close");
  const head = el("header", {}, el("h2", { id }, TITLES[view]), said, el("div", { class: "tools" }, ...tools, shut));
  return { node: el("section", { class: "compared", "data-testid": view, "aria-labelledby": id }, head, ...body), said };
}

/** One thing of a model, measured twice; undefined is NaN. */
export interface Pair {
  what: string;
  unit: string;
  values: [number, number];
  marked: boolean;
  /** How its values are written, if not as plain numbers. */
  say?: (value: number) => string;
}

/** One table per model: each of its pairs, and the second less the first. */
export function pairTables(id: string, said: string, names: [string, string], models: { name: string; colour: string; pairs: Pair[]; more?: string }[]): HTMLElement {
  const made = models.map(({ name, colour, pairs, more }) => {
    const heads = ["Metric", ...names, "Difference"].map((head) => el("th", { scope: "col" }, head));
    const rows = pairs.map(({ what, unit, values: [a, b], marked, say = number }) => {
      const cells = [say(a), say(b), signed(b - a, say)].map((text) => el("td", {}, unit && text !== "–" ? `${text} ${unit}` : text));
      return el("tr", { class: marked ? "marked" : null }, el("th", { scope: "row" }, what), ...cells);
    });
    const caption = el("caption", {}, swatch(colour), name, el("span", {}, more ? `${said}; ${more}` : said));
    return el("div", { class: "scroll", tabindex: 0 }, el("table", { "data-model": name }, caption, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
  });
  return el("div", { class: "figures", "data-testid": id }, ...made);
}

/** A difference for reading: always with its sign, unless there is none. */
function signed(value: number, say: (value: number) => string): string {
  const size = say(Math.abs(value));
  return value === 0 || size.startsWith("<") || size === "–" ? size : `${value > 0 ? "+" : "−"}${size}`;
}
