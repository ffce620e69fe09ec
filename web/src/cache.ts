import { SourceError } from "./source";

/** What was asked for: here, on its way, or refused with a sentence. */
export type Loaded<T> = { state: "ready"; value: T } | { state: "loading" } | { state: "error"; error: SourceError };

const AGAIN = 2000;

/** Remembers answers by key and tells when one arrives; the least used ones go when there are too many. */
export class Cache {
  private readonly held = new Map<string, Loaded<unknown>>();

  constructor(
    private readonly changed: () => void,
    private readonly most = 96,
  ) {}

  get<T>(key: string, load: () => Promise<T>): Loaded<T> {
    const found = this.held.get(key) as Loaded<T> | undefined;
    if (found !== undefined) {
      this.held.delete(key);
      this.held.set(key, found);
      return found;
    }
    this.held.set(key, { state: "loading" });
    for (const oldest of this.held.keys()) {
      if (this.held.size <= this.most) break;
      this.held.delete(oldest);
    }
    load().then(
      (value) => this.arrived(key, { state: "ready", value }),
      (error: unknown) => this.failed(key, error),
    );
    return { state: "loading" };
  }

  /** What is here already, without asking. */
  peek<T>(key: string): T | null {
    const found = this.held.get(key);
    return found?.state === "ready" ? (found.value as T) : null;
  }

  /** Asks again for everything that was refused. */
  retry(): void {
    for (const [key, one] of this.held) if (one.state === "error") this.held.delete(key);
    this.changed();
  }

  private arrived(key: string, found: Loaded<unknown>): void {
    if (!this.held.has(key)) return;
    this.held.set(key, found);
    this.changed();
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
