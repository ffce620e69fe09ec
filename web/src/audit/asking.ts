import type { Loaded } from "../cache";
import { SourceError, type Channel, type Heard } from "../source";
import type { Packed } from "../types";

/** Questions to the models, one on its way at a time; answers are remembered by the question's key. */
export class Asking<Q extends object, A> {
  /** Whether the server answers. */
  open = true;
  private readonly held = new Map<string, Loaded<A>>();
  private channel: Channel<Q> | null = null;
  private wanted: readonly Q[] = [];
  private asked: string | null = null;

  constructor(
    private readonly connect: (heard: Heard<Q>) => Channel<Q> | null,
    private readonly keyOf: (question: Q) => string,
    private readonly changed: () => void,
    private readonly most: number,
  ) {}

  /** The answer to a question, as far as it is here. */
  get(question: Q): Loaded<A> | undefined {
    return this.held.get(this.keyOf(question));
  }

  /** Asks for these, in their order, and for nothing else. */
  want(questions: readonly Q[]): void {
    this.wanted = questions.filter((question) => this.get(question) === undefined);
    this.next();
  }

  /** What was refused may be answered later; all answers are forgotten if the run was made anew. */
  forget(anew = false): void {
    for (const [key, found] of this.held) if (anew || found.state === "error") this.held.delete(key);
  }

  close(): void {
    this.channel?.close();
    this.channel = null;
  }

  private next(): void {
    const question = this.wanted[0];
    if (question === undefined || this.asked === this.keyOf(question)) return;
    this.channel ??= this.connect({
      answer: (answered, { header }: Packed) => this.heard(this.keyOf(answered), { state: "ready", value: header as unknown as A }),
      failed: (message, refused) => {
        const key = refused === null ? this.asked : this.keyOf(refused);
        if (key !== null) this.heard(key, { state: "error", error: new SourceError(message, "missing") });
      },
      connected: (open) => {
        const other = open !== this.open;
        this.open = open;
        if (other) this.changed();
      },
    });
    this.asked = this.keyOf(question);
    this.channel?.ask(question);
  }

  private heard(key: string, found: Loaded<A>): void {
    this.held.set(key, found);
    if (this.held.size > this.most) this.held.delete(this.held.keys().next().value!);
    if (this.asked === key) this.asked = null;
    this.changed();
  }
}
