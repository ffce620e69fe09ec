// Turns, mirror images and time reversal as four by four tiles a model: each the error map of that element, or one colour.

import { valuePixels } from "../colour";
import { svg } from "../dom";
import { number } from "../format";
import type { Drawn, OrbitData } from "./data";
import { tileAt, tileOf } from "./grid";
import { caption, colourBar, heading, inkOn, inside, metricTitle, panelSquares, type Margins, type Rect } from "./panels";
import { identityMark, label, pixelCanvas, type Stage } from "./stage";

const SIDE = 4;
const ROWS = ["", "M", "R", "MR"];
const GAP = 3;
/** Tiles that are narrower or lower have no room for their degrees and letters. */
const WIDE = 26;
const TALL = 10;
const MARGINS: Margins = [22, 34, 4, 2];

/** The room of one tile; none of it where the stage is still too small for one. */
function tile({ x, y, width }: Rect, column: number, row: number): Rect {
  const size = (width + GAP) / SIDE;
  const side = Math.max(0, size - GAP);
  return { x: x + column * size, y: y + row * size, width: side, height: side };
}

export function drawTiles(stage: Stage, data: OrbitData): Drawn {
  const squares = panelSquares(stage, data, MARGINS);
  const range = data.tiles ? (data.tileRange ?? data.range) : data.range;

  data.curves.forEach(({ model, colour, values }, panel) => {
    const found = data.tiles?.find((one) => one.model === model) ?? { maps: values, side: 1 };
    data.coordinates.forEach((place, index) => {
      const { column, row } = tileOf(place);
      const room = tile(squares[panel], column, row);
      paint(room, found.maps.subarray(index * found.side ** 2, (index + 1) * found.side ** 2), found.side);
      if (index === data.identity) stage.base.append(identityMark(room.x + 6, room.y + 6, 3.5));
      if (found.side === 1 && room.width > 30) worth(room, values[index]);
    });
    if (!data.compact) headings(squares[panel], model, colour);
  });
  if (!data.compact) {
    caption(stage, "turned anticlockwise; M: mirrored before, R: frames reversed", "M: mirrored before, R: frames reversed", "M: mirrored, R: reversed");
    colourBar(stage, range, data.tiles ? "end-point error of a pixel (px, lower is better)" : metricTitle(data));
  }

  function paint({ x, y, width, height }: Rect, values: Float32Array, side: number): void {
    stage.hatched(x, y, width, height);
    stage.context.imageSmoothingEnabled = false;
    stage.context.drawImage(pixelCanvas(side, side, valuePixels(values, range)), x, y, width, height);
  }

  function worth({ x, y, width }: Rect, value: number): void {
    const words = label("plot-tick", x + width / 2, y + width / 2 + 4, number(value));
    if (!Number.isNaN(value)) words.style.fill = inkOn(value, range);
    stage.base.append(words);
  }

  function headings(square: Rect, model: string, colour: string): void {
    heading(stage, [model], colour, square.x, square.y - 20, square.width);
    for (let step = 0; step < SIDE; step++) {
      const [above, beside] = [tile(square, step, 0), tile(square, 0, step)];
      if (above.width >= WIDE) stage.base.append(label("plot-tick", above.x + above.width / 2, square.y - 5, `${90 * step}°`));
      if (beside.height >= TALL) stage.base.append(label("plot-tick", square.x - 5, beside.y + beside.height / 2 + 4, ROWS[step], "end"));
    }
  }

  return {
    cursor(at) {
      stage.overlay.replaceChildren();
      if (!at) return;
      const { column, row } = tileOf(at);
      for (const square of squares) {
        const room = tile(square, column, row);
        stage.overlay.append(svg("rect", { class: "plot-cell-under", ...room }), svg("rect", { class: "plot-cell", ...room }));
      }
    },
    spots(at) {
      const { column, row } = tileOf(at);
      return squares.map((square) => {
        const { x, y, width } = tile(square, column, row);
        return [x + width / 2, y + width / 2];
      });
    },
    locate(px, py, held) {
      const panel = held ?? squares.findIndex((square) => inside(square, px, py));
      if (panel < 0) return null;
      const { x, y, width } = squares[panel];
      const place = (value: number): number => Math.min(SIDE - 1, Math.max(0, Math.floor((value / (width + GAP)) * SIDE)));
      return { at: tileAt(place(px - x), place(py - y)), panel };
    },
  };
}
