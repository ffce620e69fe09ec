// Two frames, turned, mirrored and perhaps swapped: side by side, or one after the other in the same place.

import { el } from "../dom";
import type { Stage } from "../plots/stage";
import type { InputData } from "./data";
import { movedFrames } from "./moves";
import { drawSheets, explained, raster, type Sheet } from "./sheets";

const BLINK = 500;

/** A view of pairs that redraws itself while it blinks; the second function stops that. */
export function pairDrawer(stage: Stage, again: () => void): [(data: InputData) => void, () => void] {
  let timer = 0;
  let second = false;
  const button = el("button", { type: "button", class: "plot-button", "aria-pressed": "false", onclick: () => (timer ? stop() : start()) }, "Blink");
  stage.legend.append(button);

  function start(): void {
    timer = window.setInterval(() => {
      second = !second;
      again();
    }, BLINK);
    button.setAttribute("aria-pressed", "true");
    again();
  }

  function stop(): void {
    clearInterval(timer);
    timer = 0;
    button.setAttribute("aria-pressed", "false");
    again();
  }

  function draw({ input, shape, at, attribution }: InputData): void {
    if (!input) return;
    const [, height, width] = shape;
    const frames = movedFrames(input, width, at).map((frame) => raster(frame, [height, width, 1]));
    const named: Sheet[] = frames.map((picture, index) => ({ title: `frame ${index + 1}`, picture }));
    const shown = timer ? [named[second ? 1 : 0]] : named;
    drawSheets(stage, [...shown, ...explained(attribution)]);
    button.textContent = timer ? `Blinking: frame ${second ? 2 : 1}` : "Blink";
  }

  return [draw, () => clearInterval(timer)];
}
