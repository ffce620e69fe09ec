import type { AuditSource } from "../audit/types";
import { unpack } from "../packed";
import { paths, SourceError, type Channel, type DataSource, type Heard } from "../source";
import type { Comparison, Meta, Packed, RunIndex, RunMeta, RunState, Verdict } from "../types";
import { socket } from "./socket";

/** Seconds that the server may read runs for before it answers which there are: for the first time, and later. */
const FIRST = 0.1;
const LATER = 0.5;
/** What this page calls itself, so that the server can let pages take turns. */
const CLIENT = Math.random().toString(36).slice(2);

/** Answers of a running `veracity app`, with the token of the page's address. */
export class Server implements DataSource {
  private runs: { tag: string; index: RunIndex } | null = null;
  private open = true;
  private told: (open: boolean) => void = () => undefined;

  constructor(private readonly token: string) {}

  watch = (changed: (open: boolean) => void): void => {
    this.told = changed;
  };
  index = async (): Promise<RunIndex> => {
    const found = await this.get(`${paths.index}?within=${this.runs === null ? FIRST : LATER}`, this.runs === null ? {} : { "If-None-Match": this.runs.tag });
    if (found.status === 304 && this.runs !== null) return this.runs.index;
    this.runs = { tag: found.headers.get("ETag") ?? "", index: (await found.json()) as RunIndex };
    return this.runs.index;
  };
  verdict = (id: string): Promise<Verdict> => this.json<Verdict>(paths.verdict(id));
  compare = (id: string, before: string): Promise<Comparison> => this.json<Comparison>(paths.compare(id, before));
  run = (id: string): Promise<RunMeta> => this.json<RunMeta>(paths.run(id));
  state = (id: string): Promise<RunState | null> => this.json<RunState | null>(paths.state(id));
  values = async (id: string, metric: string, model: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.values(id, metric, model, reference)));
  reduction = async (id: string, method: string, metric: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.reduction(id, method, metric, reference)));
  thumbnails = async (id: string): Promise<Uint8Array> => new Uint8Array(await this.buffer(paths.thumbnails(id)));
  sample = async (id: string, sample: number, frames: boolean): Promise<Packed> => unpack(await this.buffer(paths.sample(id, sample, frames)));
  report = (id: string): string => `${paths.report(id)}?${new URLSearchParams({ token: this.token })}`;

  audit: AuditSource = {
    whole: (id) => this.json(paths.whole(id)),
    spread: (id, subject, picks) => this.json(paths.spread(id, subject, picks)),
    csv: async (id, subject, picks) => (await this.get(paths.spread(id, subject, picks, ".csv"))).text(),
    cases: (id, subject, picks, { order, by, only, start, around }) =>
      this.json(paths.cases(id, subject, picks, { order, by, only, start: String(start), ...(around === null ? {} : { around: String(around) }) })),
    case: (id, sample, model, score, picks) => this.json(paths.case(id, sample, model, score, picks)),
    plane: (id, model, explainer, x, y, picks) => this.json(paths.plane(id, model, explainer, x, y, picks)),
    selection: (id, picks) => this.json(paths.selection(id, picks)),
    words: (id, score) => this.json(paths.words(id, score)),
    ranks: (id) => this.json(paths.ranks(id)),
    selectionValues: (id, model, score, picks) => this.json(paths.selectionValues(id, model, score, picks)),
    selectionCsv: async (id, model, explainer, picks) => (await this.get(paths.selectionCsv(id, model, explainer, picks))).text(),
    thumbnails: (id, asked) => this.json(paths.thumbnailsOf(id, asked)),
    explanation: (id, sample, subject) => this.json(paths.explanation(id, sample, subject)),
    channel: (id, heard) => this.socket(id, heard),
    give: async (id, data, how) => ((await (await this.get(paths.inputs(id, how), {}, { method: "POST", body: data })).json()) as { input: string }).input,
  };

  channel<Q extends object>(meta: Meta, heard: Heard<Q>): Channel<Q> | null {
    return meta.live ? this.socket(meta.id, heard) : null;
  }

  private socket<Q extends object>(id: string, heard: Heard<Q>): Channel<Q> {
    const address = new URL(paths.live(id), location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("token", this.token);
    address.searchParams.set("client", CLIENT);
    return socket(address.href, heard);
  }

  private async json<T>(path: string): Promise<T> {
    return (await this.get(path)).json() as Promise<T>;
  }

  private async buffer(path: string): Promise<ArrayBuffer> {
    return (await this.get(path)).arrayBuffer();
  }

  private async get(path: string, headers: Record<string, string> = {}, more: RequestInit = {}): Promise<Response> {
    let found: Response;
    try {
      found = await fetch(path, { headers: { Authorization: `Bearer ${this.token}`, "X-Client": CLIENT, ...headers }, cache: "no-store", ...more });
    } catch {
      this.tell(false);
      throw new SourceError("The server does not answer. Trying again…", "gone");
    }
    this.tell(true);
    if (found.ok || found.status === 304) return found;
    const said = sentence(await found.text().catch(() => ""));
    if (found.status === 401 || found.status === 403) throw new SourceError(said || "The token was refused.", "token");
    if (found.status === 404) throw new SourceError(said || "The server knows no such answer.", "missing");
    throw new SourceError(said || `The server answered with the error ${found.status}.`, "damaged");
  }

  private tell(open: boolean): void {
    if (open === this.open) return;
    this.open = open;
    this.told(open);
  }
}

/** The sentence of an error's answer: JSON with `detail` or `error`, or plain text. */
function sentence(text: string): string {
  try {
    const found = JSON.parse(text) as { detail?: unknown; error?: unknown };
    return String(found.detail ?? found.error ?? "");
  } catch {
    return text.startsWith("<") ? "" : text.slice(0, 400);
  }
}
