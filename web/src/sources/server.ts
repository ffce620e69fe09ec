import { unpack } from "../packed";
import { paths, SourceError, type Channel, type DataSource, type Heard } from "../source";
import type { Meta, Packed, RunIndex, RunMeta, RunState } from "../types";
import { socket } from "./socket";

/** Answers of a running `veracity app`, with the token of the page's address. */
export class Server implements DataSource {
  constructor(private readonly token: string) {}

  index = (): Promise<RunIndex> => this.json<RunIndex>(paths.index);
  run = (id: string): Promise<RunMeta> => this.json<RunMeta>(paths.run(id));
  state = (id: string): Promise<RunState | null> => this.json<RunState | null>(paths.state(id));
  values = async (id: string, metric: string, model: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.values(id, metric, model, reference)));
  reduction = async (id: string, method: string, metric: string, reference: string): Promise<Float32Array> =>
    new Float32Array(await this.buffer(paths.reduction(id, method, metric, reference)));
  thumbnails = async (id: string): Promise<Uint8Array> => new Uint8Array(await this.buffer(paths.thumbnails(id)));
  sample = async (id: string, sample: number): Promise<Packed> => unpack(await this.buffer(paths.sample(id, sample)));
  report = (id: string): string => `${paths.report(id)}?${new URLSearchParams({ token: this.token })}`;

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

  private async get(path: string): Promise<Response> {
    let found: Response;
    try {
      found = await fetch(path, { headers: { Authorization: `Bearer ${this.token}` }, cache: "no-store" });
    } catch {
      throw new SourceError("The server does not answer. Trying again…", "gone");
    }
    if (found.ok) return found;
    const said = sentence(await found.text().catch(() => ""));
    if (found.status === 401 || found.status === 403) throw new SourceError(said || "The token was refused.", "token");
    if (found.status === 404) throw new SourceError(said || "The server knows no such answer.", "missing");
    throw new SourceError(said || `The server answered with the error ${found.status}.`, "damaged");
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
