import { bytes, unpack } from "../packed";
import { paths, SourceError, type DataSource } from "../source";
import type { Packed, RunIndex, RunMeta } from "../types";

type Entry = { json: unknown } | { base64: string };

/** Answers that were written into the page itself: {path: {"json": ...} or {"base64": ...}}. */
export class Embedded implements DataSource {
  private readonly entries: Map<string, Entry>;

  constructor(payload: Record<string, Entry>) {
    this.entries = new Map(Object.entries(payload).map(([path, entry]) => [canonical(path), entry]));
  }

  index = async (): Promise<RunIndex> => this.json<RunIndex>(paths.index);
  run = async (id: string): Promise<RunMeta> => this.json<RunMeta>(paths.run(id));
  values = async (id: string, metric: string, model: string, reference: string): Promise<Float32Array> =>
    new Float32Array(this.buffer(paths.values(id, metric, model, reference)));
  reduction = async (id: string, method: string, metric: string, reference: string): Promise<Float32Array> =>
    new Float32Array(this.buffer(paths.reduction(id, method, metric, reference)));
  thumbnails = async (id: string): Promise<Uint8Array> => new Uint8Array(this.buffer(paths.thumbnails(id)));
  sample = async (id: string, sample: number): Promise<Packed> => unpack(this.buffer(paths.sample(id, sample)));
  state = null;
  verdict = null;
  compare = null;
  audit = null;
  report = (): null => null;
  channel = (): null => null;

  private json<T>(path: string): T {
    const entry = this.entry(path);
    if ("json" in entry) return entry.json as T;
    return JSON.parse(new TextDecoder().decode(bytes(entry.base64))) as T;
  }

  private buffer(path: string): ArrayBuffer {
    const entry = this.entry(path);
    if ("base64" in entry) return bytes(entry.base64);
    throw new SourceError("This part of the file is damaged.", "damaged");
  }

  private entry(path: string): Entry {
    const found = this.entries.get(canonical(path));
    if (found === undefined) throw new SourceError("This file does not hold that part of the run.", "missing");
    return found;
  }
}

/** A path with its parameters decoded and in order, so that ways of escaping do not matter. */
function canonical(path: string): string {
  const [name, query = ""] = path.split("?", 2);
  return `${name}?${[...new URLSearchParams(query)].map(([key, value]) => `${key}=${value}`).sort().join("&")}`;
}
