import { Banner } from "./banner";
import { el, keep } from "./dom";
import { Header } from "./header";
import { levelOf } from "./orbit/chosen";
import { OrbitPage } from "./orbit/page";
import { sentencePage, type Page } from "./page";
import { AuditPage } from "./pages/audit";
import { ComparePage } from "./pages/compare";
import { reportPage } from "./pages/report";
import { runsPage } from "./pages/runs";
import { waitingPage } from "./pages/waiting";
import { SourceError, type DataSource } from "./source";
import { START, type State } from "./state";
import { Store } from "./store";
import { apply, onPaper, onSystemTheme } from "./theme";
import type { RunEntry, RunIndex, RunMeta } from "./types";

const AGAIN = 1000;
/** Milliseconds between two looks at a run that is running, and at any other. */
const LOOK = 1000;
const SELDOM = 5000;
/** Milliseconds between two looks at the list: while runs are not read yet, while one is running, and else. */
const READING = 50;
const LISTED = 2000;
/** Looking again waits so many times as long as the last answer took. */
const PATIENCE = 5;
/** The kinds of runs that are compared with each other. */
const COMPARED = ["an audit", "a card"];
const TYPING = "select, dialog, textarea, input:not([type=range], [type=checkbox], [type=radio], [type=file])";
const SLIDING = "input[type=range]";

/** The header and one page below it, chosen by the state. */
export class App {
  private readonly store = new Store();
  private readonly header = new Header(this.store);
  private index: RunIndex | null = null;
  private page: Page | null = null;
  private readonly banner = new Banner();
  private readonly lost = el("p", { class: "banner lost", "data-testid": "lost", role: "status", hidden: true }, LOST);
  private shown = "";
  private timer = 0;
  /** What waits for its pause to end. */
  private next: (() => void) | null = null;

  constructor(
    private readonly host: HTMLElement,
    private readonly source: DataSource,
  ) {}

  start(): void {
    this.host.append(this.header.node, this.lost, this.banner.node);
    this.source.watch?.((open) => keep(this.lost, { hidden: open }));
    this.put(sentencePage("loading", "Loading…"));
    this.store.listen((state) => this.render(state));
    for (const changes of [onSystemTheme, onPaper]) changes(() => apply(this.store.state.theme));
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("focus", () => this.hurry());
    document.addEventListener("visibilitychange", () => this.hurry());
    apply(this.store.state.theme);
    void this.load(async () => {
      this.index = await this.source.index();
      this.render(this.store.state);
    });
  }

  private render(state: State): void {
    apply(state.theme);
    const run = this.chosenRun(state);
    this.header.render(state, this.index, run);
    if (this.index === null) return;
    const wanted = run === null ? "runs" : `${run} ${state.page ?? ""}`;
    if (wanted === this.shown) return this.page?.render(state);
    this.shown = wanted;
    window.clearTimeout(this.timer);
    this.next = null;
    this.banner.hide();
    this.header.status("none", "");
    document.title = "veracity";
    if (run === null) return this.list(this.index);
    this.put(sentencePage("loading", "Loading…"));
    void this.load(async () => {
      const meta = await this.source.run(run);
      if (this.shown !== wanted) return;
      this.put(this.pageOf(run, meta));
      this.watch(run, meta, LOOK);
      if (this.store.state.page === "compare" || (meta.kind === "orbits" && this.index?.runs.some(({ kind }) => kind === "unread"))) this.readList();
    });
  }

  /** Asks which runs there are until all of them are read, so that the page can offer those of its kind. */
  private readList(): void {
    const wanted = this.shown;
    void this.load(async () => {
      const newer = await this.source.index();
      if (this.shown !== wanted) return;
      this.index = newer;
      this.page?.render(this.store.state);
      if (newer.runs.some(({ kind }) => kind === "unread")) window.setTimeout(() => this.shown === wanted && this.readList(), READING);
    });
  }

  /** The runs there are; new ones appear, and states change, by themselves. */
  private list(first: RunIndex): void {
    const page = runsPage(first, this.store, this.source.verdict);
    this.put(page);
    const follow = (index: RunIndex): void => {
      if (this.source.state === null) return;
      const unread = index.runs.some(({ kind }) => kind === "unread");
      const running = index.runs.some(({ state }) => state?.stage === "running");
      this.later(unread ? READING : running ? LISTED : SELDOM, async () => {
        const newer = await this.source.index();
        if (this.shown !== "runs") return;
        if (newer !== index) page.show(newer);
        this.index = newer;
        follow(newer);
      });
    };
    follow(first);
  }

  /** Says how far the shown run is, and looks again as long as it can change. */
  private watch(run: string, meta: RunMeta, pause: number): void {
    const state = meta.state ?? null;
    const look = this.source.state;
    this.banner.show(state, look !== null, meta.kind !== "audit");
    if (look === null) return;
    const wanted = this.shown;
    this.later(state?.stage === "running" ? pause : Math.max(pause, SELDOM), async () => {
      const now = await look(run);
      if (this.shown !== wanted) return;
      if (JSON.stringify(now) === JSON.stringify(state)) return this.watch(run, meta, LOOK);
      const started = performance.now();
      const newer = await this.source.run(run);
      if (this.shown !== wanted) return;
      if (newer.kind !== meta.kind || !this.page?.refresh?.(newer)) this.put(this.pageOf(run, newer));
      this.watch(run, newer, Math.max(LOOK, PATIENCE * (performance.now() - started)));
    });
  }

  /** Does something after a pause; where the server does not answer meanwhile, again and again. A page that nobody sees waits. */
  private later(pause: number, step: () => Promise<void>): void {
    const wanted = this.shown;
    const again = async (): Promise<void> => {
      this.next = null;
      try {
        if (document.hidden) throw new SourceError("", "gone");
        await step();
      } catch (thrown) {
        if (this.shown !== wanted) return;
        if (thrown instanceof SourceError && thrown.kind !== "gone" && thrown.kind !== "damaged") this.say(thrown);
        else wait(AGAIN);
      }
    };
    const wait = (time: number): void => {
      this.next = () => void again();
      this.timer = window.setTimeout(this.next, time);
    };
    wait(pause);
  }

  /** Somebody comes back to the page: what waits is done at once. */
  private hurry(): void {
    if (document.hidden || this.next === null) return;
    window.clearTimeout(this.timer);
    this.next();
  }

  private pageOf(run: string, meta: RunMeta): Page {
    document.title = `${meta.title || "run"} · veracity`;
    if (meta.kind === "orbits") this.header.level = levelOf(meta);
    if (meta.kind === "orbits") return new OrbitPage(meta, this.source, this.store, this.header, () => this.turned(run));
    const back = (): void => this.store.set({ page: null });
    if (meta.kind === "waiting") return waitingPage(meta, this.store);
    const words = meta.kind === "audit" ? "an audit" : meta.words;
    const compare = this.source.compare !== null && COMPARED.includes(words ?? "") ? (): void => this.store.set({ page: "compare" }) : null;
    if (this.store.state.page === "compare" && compare !== null) return new ComparePage(meta.title, run, this.source.compare, () => this.alike(run, words), this.store);
    if (meta.kind === "audit" && this.store.state.page !== "report") return new AuditPage(meta, run, this.source.audit, this.store, compare);
    const parts = meta.kind === "report" ? (meta.parts ?? []) : [];
    return reportPage(meta.title, this.source.report(run), meta.kind === "audit" ? back : null, parts, this.store, compare);
  }

  /** The other runs of a kind. */
  private alike(run: string, words: string | undefined): RunEntry[] {
    return (this.index?.runs ?? []).filter((one) => one.id !== run && one.words === words);
  }

  /** The run and those of the same inputs and models along rotations about axes in other planes, by plane. */
  private turned(run: string): RunEntry[] {
    const runs = this.index?.runs ?? [];
    const own = runs.find((one) => one.id === run);
    if (!own?.plane) return [];
    const same = (one: RunEntry): boolean => one.data === own.data && one.models?.join("\n") === own.models?.join("\n");
    const planes = new Map([...runs.filter((one) => one.plane && same(one)), own].map((one) => [one.plane!, one]));
    return [...planes.values()].sort((a, b) => a.plane!.localeCompare(b.plane!));
  }

  private chosenRun(state: State): string | null {
    const runs = this.index?.runs ?? [];
    return state.run ?? (runs.length === 1 ? runs[0].id : null);
  }

  private put(page: Page): void {
    this.page?.destroy();
    this.page?.node.remove();
    this.page = page;
    this.host.append(page.node);
    page.render(this.store.state);
  }

  /** Does something with the source; where the server is gone, again and again. */
  private async load(step: () => Promise<void>): Promise<void> {
    const wanted = this.shown;
    try {
      await step();
    } catch (thrown) {
      if (this.shown !== wanted) return;
      const error = thrown instanceof SourceError ? thrown : new SourceError(String(thrown), "damaged");
      this.say(error);
      if (error.kind === "gone") window.setTimeout(() => void this.load(step), AGAIN);
    }
  }

  /** A page of what went wrong. */
  private say(error: SourceError): void {
    this.banner.hide();
    const page = sentencePage("error", TITLES[error.kind], error.message, error.kind === "missing" ? this.away() : HINTS[error.kind]);
    if (page.node.textContent !== this.page?.node.textContent) this.put(page);
  }

  /** A link that leaves what the address names for what is there. */
  private away(): HTMLElement {
    const leave = (event: Event): void => {
      event.preventDefault();
      this.store.set({ ...START, theme: this.store.state.theme });
    };
    return el("a", { href: "#", "data-testid": "away", onclick: leave }, "Show the runs that are here.");
  }

  private key(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const within = (kind: string): boolean => event.target instanceof Element && event.target.closest(kind) !== null;
    if (within(TYPING) || (within(SLIDING) && event.key.length > 1)) return;
    if (event.key === "?") this.header.help();
    else if (event.key === "t") this.header.turn();
    else if (!this.page?.key(event)) return;
    event.preventDefault();
  }
}

const LOST = "The server does not answer. This page goes on by itself once `veracity app` runs again.";

const TITLES: Record<SourceError["kind"], string> = {
  token: "The token was refused",
  gone: "The server does not answer",
  missing: "There is no such run",
  damaged: "This run cannot be read",
};

const HINTS: Record<Exclude<SourceError["kind"], "missing">, string> = {
  token: "Open the whole address that `veracity app` printed last.",
  gone: "This page goes on by itself once `veracity app` runs again.",
  damaged: "Run the same command again: what is whole is kept, the rest is measured anew.",
};
