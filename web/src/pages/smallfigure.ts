import { scaleLinear } from "d3-scale";
import { modelColour } from "../colour";
import { svg } from "../dom";
import { count, number } from "../format";
import type { SmallFigure } from "../types";

const WIDTH = 132;
const ROW = 10;
const TALL = 44;
const EDGE = 3;
/** How the words of a card are told apart without colours: filled, crossed out, hollow, and a dot. */
const MARKS: Record<string, string> = {
  holds: "M-2.6,-2.6H2.6V2.6H-2.6Z",
  "falls short": "M-2.6,-2.6L2.6,2.6M-2.6,2.6L2.6,-2.6",
  "cannot tell yet": "M-2.3,0A2.3,2.3 0 1 0 2.3,0A2.3,2.3 0 1 0 -2.3,0",
  "does not apply": "M-0.8,0H0.8",
};

/** The main figure of a run as a thumbnail; its numbers are in its label. */
export function smallFigure(figure: SmallFigure): SVGSVGElement {
  const drawn = figure.kind === "intervals" ? intervals(figure.rows) : figure.kind === "words" ? words(figure) : curves(figure.curves);
  const label = `${figure.title}: ${drawn.said}${figure.more > 0 ? `, and ${figure.more} more` : ""}`;
  const node = svg("svg", { class: `small-figure ${figure.kind}`, width: drawn.width, height: drawn.height, viewBox: `0 0 ${drawn.width} ${drawn.height}`, role: "img", "aria-label": label });
  node.append(svg("title", {}, label), ...drawn.parts);
  return node;
}

interface Drawn {
  parts: SVGElement[];
  said: string;
  width: number;
  height: number;
}

type Of<K extends SmallFigure["kind"]> = Extract<SmallFigure, { kind: K }>;

function intervals(rows: Of<"intervals">["rows"]): Drawn {
  const ends = rows.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  const x = scaleLinear([Math.min(0, ...ends), Math.max(...ends)], [EDGE, WIDTH - EDGE]);
  const height = rows.length * ROW + 2;
  const parts: SVGElement[] = [svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height })];
  rows.forEach(({ value, low, high, control }, i) => {
    const y = 1 + (i + 0.5) * ROW;
    const css = control ? "control" : "own";
    parts.push(svg("line", { class: `ends ${css}`, x1: x(low ?? value), x2: x(high ?? value), y1: y, y2: y }), svg("circle", { class: css, cx: x(value), cy: y, r: 2.2 }));
  });
  const said = rows.map(({ name, value, low, high }) => `${name} ${number(value)}${low === null || high === null ? "" : ` (${number(low)} to ${number(high)})`}`);
  return { parts, said: said.join(", "), width: WIDTH, height };
}

function words({ rows, questions }: Of<"words">): Drawn {
  const step = 13;
  const parts = rows.flatMap((row, i) => row.words.map((word, j) => svg("path", { class: word.replaceAll(" ", "-"), d: MARKS[word] ?? "", transform: `translate(${(j + 0.5) * step},${1 + (i + 0.5) * (ROW + 2)})` })));
  const told = (list: string[]): string => Object.keys(MARKS).map((word) => [list.filter((one) => one === word).length, word] as const).filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`).join(", ");
  const said = rows.map(({ name, words }) => `${name} ${told(words)}`).join("; ");
  return { parts, said: `${said} of ${count(questions.length, "question")}`, width: Math.max(1, questions.length) * step, height: rows.length * (ROW + 2) + 2 };
}

function curves(found: Of<"curves">["curves"]): Drawn {
  const all = found.flatMap(({ values }) => values.filter((one) => one !== null));
  const y = scaleLinear([Math.min(...all), Math.max(...all)], [TALL - EDGE, EDGE]);
  const parts = found.map(({ values }, i) => {
    const x = scaleLinear([0, Math.max(1, values.length - 1)], [EDGE, WIDTH - EDGE]);
    const path = values.map((value, k) => (value === null ? "" : `${k === 0 || values[k - 1] === null ? "M" : "L"}${x(k).toFixed(1)},${y(value).toFixed(1)}`)).join("");
    return svg("path", { class: "curve", d: path, stroke: modelColour(i) });
  });
  const said = found.map(({ name, values }) => {
    const known = values.filter((one) => one !== null);
    return known.length > 0 ? `${name} from ${number(Math.min(...known))} to ${number(Math.max(...known))}` : `${name} undefined`;
  });
  return { parts, said: said.join(", "), width: WIDTH, height: TALL };
}
