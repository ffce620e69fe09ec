import { SourceError, type Channel, type DataSource, type Question } from "../source";
import type { Meta } from "../types";
import { answered, type Moved } from "./moved";

const PATIENCE = 700;

/** Keeps the models asked about what is chosen, and the newest answer. */
export class Asking {
  private readonly channel: Channel | null;
  private latest: Moved | null = null;
  private asked = "";
  /** The question of which some models have answered, and others not yet. */
  private begun = "";
  private open = false;
  private slow = false;
  private timer = 0;
  /** A sentence of the models where they failed. */
  problem: string | null = null;

  constructor(
    meta: Meta,
    source: DataSource,
    private readonly changed: () => void,
  ) {
    this.channel = source.channel(meta, {
      answer: (question, answer) => {
        const key = JSON.stringify({ ...question, seq: 0 });
        const before = key === this.begun ? this.latest : null;
        this.heard(answered(question, answer, before), null);
        this.begun = answer.header.last === false ? key : "";
      },
      failed: (message) => this.heard(null, message),
      connected: (open) => {
        this.open = open;
        if (!open) source.index().catch((error: unknown) => this.refused(error));
        changed();
      },
    });
  }

  /** How the models are doing: none at hand, answering, slow to answer, or out of reach. */
  get state(): "none" | "live" | "slow" | "lost" {
    if (this.channel === null) return "none";
    if (!this.open) return "lost";
    return this.slow ? "slow" : "live";
  }

  /** Asks, unless it was asked last. */
  want(question: Question): void {
    const key = JSON.stringify(question);
    if (this.channel === null || key === this.asked) return;
    this.asked = key;
    this.channel.ask(question);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.wait(), PATIENCE);
  }

  /** The newest answer, as long as it is about this sample; null while the models are out of reach and the place has moved on. */
  answer(sample: number, at: readonly number[]): Moved | null {
    const { latest } = this;
    if (latest === null || latest.sample !== sample) return null;
    return this.open || latest.at.every((x, a) => x === at[a]) ? latest : null;
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.channel?.close();
  }

  private heard(latest: Moved | null, problem: string | null): void {
    window.clearTimeout(this.timer);
    this.slow = false;
    this.latest = latest;
    this.problem = problem;
    this.changed();
  }

  private wait(): void {
    this.slow = true;
    this.changed();
  }

  /** A socket does not say why it was refused; an ordinary question does. */
  private refused(error: unknown): void {
    if (!(error instanceof SourceError) || error.kind !== "token") return;
    this.problem = error.message;
    this.changed();
  }
}
