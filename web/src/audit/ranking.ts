import { scaleLinear } from "d3-scale";
import type { Loaded } from "../cache";
import { dashOf, modelColour } from "../colour";
import { el, svg } from "../dom";
import { count, number, percent } from "../format";
import { axisRange } from "../orbit/compute";
import { forest, forestText } from "../pages/forest";
import { rowsOf, type Row } from "../pages/rows";
import type { Store } from "../store";
import type { AuditMeta, Cell, ScoreInfo } from "../types";
import { Board, refill } from "./board";
import { arrow, better, breakable, nameOf, rank, type Choice } from "./chosen";
import type { Table } from "../save";
import { selectedText, usesScore } from "./selection";
import type { Place, Ranks, SelectedValue, Selection } from "./types";

const LINE = 15;
const BESIDE = [
  { key: "self_agreement", title: "Self-agreement" },
  { key: "random_control", title: "Random control" },
];
const COLUMNS = ["model", "explainer", "score", "value", "low", "high", "rank_first", "rank_last", "n", "undefined", "self_agreement", "random_control", "chance", "control", "state"];

/** Explainers by one score, best first, with intervals, controls and self-agreement. */
export class Ranking {
  readonly board: Board;
  private readonly table = el("table", { class: "ranking numbers" });
  private now: { meta: AuditMeta; choice: Choice; selected: SelectedValue[] | null; ranks: Loaded<Ranks> | null } | null = null;

  constructor(
    private readonly store: Store,
    retry: () => void,
  ) {
    this.board = new Board("ranking", "Ranking", retry, { name: "ranking", svg: () => this.svg(), csv: () => this.csv() });
    this.board.body.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ranking of explainers" }, this.table));
  }

  render(meta: AuditMeta, choice: Choice, selection: Loaded<Selection> | null, values: Loaded<SelectedValue[]> | null, ranking: Loaded<Ranks> | string): void {
    const { score, ranked } = choice;
    const selected = values?.state === "ready" ? values.value : null;
    const ranks = typeof ranking === "string" ? null : ranking;
    this.now = { meta, choice, selected, ranks };
    this.board.show({ state: "ready", value: null });
    const known = ranksOf(ranks, choice.model, score.name);
    const unranked = typeof ranking === "string" ? ranking : ranking.state === "error" ? `not ranked: ${ranking.error.message}` : (known?.why ?? "");
    const why = selection === null && score.direction !== "" && ranked.some((row) => row.explainer !== "") ? unranked : "";
    const side = [score.title, better(score), meta.models.length > 1 ? `numbers of ${choice.model}` : "", why].filter(Boolean);
    const kinds = new Set(Object.values(known?.ranks ?? {}).map(({ kind }) => kind)).size;
    const shared = `; explainers share ranks if paired differences cannot tell them apart${kinds > 1 ? ", and each kind of explanation has its own ranks" : ""}`;
    const circular = choice.picks.some((part) => usesScore(part, score.name)) ? "; these were selected by this very score, so their value says nothing of other samples" : "";
    this.board.describe(`${side.join(", ")}${selection === null && known?.why === "" ? shared : ""}${selection === null ? "" : `; order, plot and value are of all samples, the column “Selected” is of the ${selectedText(selection)}, without an interval${circular}`}`);
    const every = rowsOf(meta, score.name);
    const x = scaleOf(score, every);
    this.table.dataset.testid = `score-${score.name}`;
    const beside = BESIDE.filter(({ key }) => score.beside.includes(key) && ranked.some((row) => row.explainer !== ""));
    const heads = ["Explainer", axis(x), `Value (${percent(meta.confidence)})`, selection === null ? "Rank" : "Selected", ...beside.map(({ title }) => title), "Samples"];
    const head = el("tr", {}, ...heads.map((one) => el("th", { scope: "col" }, one)));
    refill(this.table, el("thead", {}, head), el("tbody", {}, ...ranked.map((row) => this.row(row, every, x, choice, meta, beside, selection === null ? rankCell(row, ranks, known) : selectedCell(row, values)))));
  }

  private row(row: Row, every: Row[], x: Scale, choice: Choice, meta: AuditMeta, beside: typeof BESIDE, last: HTMLElement): HTMLElement {
    const chosen = row.explainer === choice.explainer;
    const choose = (): void => this.store.set({ explainer: row.explainer, models: [choice.model], score: choice.score.name });
    const button = el("button", { type: "button", class: "plain", "data-key": row.explainer, "aria-pressed": String(chosen), onclick: choose }, ...breakable(nameOf(row.explainer)));
    const source = meta.table.find((one) => one.score === choice.score.name && one.model === row.model && (one.explainer ?? "") === row.explainer) ?? {};
    const plot = el("td", { class: "dots", onclick: choose }, dots(every.filter((one) => one.explainer === row.explainer), x, meta.models));
    const more = beside.map(({ key }) => cell(source[key], key === "random_control" && !row.control ? meta.nulls[row.explainer] : undefined));
    const chance = source.chance ? el("small", { class: "chance" }, String(source.chance)) : null;
    const said = row.state === "done" ? "" : " quiet";
    return el(
      "tr",
      { "data-explainer": row.explainer, "data-chosen": chosen, "data-state": row.state },
      el("th", { scope: "row" }, button, row.control ? el("small", { class: "quiet" }, "control") : null),
      plot,
      el("td", { class: `n number${said}`, "data-state": row.state, title: [row.said, row.failed].filter(Boolean).join(": ") }, forestText(row), chance),
      last,
      ...more,
      el("td", { class: "n" }, counted(row)),
    );
  }

  private svg(): SVGSVGElement | null {
    if (this.now === null) return null;
    const { meta, choice } = this.now;
    const order = choice.ranked.map((row) => row.explainer);
    const rows = rowsOf(meta, choice.score.name).sort((a, b) => order.indexOf(a.explainer) - order.indexOf(b.explainer));
    return forest(choice.score, rows, meta.models);
  }

  private csv(): Table | null {
    if (this.now === null) return null;
    const { meta, choice, selected, ranks } = this.now;
    const known = ranksOf(ranks, choice.model, choice.score.name);
    const rows = choice.ranked.map((row) => meta.table.find((one) => one.score === choice.score.name && one.model === row.model && (one.explainer ?? "") === row.explainer) ?? {}).map((row) => {
      const place = known?.ranks[String(row.explainer ?? "")];
      return { ...row, rank_first: place?.first ?? null, rank_last: place?.last ?? null } as Record<string, Cell>;
    });
    const own = (explainer: string): (string | number | null)[] => {
      const one = selected?.find((value) => value.explainer === explainer);
      return selected === null ? [] : [one?.value ?? null, one?.n ?? 0];
    };
    return [[...COLUMNS, ...(selected === null ? [] : ["selected_value", "selected_n"])], ...rows.map((row) => [...COLUMNS.map((name) => plain(row[name])), ...own(String(row.explainer ?? ""))])];
  }
}

/** The ranks by one score on one model; null while they are not known. */
function ranksOf(found: Loaded<Ranks> | null, model: string, score: string): Ranks[string][string] | null {
  return found?.state === "ready" ? (found.value[model]?.[score] ?? null) : null;
}

function rankCell(row: Row, found: Loaded<Ranks> | null, known: Ranks[string][string] | null): HTMLElement {
  const place = known?.ranks[row.explainer];
  const text = place !== undefined ? placeText(place) : found?.state === "loading" ? "…" : "–";
  const why = row.control ? "controls are not ranked" : (known?.why ?? "");
  return el("td", { class: "n place", "data-testid": `rank-${row.explainer}`, title: place === undefined ? why : "" }, text);
}

/** "2", or "1–3" where paired differences leave several ranks. */
function placeText({ first, last }: Place): string {
  return first === last ? String(first) : `${first}–${last}`;
}

/** What a row is on the selected samples. */
function selectedCell(row: Row, found: Loaded<SelectedValue[]> | null): HTMLElement {
  const one = found?.state === "ready" ? found.value.find(({ explainer }) => explainer === row.explainer) : undefined;
  const text = found?.state === "loading" ? "…" : found?.state === "error" ? "–" : number(one?.value);
  const title = found?.state === "error" ? found.error.message : one === undefined ? "" : count(one.n, "sample");
  return el("td", { class: "n selected-value", title }, text);
}

export function plain(value: Cell | undefined): string | number | null {
  return typeof value === "boolean" ? String(value) : (value ?? null);
}

type Scale = ReturnType<typeof scaleLinear<number, number>>;

/** From values to per cent of the width. */
function scaleOf(score: ScoreInfo, rows: Row[]): Scale {
  const reached = rows.filter((row) => row.state !== "pending").flatMap((row) => [row.value, row.low, row.high].filter((one) => one !== null));
  const x = scaleLinear(axisRange(score.low, score.high, reached), [3, 97]);
  return score.low === null || score.high === null ? x.nice(4) : x;
}

function axis(x: Scale): Element {
  const node = svg("svg", { class: "strip axis-strip", height: 16, "aria-hidden": "true" });
  const said = x.tickFormat(3);
  for (const tick of x.ticks(2)) node.append(svg("text", { x: `${x(tick)}%`, y: 12, "text-anchor": "middle" }, said(tick)));
  return el("span", {}, el("span", { class: "unseen" }, "Plot"), node);
}

/** One line for each model: its interval, and a dot that is hollow for a control; an arrow where the value is only a bound. */
function dots(rows: Row[], x: Scale, models: string[]): SVGSVGElement {
  const node = svg("svg", { class: "strip", height: Math.max(1, models.length) * LINE + 3, "aria-hidden": "true" });
  for (const tick of x.ticks(3)) node.append(svg("line", { x1: `${x(tick)}%`, x2: `${x(tick)}%`, y1: 0, y2: "100%", class: tick === 0 ? "grid zero" : "grid" }));
  for (const row of rows) {
    if (row.value === null || row.state !== "done") continue;
    const place = Math.max(0, models.indexOf(row.model));
    const [colour, y] = [modelColour(place), place * LINE + LINE / 2 + 1.5];
    const drawn = { stroke: colour, "stroke-width": 1.6 };
    if (row.high !== null) node.append(svg("line", { ...drawn, y1: y, y2: y, x1: `${x(row.low ?? x.domain()[0])}%`, x2: `${x(row.high)}%`, "stroke-dasharray": dashOf(colour) }));
    const at = svg("svg", { x: `${x(row.value)}%`, y, overflow: "visible", width: 1, height: 1 });
    if (row.bound) at.append(svg("path", { d: "M-6 0H-16M-12 -3.5L-16 0L-12 3.5", class: "at-most", fill: "none", ...drawn }));
    at.append(svg("circle", { r: 4, class: row.control ? "hollow" : null, fill: row.control ? "none" : colour, ...drawn }));
    at.append(svg("title", {}, `${row.model}: ${forestText(row)}`));
    node.append(at);
  }
  return node;
}

/** A number, and whose it is where that is not the row's own explainer. */
function cell(value: Cell | undefined, whose = ""): HTMLElement {
  const of = typeof value === "number" && whose !== "" ? el("small", { class: "quiet" }, nameOf(whose)) : null;
  return el("td", { class: "n" }, typeof value === "number" ? number(value) : "–", of === null ? null : " ", of);
}

function counted(row: Row): string {
  const n = (row.n ?? 0).toLocaleString("en");
  return row.undefined ? `${n} (${row.undefined.toLocaleString("en")} undefined)` : n;
}

/** Every explainer by every score of one model. */
export class Matrix {
  readonly board: Board;
  private readonly table = el("table", { class: "matrix numbers" });
  private grid: Table = [];

  constructor(private readonly store: Store) {
    this.board = new Board("matrix", "Explainers by scores", () => undefined, { name: "matrix", svg: () => gridSvg(this.grid), csv: () => this.grid });
    this.board.body.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of explainers by scores" }, this.table));
  }

  render(meta: AuditMeta, choice: Choice, selection: Loaded<Selection> | null, ranks: Loaded<Ranks> | null): void {
    this.board.show({ state: "ready", value: null });
    const whole = selection === null ? "" : `; all samples, not only the ${selectedText(selection)}`;
    const chances = new Map(meta.table.filter((row) => row.model === choice.model && row.chance).map((row) => [`${row.score} ${row.explainer}`, String(row.chance)]));
    const tints = new Map(meta.scores.map(({ name }) => [name, tintsOf(ranksOf(ranks, choice.model, name)?.ranks ?? {})]));
    const coloured = [...tints.values()].some((one) => one.size > 0)
      ? "; the fewer explainers of its kind are ahead by paired differences, the stronger the colour; none where it is no better than chance"
      : meta.scores.some(({ name }) => ranksOf(ranks, choice.model, name)?.why === "")
        ? "; no colours, since paired differences tell no explainers apart"
        : "";
    this.board.describe(`${choice.model}; arrows point to better values${coloured}${whole}`);
    const own = new Map(meta.scores.map((score) => [score.name, rank(rowsOf(meta, score.name).filter(({ model }) => model === choice.model), score)]));
    const first = choice.ranked.map((row) => row.explainer);
    const rest = [...new Set([...own.values()].flat().map((row) => row.explainer))].filter((name) => !first.includes(name));
    const names = [...first, ...rest];
    const controls = new Set([...own.values()].flat().filter((row) => row.control).map((row) => row.explainer));
    const heads = meta.scores.map((score) => {
      const choose = (): void => this.store.set({ score: score.name });
      return el("th", { scope: "col", "data-chosen": score === choice.score }, el("button", { type: "button", class: "plain", "data-key": `score ${score.name}`, "aria-pressed": String(score === choice.score), onclick: choose }, `${score.title}${arrow(score)}`));
    });
    const body = names.map((name) => {
      const cells = meta.scores.map((score) => {
        const rows = own.get(score.name) ?? [];
        const row = rows.find(({ explainer }) => explainer === name);
        if (row === undefined) return el("td", { class: "n quiet" }, el("span", { class: "unseen" }, "not measured"));
        const chosen = score === choice.score && name === choice.explainer;
        const choose = (): void => this.store.set({ score: score.name, explainer: name, models: [choice.model] });
        const value = row.value === null ? "" : `${row.bound ? "≤ " : ""}${number(row.value)}`;
        const text = row.state === "done" && value ? value : row.state === "pending" && value ? `so far ${value}` : row.state;
        const place = ranksOf(ranks, choice.model, score.name)?.ranks;
        const chance = chances.get(`${score.name} ${name}`);
        const label = `${nameOf(name)}, ${score.title}: ${text}${place?.[name] === undefined ? "" : `, rank ${placeText(place[name])}`}${chance === undefined ? "" : `, ${chance}`}`;
        const button = el("button", { type: "button", class: "plain", "data-key": `${score.name} ${name}`, "aria-pressed": String(chosen), "aria-label": label, title: label, onclick: choose }, text);
        return el("td", { class: "n", "data-tint": chance === undefined ? (tints.get(score.name)?.get(name) ?? null) : null, "data-score": score.name, "data-chosen": chosen }, button);
      });
      const control = controls.has(name) ? el("small", { class: "quiet" }, "control") : null;
      return el("tr", { "data-explainer": name }, el("th", { scope: "row" }, ...breakable(nameOf(name)), control), ...cells);
    });
    this.grid = [["explainer", ...meta.scores.map(({ name }) => name)], ...names.map((name) => [name, ...meta.scores.map((score) => own.get(score.name)?.find(({ explainer }) => explainer === name)?.value ?? null)])];
    refill(this.table, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Explainer"), ...heads)), el("tbody", {}, ...body));
  }
}

/** By explainer, from 0 (of its kind, the most are ahead) to 4 (nobody is); of a kind in which nobody is ahead of anybody, none. */
function tintsOf(ranks: Record<string, Place>): Map<string, number> {
  const worst: Record<string, number> = {};
  for (const { first, kind } of Object.values(ranks)) worst[kind] = Math.max(worst[kind] ?? 1, first);
  const told = Object.entries(ranks).filter(([, { kind }]) => worst[kind] > 1);
  return new Map(told.map(([name, { first, kind }]) => [name, Math.round((4 * (worst[kind] - first)) / (worst[kind] - 1))]));
}

/** A table of numbers as a drawing. */
export function gridSvg(grid: Table): SVGSVGElement | null {
  if (grid.length === 0) return null;
  const [first, step, line] = [180, 130, 20];
  const [width, height] = [first + step * (grid[0].length - 1) + 20, line * grid.length + 16];
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "drawing" });
  grid.forEach((row, i) =>
    row.forEach((value, j) => {
      const text = typeof value === "number" ? number(value) : (value ?? "–") || "the model itself";
      node.append(svg("text", { x: j === 0 ? 10 : first + j * step, y: 20 + i * line, "text-anchor": j === 0 ? "start" : "end", class: i === 0 ? "word strong" : "word" }, text));
    }),
  );
  return node;
}
