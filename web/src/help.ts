import { el } from "./dom";
import { percent } from "./format";

const KEYS: [string, string][] = [
  ["← → ↑ ↓", "step along the orbit; on a disk ← → turn the axis (the identity has none), ↑ ↓ change the angle"],
  [", .", "rotate the input, if the orbit has both shifts and rotations"],
  ["[ ]", "previous and next sample, by rank or in the list of an audit"],
  ["1 – 9", "show or hide a model"],
  ["m", "next metric, or score of an audit"],
  ["v", "next comparison, and none after the last one"],
  ["a, b", "pin the current place as A or B, to compare the two; press again at that place to unpin it"],
  ["d", "go to the sample and the place where models differ most, among the chosen samples"],
  ["/", "on an orbit, type the number of a sample, then Enter; on the list of runs, search"],
  ["g", "show or hide small plots of the orbits beside their points"],
  ["w", "show or hide the worst place of the orbit"],
  ["h", "keep this sample beside the next one, to compare the two"],
  ["c", "switch between consensus and ground truth"],
  ["i, Home", "back to the identity"],
  ["Escape", "shrink a panel that fills the window"],
  ["t", "light, dark or system theme"],
  ["?", "this help"],
];

const POINTER: [string, string][] = [
  ["On an orbit", "press or drag: go to that place."],
  ["On similar orbits", "click: choose a sample. Drag: draw a lasso. Ctrl and wheel, or pinch: zoom. Shift and drag: move. Double click: show all again."],
  ["On two scores", "click: choose a sample. Drag: draw a lasso around the samples that all panels of the audit should show."],
  ["On a cloud", "drag: move the camera. Double click: reset it."],
];

const reading = (level: number): [string, string][] => [
  ["Aggregate", `the metric's mean over the samples chosen, at every element of the orbit, with a ${percent(level)} band over samples. The plot of an equivariant model is flat.`],
  ["Similar orbits", "every sample's own orbit as one point of a joint embedding for all models. Click one to choose it; draw around some to see their aggregate."],
  ["Individual orbit", "the chosen sample. Drag along it: if the models are at hand, they answer at exactly that place."],
  ["Input and detail", "the moved input, and what every model makes of it."],
  ["Consensus", "the mean of a model's own outputs, moved back, in place of the ground truth."],
];

/** Opens the help, once; `level` is that of the intervals. */
export function help(level: number): void {
  document.querySelector("dialog.help")?.remove();
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = el(
    "dialog",
    { class: "help", "aria-label": "Help", onclose: () => dialog.remove() },
    el("h2", { tabindex: -1, autofocus: true }, "Keys"), // the first button stands at the end, and would be scrolled to
    el("dl", { class: "keys" }, ...KEYS.flatMap(([key, said]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, said)])),
    el("h2", {}, "Pointer"),
    listed(POINTER),
    el("h2", {}, "Reading"),
    listed(reading(level)),
    close,
  );
  document.body.append(dialog);
  dialog.showModal();
}

function listed(lines: [string, string][]): HTMLElement {
  return el("dl", {}, ...lines.flatMap(([name, said]) => [el("dt", {}, name), el("dd", {}, said)]));
}
