import type { AuditSource, Picks, Subject, Thumbs } from "./audit/types";
import type { Comparison, Meta, Packed, Reference, RunIndex, RunMeta, RunState, Verdict } from "./types";

/** Where the pages' data come from: a server, or the payload of a file. */
export interface DataSource {
  /** The runs there are; of many, some may not be read yet. The same object as before where nothing has changed. */
  index(): Promise<RunIndex>;
  run(id: string): Promise<RunMeta>;
  /** How far a run has come by now; null where that does not change, as in a file. */
  state: ((id: string) => Promise<RunState | null>) | null;
  /** What a finished run says; null where nobody can be asked. */
  verdict: ((id: string) => Promise<Verdict>) | null;
  /** What moved from an earlier run to this one; null where nobody can be asked. */
  compare: ((id: string, before: string) => Promise<Comparison>) | null;
  /** Tells whenever the server stops answering, and when it answers again. */
  watch?(changed: (open: boolean) => void): void;
  values(id: string, metric: string, model: string, reference: Reference): Promise<Float32Array>;
  reduction(id: string, method: string, metric: string, reference: Reference): Promise<Float32Array>;
  thumbnails(id: string): Promise<Uint8Array>;
  /** What is drawn of a sample; `frames` asks for its input at every element too, which comes unasked where there are no models. */
  sample(id: string, sample: number, frames: boolean): Promise<Packed>;
  /** Where the run's own report is read, or null where it is not at hand. */
  report(id: string): string | null;
  /** Answers about the samples of audits; null where there are none, as in a file. */
  audit: AuditSource | null;
  /** A channel to the models of a run, or null where there are none. */
  channel<Q extends object = Question>(meta: Meta, heard: Heard<Q>): Channel<Q> | null;
}

/** One question to the models: where a sample's orbit is worst by a metric. */
export interface WorstQuestion {
  sample: number;
  worst: string;
  reference: string;
}

/** One question to the models: a sample at a point of its orbit. */
export interface Question {
  sample: number;
  at: number[];
  explainer: string | null;
}

export interface Heard<Q = Question> {
  answer(question: Q, answer: Packed): void;
  /** A sentence of why the models could not answer, and which question, if one was on its way. */
  failed(message: string, question: Q | null): void;
  /** Whether the channel stands; `false` while it is being made again. */
  connected(open: boolean): void;
}

/** Asks one question at a time; of those that come meanwhile the newest is kept, so that the last one is always answered. */
export interface Channel<Q = Question> {
  ask(question: Q): void;
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
  sample: (id: string, sample: number, frames = false) => `${paths.run(id)}/samples/${sample}${frames ? "?frames=true" : ""}`,
  report: (id: string) => `${paths.run(id)}/report`,
  spread: (id: string, { model, explainer, score }: Subject, picks: Picks, form = "") => `${paths.run(id)}/spread${form}?${query({ model, explainer, score }, picks)}`,
  cases: (id: string, { model, explainer, score }: Subject, picks: Picks, more: Record<string, string>) => `${paths.run(id)}/cases?${query({ model, explainer, score, ...more }, picks)}`,
  case: (id: string, sample: number, model: string, score: string, picks: Picks) => `${paths.run(id)}/cases/${sample}?${query({ model, score }, picks)}`,
  explanation: (id: string, sample: number, { model, explainer, score }: Subject) => `${paths.run(id)}/cases/${sample}/explanation?${query({ model, explainer, score })}`,
  plane: (id: string, model: string, explainer: string, x: string, y: string, picks: Picks) => `${paths.run(id)}/plane?${query({ model, explainer, x, y }, picks)}`,
  selection: (id: string, picks: Picks) => `${paths.run(id)}/selection?${query({}, picks)}`,
  words: (id: string, score: string) => `${paths.run(id)}/words?${query({ score })}`,
  ranks: (id: string) => `${paths.run(id)}/ranks`,
  selectionValues: (id: string, model: string, score: string, picks: Picks) => `${paths.run(id)}/selection/values?${query({ model, score }, picks)}`,
  selectionCsv: (id: string, model: string, explainer: string, picks: Picks) => `${paths.run(id)}/selection.csv?${query({ model, explainer }, picks)}`,
  thumbnailsOf: (id: string, { model, explainer, kind, samples }: Thumbs) => {
    const of = samples.map((sample) => `&sample=${sample}`).join("");
    return kind === "all" ? `${paths.run(id)}/small/inputs?${query({ model })}${of}` : `${paths.run(id)}/small?${query({ model, explainer, kind })}${of}`;
  },
  inputs: (id: string, how: Record<string, string>) => `${paths.run(id)}/inputs?${query(how)}`,
  live: (id: string) => `${paths.run(id)}/live`,
};

function query(entries: Record<string, string>, picks: Picks = []): string {
  const found = new URLSearchParams(entries);
  for (const text of picks) found.append("pick", text);
  return found.toString();
}
