import { el } from "../dom";
import { number } from "../format";
import { refill } from "./board";
import { nameOf, type Choice } from "./chosen";
import { tile } from "./drawing";
import type { Tile } from "./pair";
import type { Course, CourseLine, PlotLine } from "./types";

const TITLES = { curve: "Step by step, as stored", search: "The path of each search, as stored", folds: "Distances to the models that saw the sample, as stored" };

/** What the run stored of a sample step by step: one plot per explainer, or for folds a table. */
export class CoursePanel {
  readonly node = el("div", { "data-testid": "course" });
  /** What is drawn. */
  tiles: Tile[] = [];

  render(choice: Choice, course: Course | null, shown: readonly string[]): void {
    this.tiles = [];
    this.node.dataset.kind = course?.kind ?? "";
    if (course === null) return refill(this.node);
    const heading = el("h3", {}, TITLES[course.kind]);
    if (course.kind === "folds") return refill(this.node, heading, el("p", { class: "quiet" }, FOLDS), this.table(choice, course, shown));
    // a score of the model itself has one line, of no explainer
    const names = choice.explainer === "" ? [""] : shown;
    const lines = names.flatMap((name) => course.lines.filter(({ explainer }) => explainer === name));
    if (lines.length === 0) return refill(this.node);
    this.tiles = lines.map((line) => ({ caption: titleOf(line), below: endsOf(line, course), drawing: { kind: "plot", lines: around(line, course, choice) } }));
    const drawn = this.tiles.map(({ caption, below, drawing }, i) => {
      const { explainer } = lines[i];
      return tile(caption, [el("span", { class: "n quiet" }, below)], drawing, "", { "data-explainer": explainer, "data-chosen": explainer === choice.explainer ? "true" : null });
    });
    const several = course.lines.some(({ draws }) => draws.length > 0);
    const control = course.kind === "curve" && course.lines.some(({ explainer }) => explainer.startsWith(RANDOM));
    const keys = [`Across: ${course.across}.`, `Up: ${course.up}${several ? ", its mean over draws; each draw is a thin line" : ""}.`, greyText(lines.some(({ explainer }) => explainer !== lines[0].explainer), control)];
    refill(this.node, heading, el("p", { class: "quiet" }, keys.filter(Boolean).join(" ")), el("div", { class: "tiles" }, ...drawn));
  }

  private table(choice: Choice, course: Course, shown: readonly string[]): HTMLElement {
    const lines = shown.flatMap((name) => course.lines.filter(({ explainer }) => explainer === name));
    const most = Math.max(0, ...lines.map(({ values }) => values.length));
    const head = el("tr", {}, el("th", { scope: "col" }, "Explainer"), ...Array.from({ length: most }, (_, i) => el("th", { scope: "col" }, `Other model ${i + 1}`)));
    const body = lines.map(({ explainer, values, sets }) =>
      el("tr", { "data-explainer": explainer, "data-chosen": explainer === choice.explainer }, el("th", { scope: "row" }, explainer), ...values.map((value, i) => el("td", { class: "n" }, number(value), " ", el("small", { class: "quiet" }, sets?.[i] ?? "")))),
    );
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": TITLES.folds }, el("table", { class: "numbers matrix" }, el("thead", {}, head), el("tbody", {}, ...body)));
  }
}

const FOLDS = "The model of the sample's own fold never saw it; the others were trained on it. S= are pairs of models that agree, S≠ pairs that contradict each other.";
const RANDOM = "random_";

function greyText(others: boolean, control: boolean): string {
  return [others ? "Grey: the other explainers." : "", control ? "Dashed: random explanations." : ""].filter(Boolean).join(" ");
}

function titleOf({ explainer, title }: CourseLine): string {
  return title ? `${nameOf(explainer)}: ${title}` : nameOf(explainer);
}

/** "0.999 → 0.053": the first and the last value, and for a search after how many evaluations. */
function endsOf({ values, places }: CourseLine, { kind }: Course): string {
  const known = values.flatMap((value, i) => (value === null ? [] : [i]));
  if (known.length === 0) return kind === "search" ? "no feasible point" : "undefined";
  const [first, last] = [known[0], known[known.length - 1]];
  return `${number(values[first])} → ${number(values[last])}${kind === "search" ? ` after ${places[places.length - 1]}` : ""}`;
}

/** The line of an explainer among those of all others of its kind. */
function around(own: CourseLine, course: Course, choice: Choice): PlotLine[] {
  const controls = new Set(choice.ranked.filter(({ control }) => control).map(({ explainer }) => explainer));
  // random maps agree with nothing, so that beside them every search would look flat
  const among = ({ explainer }: CourseLine): boolean => !controls.has(explainer) || (course.kind === "curve" && explainer.startsWith(RANDOM));
  const others = course.lines.filter((one) => one !== own && one.title === own.title && among(one));
  return [
    ...others.map(({ explainer, places, values }): PlotLine => ({ name: explainer, look: controls.has(explainer) ? "control" : "other", places, values })),
    ...own.draws.map((values, i): PlotLine => ({ name: `${own.explainer}, draw ${i}`, look: "draw", places: own.places, values })),
    { name: titleOf(own), look: "own", places: own.places, values: own.values },
  ];
}
