import { SourceError } from "./source";
import type { Packed } from "./types";

/** What was asked for: here, on its way, or refused with a sentence. */
export type Loaded<T> = { state: "ready"; value: T } | { state: "loading" } | { state: "error"; error: SourceError };

const AGAIN = 2000;

const ROOM = 2 ** 28;

/**
 * Remembers answers by key and tells when one arrives; the least used ones go when there are too many, or they are too large together.
 * What was asked for since the last turn always stays: it is being drawn.
 */
export class Cache {
  private readonly held = new Map<string, { found: Loaded<unknown>; size: number; turn: number }>();
  private now = 0;

  constructor(
    private readonly changed: () => void,
    private readonly most = 96,
    private readonly room = ROOM,
  ) {}

  /** A new drawing begins. */
  turn(): void {
    this.now++;
  }

  get<T>(key: string, load: () => Promise<T>): Loaded<T> {
    const one = this.held.get(key) ?? { found: { state: "loading" }, size: 0, turn: this.now };
    const known = this.held.delete(key);
    this.held.set(key, { ...one, turn: this.now });
    if (known) return one.found as Loaded<T>;
    this.clear();
    load().then(
      (value) => this.arrived(key, { state: "ready", value }),
      (error: unknown) => this.failed(key, error),
    );
    return { state: "loading" };
  }

  /** What is here already, without asking. */
  peek<T>(key: string): T | null {
    const found = this.held.get(key)?.found;
    return found?.state === "ready" ? (found.value as T) : null;
  }

  /** Asks again for everything that was refused. */
  retry(): void {
    for (const [key, { found }] of this.held) if (found.state === "error") this.held.delete(key);
    this.changed();
  }

  private arrived(key: string, found: Loaded<unknown>): void {
    const one = this.held.get(key);
    if (one === undefined) return;
    this.held.set(key, { ...one, found, size: found.state === "ready" ? bytesOf(found.value) : 0 });
    this.clear();
    this.changed();
  }

  private clear(): void {
    let size = [...this.held.values()].reduce((sum, one) => sum + one.size, 0);
    for (const [key, one] of this.held) {
      if (this.held.size <= this.most && size <= this.room) return;
      if (one.turn === this.now) continue;
      this.held.delete(key);
      size -= one.size;
    }
  }

  private failed(key: string, thrown: unknown): void {
    const error = thrown instanceof SourceError ? thrown : new SourceError(thrown instanceof Error ? thrown.message : String(thrown), "damaged");
    this.arrived(key, { state: "error", error });
    if (error.kind !== "gone") return;
    window.setTimeout(() => {
      this.held.delete(key);
      this.changed();
    }, AGAIN);
  }
}

/** How many bytes the arrays of an answer hold. */
function bytesOf(value: unknown): number {
  if (ArrayBuffer.isView(value)) return value.byteLength;
  const { arrays } = value as Partial<Packed>;
  return arrays instanceof Map ? [...arrays.values()].reduce((sum, { data }) => sum + data.byteLength, 0) : 0;
}

/** All of several answers: ready when each one is. */
export function all<T>(found: Loaded<T>[]): Loaded<T[]> {
  const failed = found.find((one) => one.state === "error");
  if (failed !== undefined) return failed as { state: "error"; error: SourceError };
  if (found.some((one) => one.state === "loading")) return { state: "loading" };
  return { state: "ready", value: found.map((one) => (one as { value: T }).value) };
}

/** Tells whether what something depends on is other than the last time. */
export function guard(): (...given: unknown[]) => boolean {
  let last: unknown[] | null = null;
  return (...given) => {
    const same = last !== null && given.length === last.length && given.every((one, i) => Object.is(one, last![i]));
    last = given;
    return !same;
  };
}

/** A function that computes anew only when one of its arguments is another one. */
export function memo<A extends unknown[], R>(compute: (...given: A) => R): (...given: A) => R {
  const other = guard();
  let result: R;
  return (...given) => {
    if (other(...given)) result = compute(...given);
    return result;
  };
}
