import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { zoomIdentity } from "d3-zoom";
import { guard, type Loaded } from "../cache";
import { Choice as Chooser, el, keep, svg } from "../dom";
import { count, number } from "../format";
import { pointNear } from "../plots/embedding";
import { label, ruler, Stage } from "../plots/stage";
import type { Store } from "../store";
import type { AuditMeta, ScoreInfo } from "../types";
import { Board } from "./board";
import { arrow, nameOf, type Choice } from "./chosen";
import type { Table } from "../save";
import { rounded, simplified, type Place } from "./outline";
import { lasso, listed, selectedText, within } from "./selection";
import { open } from "./spread";
import type { Plane, Selection } from "./types";

const [LEFT, TOP, RIGHT, BOTTOM] = [48, 10, 22, 36];
const NEAR = 10;
/** A pointer that moves less than this clicks. */
const STILL = 5;
const [WIDTH, HEIGHT] = [720, 420];

/** The two scores of the plane: those of the address, or the chosen score and the first other one. */
export function axesOf(choice: Choice, x: string | null, y: string | null): [ScoreInfo, ScoreInfo] | null {
  const { single, score } = choice;
  const named = (name: string | null): ScoreInfo | undefined => single.find((one) => one.name === name);
  const across = named(x) ?? named(score.name) ?? single[0];
  const up = named(y) ?? single.find((one) => one !== across);
  return across === undefined || up === undefined ? null : [across, up];
}

/** The samples in the plane of two scores of one explainer: a lasso selects, a click chooses. */
export class ScatterBoard {
  readonly board: Board;
  private readonly x: Chooser;
  private readonly y: Chooser;
  private readonly host = el("div", { class: "plane-host", "data-testid": "plane" });
  private readonly stage: Stage;
  private readonly form: RangeForm;
  private readonly newer = guard();
  private plane: Plane | null = null;
  private axes: [ScoreInfo, ScoreInfo] | null = null;
  private choice: Choice | null = null;
  private places = new Float32Array();
  private outline: Place[] | null = null;

  constructor(
    private readonly store: Store,
    retry: () => void,
  ) {
    this.board = new Board("scatter", "Two scores", retry, { name: "two-scores", svg: () => this.svg(), csv: () => this.csv() });
    this.x = new Chooser("Across", "plane-x", (x) => store.set({ x }));
    this.y = new Chooser("Up", "plane-y", (y) => store.set({ y }));
    this.form = new RangeForm((part) => store.set({ picks: [part] }));
    this.board.tools.append(this.x.node, this.y.node);
    this.board.body.append(this.host, this.form.node);
    this.stage = new Stage(this.host, () => this.draw());
    this.stage.root.classList.add("plot-moves");
    this.stage.root.setAttribute("role", "img");
    this.stage.legend.append(el("span", { class: "plot-name" }, "drag: select by a lasso · click: choose a sample"));
    const { body } = this.stage;
    body.addEventListener("pointerdown", (event) => this.press(event));
    body.addEventListener("pointermove", (event) => this.move(event));
    body.addEventListener("pointerup", (event) => this.release(event));
    body.addEventListener("pointerleave", () => this.stage.say(null));
    body.addEventListener("pointercancel", () => this.drop());
  }

  render(meta: AuditMeta, choice: Choice, axes: [ScoreInfo, ScoreInfo] | null, found: Loaded<Plane> | null, selection: Loaded<Selection> | null): void {
    this.choice = choice;
    const options = choice.single.map(({ name, title }) => ({ value: name, text: title }));
    this.x.update(options, axes?.[0].name ?? "");
    this.y.update(options, axes?.[1].name ?? "");
    for (const { node } of [this.x, this.y]) keep(node, { hidden: axes === null });
    if (axes === null) return this.board.empty("This needs two scores that single samples of this explainer have.");
    this.form.render(meta.samples, choice, axes);
    if (found === null) return void this.board.show({ state: "loading" });
    if (!this.board.show(found)) return;
    this.axes = axes;
    this.plane = found.value;
    this.board.describe(told(found.value, choice, selection));
    const name = `${count(found.value.samples.length, "sample")} by ${axes[0].title} and ${axes[1].title}; select them by ranges below`;
    if (this.stage.root.getAttribute("aria-label") !== name) this.stage.root.setAttribute("aria-label", name);
    if (this.newer(found.value, choice.sample, axes[0], axes[1])) this.draw();
  }

  destroy(): void {
    this.stage.destroy();
  }

  /** From a score's values to pixels, and back. */
  private scales(plane: Plane, width: number, height: number): [ReturnType<typeof scaleLinear<number, number>>, ReturnType<typeof scaleLinear<number, number>>] {
    return [scaleLinear(open(plane.ends[0]), [LEFT, width - RIGHT]).nice(), scaleLinear(open(plane.ends[1]), [height - BOTTOM, TOP]).nice()];
  }

  private draw(): void {
    const { stage, plane, axes } = this;
    if (plane === null || axes === null || !stage.begin()) return;
    const [x, y] = this.scales(plane, stage.width, stage.height);
    stage.base.append(...frame(stage.width, stage.height, x, y, axes));
    this.places = new Float32Array(2 * plane.samples.length);
    plane.samples.forEach((_, i) => this.places.set([x(plane.x[i]), y(plane.y[i])], 2 * i));
    this.paint(plane);
    this.mark();
  }

  /** Every sample as a translucent dot, so that many on one place are darker; those of a selection over all others. */
  private paint(plane: Plane): void {
    const { context, theme, root } = this.stage;
    const n = plane.samples.length;
    const [radius, alpha] = n > 3000 ? [1.8, 0.3] : n > 500 ? [2.4, 0.45] : [3.6, 0.6];
    const accent = getComputedStyle(root).getPropertyValue("--accent").trim();
    const dots = (some: Iterable<number>, colour: string, opacity: number): void => {
      context.fillStyle = colour;
      context.globalAlpha = opacity;
      for (const i of some) {
        context.beginPath();
        context.arc(this.places[2 * i], this.places[2 * i + 1], radius, 0, 2 * Math.PI);
        context.fill();
      }
    };
    const marked = new Set(plane.chosen?.marked);
    const all = Array.from(plane.samples.keys());
    dots(plane.chosen === null ? all : all.filter((i) => !marked.has(i)), plane.chosen === null ? accent : theme.muted, plane.chosen === null ? alpha : 0.45 * alpha);
    dots(marked, accent, Math.min(1, 1.6 * alpha));
    context.globalAlpha = 1;
  }

  /** The chosen sample, and the lasso while it is drawn. */
  private mark(): void {
    const { stage, plane, choice, outline } = this;
    stage.overlay.replaceChildren();
    const at = plane?.samples.indexOf(choice?.sample ?? -1) ?? -1;
    if (at >= 0) {
      const [cx, cy] = [this.places[2 * at], this.places[2 * at + 1]];
      stage.overlay.append(svg("circle", { class: "plot-cell-under", cx, cy, r: 7 }), svg("circle", { class: "plot-cell", cx, cy, r: 7 }));
    }
    if (outline !== null) stage.overlay.append(svg("polygon", { class: "plot-lasso", points: outline.join(" ") }));
  }

  private near(place: Place): number {
    return pointNear(this.places, new Uint8Array(this.places.length / 2).fill(1), zoomIdentity, place[0], place[1], NEAR);
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0 || this.plane === null) return;
    this.stage.body.setPointerCapture(event.pointerId);
    this.outline = [this.placeOf(event)];
  }

  private move(event: PointerEvent): void {
    const place = this.placeOf(event);
    if (this.outline !== null) {
      this.outline.push(place);
      return this.mark();
    }
    const at = this.near(place);
    if (at < 0 || this.plane === null || this.axes === null) return this.stage.say(null);
    const { samples, x, y } = this.plane;
    const [across, up] = this.axes;
    this.stage.say([el("strong", {}, `sample ${samples[at]}`), `${across.title}: ${number(x[at])}`, `${up.title}: ${number(y[at])}`], ...place);
  }

  private release(event: PointerEvent): void {
    const { outline, plane, axes, choice } = this;
    if (outline === null || plane === null || axes === null || choice === null) return;
    this.drop();
    const far = Math.max(...outline.map(([x, y]) => Math.hypot(x - outline[0][0], y - outline[0][1])));
    if (far <= STILL) return this.pick(this.near(this.placeOf(event)));
    const [x, y] = this.scales(plane, this.stage.width, this.stage.height);
    const corners = simplified(outline).map(([left, top]): Place => [rounded(x.invert(left), open(plane.ends[0])), rounded(y.invert(top), open(plane.ends[1]))]);
    if (corners.length > 2) this.store.set({ picks: [lasso(choice.model, choice.explainer, axes[0].name, axes[1].name, corners)] });
  }

  private pick(at: number): void {
    if (at < 0 || this.plane === null || this.choice === null) return;
    const { explainer, model, score } = this.choice;
    this.store.set({ sample: this.plane.samples[at], explainer, models: [model], score: score.name });
  }

  private drop(): void {
    this.outline = null;
    this.mark();
  }

  private placeOf(event: PointerEvent): Place {
    const box = this.stage.body.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private svg(): SVGSVGElement | null {
    const { plane, axes } = this;
    if (plane === null || axes === null) return null;
    const [x, y] = this.scales(plane, WIDTH, HEIGHT);
    const node = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, class: "drawing plot" });
    const marked = new Set(plane.chosen?.marked);
    const css = (i: number): string => (plane.chosen === null || marked.has(i) ? "plane-dot" : "plane-dot plane-other");
    node.append(...frame(WIDTH, HEIGHT, x, y, axes), ...plane.samples.map((_, i) => svg("circle", { cx: x(plane.x[i]).toFixed(1), cy: y(plane.y[i]).toFixed(1), r: 2.5, class: css(i) })));
    return node;
  }

  private csv(): Table | null {
    const { plane, axes } = this;
    if (plane === null || axes === null) return null;
    const marked = new Set(plane.chosen?.marked);
    const chosen = (i: number): (string | number)[] => (plane.chosen === null ? [] : [String(marked.has(i))]);
    return [["sample", axes[0].name, axes[1].name, ...(plane.chosen === null ? [] : ["selected"])], ...plane.samples.map((sample, i) => [sample, plane.x[i], plane.y[i], ...chosen(i)])];
  }
}

type Scale = ReturnType<typeof scaleLinear<number, number>>;

function frame(width: number, height: number, x: Scale, y: Scale, [across, up]: [ScoreInfo, ScoreInfo]): Element[] {
  const upwards = label("plot-label", 0, 0, `${up.title}${arrow(up)}`);
  upwards.setAttribute("transform", `translate(11, ${(TOP + height - BOTTOM) / 2}) rotate(-90)`);
  return [
    ruler(axisBottom<number>(x).ticks(Math.max(2, width / 90)).tickSize(3), 0, height - BOTTOM),
    ruler(axisLeft<number>(y).ticks(5).tickSize(3), LEFT, 0),
    label("plot-label", (LEFT + width - RIGHT) / 2, height - 4, `${across.title}${arrow(across)}`),
    upwards,
  ];
}

/** How many samples there are, how many of them are drawn, and how many are selected. */
function told({ total, n, samples, chosen }: Plane, choice: Choice, selection: Loaded<Selection> | null): string {
  const whose = `${nameOf(choice.explainer)} on ${choice.model}`;
  const both = n === total ? `all ${count(n, "sample")} have both scores` : `${n.toLocaleString("en")} of ${count(total, "sample")} have both scores`;
  const drawn = samples.length === n ? "" : `; ${samples.length.toLocaleString("en")} of them are drawn, always the same ones, and a lasso selects among all`;
  const selected = chosen === null ? "" : `; in colour: ${chosen.n.toLocaleString("en")} of ${selectedText(selection)}${samples.length === n ? "" : `, ${chosen.marked.length.toLocaleString("en")} of them drawn`}`;
  return `${whose}: ${both}${drawn}${selected}`;
}

/** Selects by typed ranges of both scores and by numbers, as the lasso does by pointer. */
class RangeForm {
  readonly node: HTMLElement;
  private readonly ends: HTMLInputElement[];
  private readonly names = [el("legend", {}), el("legend", {})];
  private readonly numbers: HTMLInputElement;
  private choice: Choice | null = null;
  private axes: [ScoreInfo, ScoreInfo] | null = null;
  private total = 0;

  constructor(private readonly select: (part: string) => void) {
    const end = (id: string, name: string): HTMLInputElement => el("input", { type: "number", step: "any", "data-testid": id, "aria-label": name });
    this.ends = [end("x-low", "from"), end("x-high", "to"), end("y-low", "from"), end("y-high", "to")];
    this.numbers = el("input", { type: "search", placeholder: "0-99, 120", "data-testid": "pick-numbers", "aria-label": "Numbers of samples", oninput: () => this.numbers.setCustomValidity("") });
    const axis = (at: number): HTMLElement => el("fieldset", {}, this.names[at], "from", this.ends[2 * at], "to", this.ends[2 * at + 1]);
    const submit = (act: () => void) => (event: Event): void => {
      event.preventDefault();
      act();
    };
    this.node = el(
      "details",
      { class: "ranges", "data-testid": "ranges" },
      el("summary", {}, "Select by ranges or numbers"),
      el("form", { onsubmit: submit(() => this.range()) }, axis(0), axis(1), el("button", { type: "submit", "data-testid": "pick-range" }, "Select this range")),
      el("form", { onsubmit: submit(() => this.list()) }, el("label", {}, "Samples ", this.numbers), el("button", { type: "submit" }, "Select these numbers")),
    );
  }

  render(total: number, choice: Choice, axes: [ScoreInfo, ScoreInfo]): void {
    [this.total, this.choice, this.axes] = [total, choice, axes];
    axes.forEach(({ title }, at) => {
      keep(this.names[at], { textContent: title });
      ["from", "to"].forEach((end, i) => keep(this.ends[2 * at + i], { ariaLabel: `${title} ${end}` }));
    });
  }

  private range(): void {
    if (this.choice === null || this.axes === null) return;
    const [xLow, xHigh, yLow, yHigh] = this.ends.map((input) => (input.value === "" || !Number.isFinite(input.valueAsNumber) ? null : input.valueAsNumber));
    const bounds = [
      { score: this.axes[0].name, low: xLow, high: xHigh },
      { score: this.axes[1].name, low: yLow, high: yHigh },
    ];
    const given = bounds.filter(({ low, high }) => low !== null || high !== null);
    this.select(within(this.choice.model, this.choice.explainer, given.length > 0 ? given : bounds));
  }

  private list(): void {
    const part = listed(this.numbers.value, this.total);
    this.numbers.setCustomValidity(part === null ? `Give numbers from 0 to ${this.total - 1}, such as 0-4, 9.` : "");
    this.numbers.reportValidity();
    if (part !== null) this.select(part);
  }
}
