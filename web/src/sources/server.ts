import type { AuditSource } from "../audit/types";
import { unpack } from "../packed";
import { paths, SourceError, type Channel, type DataSource, type Heard } from "../source";
import type { Comparison, Meta, Packed, RunIndex, RunMeta, RunState } from "../types";
import { socket } from "./socket";

/** Seconds that the server may read runs for before it answers which there are: for the first time, and later. */
const FIRST = 0.1;
const LATER = 0.5;

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
  verdict = async (id: string): Promise<string> => (await this.json<{ verdict: string }>(paths.verdict(id))).verdict;
  compare = (id: string, before: string): Promise<Comparison> => this.json<Comparison>(paths.compare(id, before));
  run = (id: string): Promise<RunMeta> => this.json<RunMeta>(paths.run(id));
  state = (id: string): Promise<RunState | null> => this.json<RunState | null>(paths.state(id));
  values = async (id: string, metric: string, model: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.values(id, metric, model, reference)));
  reduction = async (id: string, method: string, metric: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.reduction(id, method, metric, reference)));
  thumbnails = async (id: string): Promise<Uint8Array> => new Uint8Array(await this.buffer(paths.thumbnails(id)));
  sample = async (id: string, sample: number): Promise<Packed> => unpack(await this.buffer(paths.sample(id, sample)));
  report = (id: string): string => `${paths.report(id)}?${new URLSearchParams({ token: this.token })}`;

  audit: AuditSource = {
    whole: (id) => this.json(paths.whole(id)),
    spread: (id, subject) => this.json(paths.spread(id, subject)),
    csv: async (id, subject) => (await this.get(paths.spread(id, subject, ".csv"))).text(),
    cases: (id, subject, order, only, start, around) => this.json(paths.cases(id, subject, { order, only, start: String(start), ...(around === null ? {} : { around: String(around) }) })),
    case: (id, sample, model, score) => this.json(paths.case(id, sample, model, score)),
    explanation: (id, sample, subject) => this.json(paths.explanation(id, sample, subject)),
  };

  channel(meta: Meta, heard: Heard): Channel | null {
    if (!meta.live) return null;
    const address = new URL(paths.live(meta.id), location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("token", this.token);
    return socket(address.href, heard);
  }

  private async json<T>(path: string): Promise<T> {
    return (await this.get(path)).json() as Promise<T>;
  }

  private async buffer(path: string): Promise<ArrayBuffer> {
    return (await this.get(path)).arrayBuffer();
  }

  private async get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    let found: Response;
    try {
      found = await fetch(path, { headers: { Authorization: `Bearer ${this.token}`, ...headers }, cache: "no-store" });
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
