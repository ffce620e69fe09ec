import type { AuditSource, Subject } from "./audit/types";
import type { Comparison, Meta, Packed, Reference, RunIndex, RunMeta, RunState } from "./types";

/** Where the pages' data come from: a server, or the payload of a file. */
export interface DataSource {
  /** The runs there are; of many, some may not be read yet. The same object as before where nothing has changed. */
  index(): Promise<RunIndex>;
  run(id: string): Promise<RunMeta>;
  /** How far a run has come by now; null where that does not change, as in a file. */
  state: ((id: string) => Promise<RunState | null>) | null;
  /** What a finished run says, in words; null where nobody can be asked. */
  verdict: ((id: string) => Promise<string>) | null;
  /** What moved from an earlier run to this one; null where nobody can be asked. */
  compare: ((id: string, before: string) => Promise<Comparison>) | null;
  /** Tells whenever the server stops answering, and when it answers again. */
  watch?(changed: (open: boolean) => void): void;
  values(id: string, metric: string, model: string, reference: Reference): Promise<Float32Array>;
  reduction(id: string, method: string, metric: string, reference: Reference): Promise<Float32Array>;
  thumbnails(id: string): Promise<Uint8Array>;
  sample(id: string, sample: number): Promise<Packed>;
  /** Where the run's own report is read, or null where it is not at hand. */
  report(id: string): string | null;
  /** Answers about the samples of audits; null where there are none, as in a file. */
  audit: AuditSource | null;
  /** A channel to the models of a run, or null where there are none. */
  channel(meta: Meta, heard: Heard): Channel | null;
}

/** One question to the models: a sample at a point of its orbit. */
export interface Question {
  sample: number;
  at: number[];
  explainer: string | null;
}

export interface Heard {
  answer(question: Question, answer: Packed): void;
  /** A sentence of why the models could not answer. */
  failed(message: string): void;
  /** Whether the channel stands; `false` while it is being made again. */
  connected(open: boolean): void;
}

/** Asks one question at a time; of those that come meanwhile the newest is kept, so that the last one is always answered. */
export interface Channel {
  ask(question: Question): void;
  close(): void;
}

/** What went wrong, and whether it may go right later. */
export class SourceError extends Error {
  constructor(
    message: string,
    readonly kind: "token" | "gone" | "missing" | "damaged",
  ) {
    super(message);
  }
}

/** The paths of the answers, alike on a server and in a file. */
export const paths = {
  index: "/api/index",
  run: (id: string) => `/api/runs/${encodeURIComponent(id)}`,
  whole: (id: string) => `${paths.run(id)}?whole=true`,
  state: (id: string) => `${paths.run(id)}/state`,
  verdict: (id: string) => `${paths.run(id)}/verdict`,
  compare: (id: string, before: string) => `${paths.run(id)}/compare?${query({ before })}`,
  values: (id: string, metric: string, model: string, reference: string) => `${paths.run(id)}/values?${query({ metric, model, reference })}`,
  reduction: (id: string, method: string, metric: string, reference: string) =>
    `${paths.run(id)}/reduction?${query({ method, metric, reference })}`,
  thumbnails: (id: string) => `${paths.run(id)}/thumbnails`,
  sample: (id: string, sample: number) => `${paths.run(id)}/samples/${sample}`,
  report: (id: string) => `${paths.run(id)}/report`,
  spread: (id: string, { model, explainer, score }: Subject, form = "") => `${paths.run(id)}/spread${form}?${query({ model, explainer, score })}`,
  cases: (id: string, { model, explainer, score }: Subject, more: Record<string, string>) => `${paths.run(id)}/cases?${query({ model, explainer, score, ...more })}`,
  case: (id: string, sample: number, model: string, score: string) => `${paths.run(id)}/cases/${sample}?${query({ model, score })}`,
  explanation: (id: string, sample: number, { model, explainer, score }: Subject) => `${paths.run(id)}/cases/${sample}/explanation?${query({ model, explainer, score })}`,
  live: (id: string) => `${paths.run(id)}/live`,
};

function query(entries: Record<string, string>): string {
  return new URLSearchParams(entries).toString();
}
