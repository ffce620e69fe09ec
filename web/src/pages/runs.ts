import { el, keep } from "../dom";
import { count, date, span } from "../format";
import type { Page } from "../page";
import { GROUPS, START, type Group, type State } from "../state";
import type { Store } from "../store";
import type { RunEntry, RunIndex, RunState, Verdict } from "../types";
import { smallFigure } from "./smallfigure";

const KINDS: Record<string, string> = { orbits: "Orbits", audit: "Audit", report: "Report", damaged: "Damaged", unread: "" };
const STAGES: Record<RunState["stage"], number> = { running: 0, failures: 1, unfinished: 2, done: 3 };
/** Milliseconds between a keystroke and the search. */
const PAUSE = 120;
/** How many rows are drawn at once; the others follow when these are in sight. */
const FIRST = 60;

interface Column {
  key: string;
  title: string;
  /** What a run is sorted by; nothing sorts last. */
  by?: (run: RunEntry) => string | number | null;
}

const COLUMNS: Column[] = [
  { key: "run", title: "Run", by: (run) => run.title || run.path },
  { key: "kind", title: "Kind", by: kind },
  { key: "state", title: "State", by: (run) => (run.state === null ? null : STAGES[run.state.stage]) },
  { key: "figure", title: "Main figure" },
  { key: "verdict", title: "Verdict" },
  { key: "models", title: "Models", by: (run) => run.models?.join() ?? null },
  { key: "explainers", title: "Explainers", by: (run) => run.explainers?.length ?? null },
  { key: "samples", title: "Samples", by: (run) => run.samples ?? null },
  { key: "made", title: "Made", by: (run) => run.created },
];
const NEWEST = "-made";
const WORDS = new Intl.Collator("en", { numeric: true });

/** "Audit", "Orbits", "Card", "Symmetry scan". */
function kind(run: RunEntry): string {
  const words = run.words?.replace(/^an? /, "") ?? "";
  return KINDS[run.kind] && run.kind !== "report" ? KINDS[run.kind] : words.charAt(0).toUpperCase() + words.slice(1);
}

/** The group that a run belongs to: the folder that it lies in, or its kind. */
function groupOf(run: RunEntry, group: Group): string {
  if (group === "kind") return kind(run) || "Not read yet";
  const end = run.path.lastIndexOf("/");
  return end < 0 ? "This folder" : run.path.slice(0, end);
}

/** The runs that a run lies inside, the innermost first: its path begins with theirs; that of the served folder ends with a slash. */
function outside(run: RunEntry, known: ReadonlyMap<string, RunEntry>, root: RunEntry | null): RunEntry[] {
  const found: RunEntry[] = [];
  for (let end = run.id.lastIndexOf("/"); end > 0; end = run.id.lastIndexOf("/", end - 1)) {
    const outer = known.get(run.id.slice(0, end));
    if (outer !== undefined && outer !== run) found.push(outer);
  }
  return root === null || root === run ? found : [...found, root];
}

function settled(run: RunEntry): boolean {
  return run.state?.stage === "done" || run.state?.stage === "failures";
}

/** How far a run is, in a few words; `outer` is the finished study that it was measured for. */
function said(run: RunEntry, outer: RunEntry | null): string {
  const { state } = run;
  const study = outer?.words?.match(/^an? (.*)/)?.[1] ?? "study";
  if (state?.stage === "unfinished" && outer !== null) return `done as far as the ${study} needed it, ${state.measured} of ${count(state.cells, state.unit)}`;
  if (state === null) return run.kind === "unread" ? "not read yet" : "cannot be read";
  if (state.stage === "done") return "done";
  if (state.stage === "failures") return `finished, ${state.failed} of ${count(state.cells, state.unit)} failed`;
  const failed = state.failed > 0 ? `, ${state.failed} failed` : "";
  const left = state.stage === "running" && typeof run.left === "number" ? `, about ${span(run.left)} left` : "";
  return `${state.stage}, ${state.measured} of ${count(state.cells, state.unit)}${failed}${left}`;
}

/** The first names of a list, and how many more there are. */
function some(names: readonly string[] | undefined, most: number): string {
  if (names === undefined) return "";
  return names.length <= most ? names.join(", ") : `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
}

const READING = "reading…";
const NOTHING: Verdict = { verdict: "", figure: null };

/** One run of the list; it is drawn when it is first shown, and changes in place, so that neither focus nor place are lost. */
class Row {
  text = "";
  private drawn: HTMLTableRowElement | null = null;
  private readonly link = el("a", {});
  private readonly path = el("small", { class: "quiet" });
  private readonly cells = new Map<string, HTMLTableCellElement>();
  /** Its first lines are shown; the whole stands in its title, and on paper. */
  private readonly verdict = el("div", {});
  private readonly state = el("span", {});
  private readonly bar = el("progress", { hidden: true, "aria-label": "Progress" });
  private readonly fold = el("button", { type: "button", class: "plain", hidden: true });
  private said: Verdict = NOTHING;
  /** The finished study that the run was measured for. */
  private outer: RunEntry | null = null;

  constructor(
    public run: RunEntry,
    private readonly store: Store,
    private readonly changed: (row: Row) => void,
  ) {
    this.fold.addEventListener("click", () => {
      const { parts } = this.store.state;
      this.store.set({ parts: parts.includes(this.run.id) ? parts.filter((id) => id !== this.run.id) : [...parts, this.run.id] }, "replace");
    });
    this.update(run, null);
  }

  get node(): HTMLTableRowElement {
    return this.drawn ?? this.draw();
  }

  /** Whether this is what the row shows already. */
  shows(run: RunEntry, outer: RunEntry | null): boolean {
    return JSON.stringify([this.run, this.outer?.id]) === JSON.stringify([run, outer?.id]);
  }

  update(run: RunEntry, outer: RunEntry | null): void {
    this.run = run;
    this.outer = outer;
    this.text = [run.title, run.path, kind(run), said(run, outer), ...(run.models ?? []), ...(run.explainers ?? [])].join("\n").toLowerCase();
    if (this.drawn !== null) this.fill();
  }

  /** How many runs lie inside this one, and whether they are listed below it; `part` says that the row itself is listed so. */
  hold(parts: number, unfolded: boolean, part: boolean): void {
    keep(this.fold, { hidden: parts === 0, textContent: unfolded ? `Hide its ${count(parts, "part")}` : `and ${count(parts, "part")}`, ariaExpanded: String(unfolded) });
    this.node.classList.toggle("part", part);
  }

  say(said: Verdict): void {
    this.said = said;
    keep(this.verdict, { textContent: said.verdict, title: said.verdict });
    this.cells.get("figure")?.replaceChildren(...(said.figure === null ? [] : [smallFigure(said.figure)]));
  }

  /** Says that its verdict is on its way, or no longer. */
  wait(on: boolean): void {
    if (this.said === NOTHING && !this.run.why) keep(this.verdict, { textContent: on ? READING : "", title: "" });
  }

  private draw(): HTMLTableRowElement {
    const open = (event: Event): void => {
      event.preventDefault();
      this.store.set({ ...START, theme: this.store.state.theme, run: this.run.id });
    };
    this.link.href = `#run=${encodeURIComponent(this.run.id)}`;
    this.link.addEventListener("click", open);
    for (const { key, title } of COLUMNS) this.cells.set(key, el("td", { class: `c-${key}`, "data-title": title }));
    this.cells.get("verdict")?.append(this.verdict);
    this.cells.get("run")?.append(this.link, this.path, this.fold);
    this.cells.get("state")?.append(this.state, this.bar);
    this.drawn = el("tr", { "data-testid": `run-${this.run.id}` }, ...this.cells.values());
    this.fill();
    return this.drawn;
  }

  private fill(): void {
    const { run } = this;
    if (!settled(run)) this.say(NOTHING);
    keep(this.link, { textContent: run.title || run.path });
    keep(this.path, { textContent: run.title && run.title !== run.path ? run.path : "" });
    keep(this.state, { textContent: said(run, this.outer), title: this.outer === null || settled(run) ? (run.state?.sentence ?? "") : "" });
    const running = run.state?.stage === "running" && run.state.cells > 0;
    keep(this.bar, { hidden: !running });
    if (running) keep(this.bar, { max: run.state!.cells, value: run.state!.measured + run.state!.failed });
    this.cells.get("state")?.setAttribute("data-stage", run.state?.stage ?? run.kind);
    this.put("kind", kind(run));
    this.put("models", some(run.models, 3), run.models?.join(", "));
    this.put("explainers", some(run.explainers, 4), run.explainers?.join(", "));
    this.put("samples", run.samples === undefined ? (run.parts === undefined ? "" : count(run.parts.length, run.state?.unit ?? "run")) : run.samples.toLocaleString("en"));
    this.put("made", date(run.created));
    keep(this.verdict, { textContent: run.why ?? this.said.verdict, title: run.why ?? this.said.verdict });
    this.changed(this);
  }

  private put(key: string, text: string, title = ""): void {
    const cell = this.cells.get(key);
    if (cell !== undefined) keep(cell, { textContent: text, title });
  }
}

/** Asks for the verdicts of runs that are in sight, one after the other. */
class Verdicts {
  private readonly known = new Map<string, Verdict>();
  private readonly waiting = new Set<Row>();
  private readonly rows = new Map<Element, Row>();
  private readonly seen = new IntersectionObserver((entries) => this.look(entries), { rootMargin: "200px" });
  private busy = false;
  private paused = false;

  constructor(private readonly ask: (id: string) => Promise<Verdict>) {}

  /** A row that is new or has changed. */
  follow(row: Row): void {
    this.rows.set(row.node, row);
    this.seen.unobserve(row.node);
    if (settled(row.run)) this.seen.observe(row.node);
  }

  /** Verdicts can take long to derive: they wait until all runs are read. */
  pause(paused: boolean): void {
    this.paused = paused;
    void this.work();
  }

  close(): void {
    this.seen.disconnect();
    this.waiting.clear();
  }

  private look(entries: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const row = this.rows.get(target);
      if (row === undefined) continue;
      if (isIntersecting) this.waiting.add(row);
      else this.waiting.delete(row);
      row.wait(isIntersecting);
    }
    void this.work();
  }

  private async work(): Promise<void> {
    if (this.busy || this.paused) return;
    this.busy = true;
    for (let row = this.next(); row !== null; row = this.next()) {
      const { run } = row;
      const key = `${run.id} ${run.created} ${JSON.stringify(run.state)}`;
      const found = this.known.get(key) ?? (await this.ask(run.id).catch(() => null));
      this.seen.unobserve(row.node);
      row.wait(false);
      if (found === null) continue;
      this.known.set(key, found);
      row.say(found);
    }
    this.busy = false;
  }

  private next(): Row | null {
    for (const row of this.paused ? [] : this.waiting) {
      this.waiting.delete(row);
      return row;
    }
    return null;
  }
}

/** Every run below the folder that is shown: search, sort, and what changes while one looks. Runs inside a run are folded under it. */
export function runsPage(first: RunIndex, store: Store, verdict: ((id: string) => Promise<Verdict>) | null): Page & { show(index: RunIndex): void } {
  const rows = new Map<string, Row>();
  /** From a part, a run inside another run's folder, to the outermost run around it. */
  const outer = new Map<Row, Row>();
  const verdicts = verdict === null ? null : new Verdicts(verdict);
  const title = el("h1", {});
  const told = el("p", { class: "quiet", role: "status", "data-testid": "found" });
  const body = el("tbody", {});
  let timer = 0;
  let most = FIRST;
  const search = el("input", {
    type: "search",
    placeholder: "Search runs",
    "aria-label": "Search runs by title, folder, state, model or explainer",
    "data-testid": "search",
    oninput: () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => store.set({ find: search.value || null }, "replace"), PAUSE);
    },
  });
  const groups = el(
    "select",
    { "aria-label": "Group the runs", "data-testid": "group", onchange: () => store.set({ group: GROUPS.find((one) => one === groups.value) ?? null }, "replace") },
    el("option", { value: "" }, "No groups"),
    ...GROUPS.map((one) => el("option", { value: one }, `By ${one}`)),
  );
  const titles = new Map<string, HTMLTableRowElement>();
  const titleOf = (name: string, runs: number): HTMLTableRowElement => {
    const made = titles.get(name) ?? el("tr", { class: "group" }, el("th", { scope: "rowgroup", colspan: COLUMNS.length }));
    titles.set(name, made);
    keep(made.firstElementChild as HTMLElement, { textContent: `${name} (${count(runs, "run")})` });
    return made;
  };
  const heads = COLUMNS.map(({ key, title: name, by }) => {
    const sort = (): void => {
      const now = store.state.sort ?? NEWEST;
      store.set({ sort: now === key ? `-${key}` : key }, "replace");
    };
    return el("th", { scope: "col", class: `c-${key}`, "aria-sort": by ? "none" : null }, by ? el("button", { type: "button", onclick: sort }, name) : name);
  });
  const table = el("table", { class: "runs numbers" }, el("thead", {}, el("tr", {}, ...heads)), body);
  const none = el("p", {}, "There is no run in this folder any more. A recipe, an audit or an evaluation makes one, and it appears here.");
  const node = el("main", { class: "wide home", "data-testid": "runs" }, el("div", { class: "titled" }, title, search, groups, told), el("div", { class: "scroll" }, table), none);

  const arrange = (state: State): void => {
    const sort = state.sort ?? NEWEST;
    const key = sort.replace(/^-/, "");
    const by = COLUMNS.find((column) => column.key === key)?.by ?? COLUMNS[COLUMNS.length - 1].by!;
    const words = (state.find ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const searched = words.length > 0;
    const held = new Map<Row, Row[]>();
    for (const [part, row] of outer) held.set(row, [...(held.get(row) ?? []), part]);
    const listed = [...rows.values()].filter((row) => (searched ? words.every((word) => row.text.includes(word)) : !outer.has(row)));
    const { group } = state;
    const inside = (row: Row): string => (group === null ? "" : groupOf(row.run, group));
    const sorted = (some: Row[]): Row[] => some.sort((a, b) => WORDS.compare(inside(a), inside(b)) || order(by(a.run), by(b.run), sort.startsWith("-") ? -1 : 1) || WORDS.compare(a.run.path, b.run.path));
    const unfolded = (row: Row): boolean => !searched && state.parts.includes(row.run.id);
    const shown = sorted(listed);
    const sizes = new Map<string, number>();
    for (const row of shown) sizes.set(inside(row), (sizes.get(inside(row)) ?? 0) + 1);
    const nodes = shown.slice(0, most).flatMap((row, i) => {
      const parts = held.get(row) ?? [];
      row.hold(searched ? 0 : parts.length, unfolded(row), false);
      const below = unfolded(row) ? sorted(parts) : [];
      for (const part of below) part.hold(0, false, true);
      const first = group !== null && (i === 0 || inside(row) !== inside(shown[i - 1]));
      return [...(first ? [titleOf(inside(row), sizes.get(inside(row)) ?? 0)] : []), row.node, ...below.map(({ node }) => node)];
    });
    let place = body.firstElementChild;
    for (const node of nodes) {
      if (node === place) place = place.nextElementSibling;
      else body.insertBefore(node, place);
    }
    while (place !== null) {
      const next: Element | null = place.nextElementSibling;
      place.remove();
      place = next;
    }
    COLUMNS.forEach((column, i) => {
      if (column.by) heads[i].setAttribute("aria-sort", column.key !== key ? "none" : sort.startsWith("-") ? "descending" : "ascending");
    });
    keep(groups, { value: group ?? "" });
    if (search !== document.activeElement) keep(search, { value: state.find ?? "" });
    const unread = [...rows.values()].filter(({ run }) => run.kind === "unread").length;
    const reading = unread > 0 ? `${count(unread, "run")} not read yet` : "";
    keep(told, { textContent: searched ? `${shown.length} of ${count(rows.size, "run")}${outer.size > 0 ? ", with the parts of studies," : ""} shown` : reading });
    keep(title, { textContent: count(rows.size - outer.size, "run") });
    keep(none, { hidden: rows.size > 0 });
    keep(table, { hidden: rows.size === 0 });
  };

  const show = (index: RunIndex): void => {
    const here = new Set(index.runs.map(({ id }) => id));
    for (const id of [...rows.keys()]) if (!here.has(id)) rows.delete(id);
    const known = new Map(index.runs.map((run) => [run.id, run]));
    const root = index.runs.find(({ id }) => id.endsWith("/")) ?? null;
    const inner: [Row, string][] = [];
    outer.clear();
    for (const run of index.runs) {
      const row = rows.get(run.id) ?? new Row(run, store, (one) => verdicts?.follow(one));
      const around = outside(run, known, root);
      const study = around.find((one) => one.kind === "report" && settled(one)) ?? null;
      if (!rows.has(run.id) || !row.shows(run, study)) row.update(run, study);
      rows.set(run.id, row);
      if (around.length > 0) inner.push([row, around[around.length - 1].id]);
    }
    for (const [row, id] of inner) outer.set(row, rows.get(id)!);
    arrange(store.state);
    verdicts?.pause(index.runs.some((run) => run.kind === "unread"));
  };

  show(first);
  const rest = window.setTimeout(() => {
    most = Infinity;
    arrange(store.state);
  }, PAUSE);
  const key = (event: KeyboardEvent): boolean => {
    if (event.key !== "/") return false;
    search.focus();
    return true;
  };
  const destroy = (): void => {
    window.clearTimeout(rest);
    window.clearTimeout(timer);
    verdicts?.close();
  };
  return { node, render: arrange, key, destroy, show };
}

function order(a: string | number | null, b: string | number | null, sign: number): number {
  const missing = Number(a === null || a === "") - Number(b === null || b === "");
  if (missing !== 0) return missing;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * WORDS.compare(String(a ?? ""), String(b ?? ""));
}
