// Boxes over a picture, drawn so that those which coincide can still be told apart and what they enclose stays in sight.

import { svg } from "../dom";
import type { Shown } from "../inputs/sheets";
import type { Stage } from "../plots/stage";

/** A rectangle in the picture's pixels; `best` and `key` are thick, the others only hinted at. */
export interface Box {
  corners: number[];
  colour: string;
  kind: "key" | "object" | "best" | "other" | "consensus";
}

const STEP = 1.1;
const THIN = 2;
const CORNER = 14;

const ORDER: Box["kind"][] = ["object", "other", "consensus", "best", "key"];

/** Every box where its picture was drawn; of the thick ones the first is the widest, so that later ones lie within its line. */
export function drawBoxes(stage: Stage, boxes: Box[], { x: left, y: top, scale }: Shown): void {
  let wide = THIN + STEP * (boxes.filter(({ kind }) => kind === "best").length - 1);
  const known = boxes.filter(({ corners: [x0, y0, x1, y1] }) => x1 > x0 && y1 > y0);
  for (const { corners, colour, kind } of known.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))) {
    const [x0, y0, x1, y1] = corners.map((value, side) => (side % 2 ? top : left) + scale * value);
    if (kind === "key") {
      const d = brackets(x0, y0, x1, y1);
      stage.base.append(svg("path", { class: "box box-under", d }), svg("path", { class: "box box-key", d, stroke: colour }));
      continue;
    }
    const drawn = svg("rect", { class: `box box-${kind}`, x: x0, y: y0, width: x1 - x0, height: y1 - y0, stroke: colour });
    if (kind === "best") {
      drawn.style.strokeWidth = `${wide}px`;
      wide -= STEP;
    }
    stage.base.append(drawn);
  }
}

/** The four corners of a rectangle alone. */
function brackets(x0: number, y0: number, x1: number, y1: number): string {
  const [across, down] = [Math.min(CORNER, (x1 - x0) / 3), Math.min(CORNER, (y1 - y0) / 3)];
  const corner = (x: number, y: number, dx: number, dy: number): string => `M${x + dx},${y}H${x}V${y + dy}`;
  return corner(x0, y0, across, down) + corner(x1, y0, -across, down) + corner(x0, y1, across, -down) + corner(x1, y1, -across, -down);
}
