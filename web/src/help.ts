import { el } from "./dom";
import { percent } from "./format";

const KEYS: [string, string][] = [
  ["← → ↑ ↓", "step along the orbit; on a disk ← → turn the axis (at the identity there is none to turn), ↑ ↓ change the angle"],
  [", .", "turn an input that is shifted and turned"],
  ["[ ]", "previous and next sample by rank, or of an audit's list"],
  ["1 – 9", "show or hide a model"],
  ["m", "next metric, or score of an audit"],
  ["v", "next comparison, and none after the last one"],
  ["a, b", "pin the place A or B of the orbit, to compare the two; once more at its own place lets it go"],
  ["d", "where models differ most: the sample and the place, of the samples chosen"],
  ["/", "on an orbit, type the number of a sample, then Enter; on the list of runs, search"],
  ["g", "draw the orbits as small plots beside their points, or not"],
  ["w", "mark the worst place of the orbit, or not"],
  ["h", "hold this sample beside the next one, to compare the two"],
  ["c", "consensus instead of ground truth, and back"],
  ["i, Home", "back to the identity"],
  ["Escape", "put a panel back that fills the window"],
  ["t", "light, dark or system theme"],
  ["?", "this help"],
];

const POINTER: [string, string][] = [
  ["On an orbit", "press or drag: go to that place."],
  ["On similar orbits", "click: choose a sample. Drag: draw a lasso. Ctrl and wheel, or pinch: zoom. Shift and drag: move. Double click: show all again."],
  ["On two scores", "click: choose a sample. Drag: draw a lasso around those that all panels of an audit should show."],
  ["On a cloud", "drag: move the camera. Double click: put it back."],
];

const reading = (level: number): [string, string][] => [
  ["Aggregate", `the metric's mean over the samples chosen, at every element of the orbit, with a ${percent(level)} band over samples. A flat plot is an equivariant model.`],
  ["Similar orbits", "every sample's own orbit as one point of a joint embedding for all models. Click one to choose it; draw around some to see their aggregate."],
  ["Individual orbit", "the chosen sample. Drag along it: where models are at hand, each is asked at that very place."],
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
