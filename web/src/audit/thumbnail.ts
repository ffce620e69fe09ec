import { el } from "../dom";
import type { Pictures } from "../state";
import { drawn } from "./drawing";
import type { Drawing, Thumbnails } from "./types";

/** What stands in the place of a picture that there is not. */
export const MISSING = "no picture";

/** A small drawing, which says nothing that is not beside it in words. */
export function thumbnail(drawing: Drawing): HTMLElement {
  if (drawing.kind === "words") return el("span", { class: "thumb thumb-words" }, el("span", {}, ...drawing.words.flatMap((word, i) => [coloured(word, drawing.shares[i] ?? 0), " "])));
  const node = drawn(drawing, "");
  node.removeAttribute("role");
  node.removeAttribute("aria-label");
  node.setAttribute("aria-hidden", "true");
  return el("span", { class: "thumb" }, node);
}

/** A word, red where it speaks for the class and blue where against it. */
function coloured(word: string, share: number): Node | string {
  if (share === 0) return word;
  const node = el("span", {}, word);
  node.style.background = `color-mix(in srgb, var(--${share < 0 ? "negative" : "positive"}) ${Math.round(45 * Math.abs(share))}%, transparent)`;
  return node;
}

/** Of how many samples of a page there is no picture, and what helps; nothing where each has one. */
export function wanting({ table, drawings }: Thumbnails, pictures: Pictures, shown: number): string {
  const there = drawings.filter(({ drawing }) => drawing !== null).length;
  if (table) return "rows of a table have no pictures";
  if (there === shown) return "";
  const what = pictures === "explanations" ? "explanation" : "input";
  const kept = there === 0 && pictures !== "all" ? `no ${what} of these samples was kept` : `the ${what}s of ${there} of these ${shown} samples ${pictures === "all" ? "can be drawn" : "were kept"}`;
  return pictures === "inputs" ? `${kept}: a run keeps those of the pairs that scored worst` : kept;
}
