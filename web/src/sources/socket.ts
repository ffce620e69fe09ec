import { unpack } from "../packed";
import type { Channel, Heard } from "../source";
import type { Packed } from "../types";

const SHORTEST = 250;
const LONGEST = 4000;

/**
 * A channel over a WebSocket that is made again whenever it breaks; what was asked and not answered is asked again. A search, which can take
 * long, is given up by the server as soon as it hears of the next one, so the next one is sent at once.
 */
export function socket<Q extends object>(address: string, heard: Heard<Q>): Channel<Q> {
  let link: WebSocket | null = null;
  let flying: (Q & { seq: number }) | null = null;
  /** Whether a part of the answer to the one on its way has come: another question may then replace the rest. */
  let begun = false;
  let waiting: Q | null = null;
  let seq = 0;
  let pause = SHORTEST;
  let timer = 0;
  let closed = false;

  const send = (): void => {
    if (link?.readyState !== WebSocket.OPEN || (flying !== null && !begun) || waiting === null) return;
    flying = { ...waiting, seq: ++seq };
    waiting = null;
    begun = false;
    link.send(JSON.stringify(flying));
  };

  /** An answer that cannot be read, or an error that names no question, is about the one on its way: the next must not wait for it. */
  const receive = (data: ArrayBuffer): void => {
    const found = opened(data);
    const { seq: answered, error } = found.header as { seq?: number | null; error?: string };
    const unnamed = error !== undefined && typeof answered !== "number";
    if (!unnamed && answered !== flying?.seq) return;
    const question = flying;
    if (error !== undefined && answered === null) {
      waiting ??= flying; // refused: the socket closes, and the question is asked again once it is open
      flying = null;
      heard.failed(error, question);
      return;
    }
    if (found.header.last === false) begun = true;
    else flying = null;
    pause = SHORTEST;
    send();
    if (error !== undefined) heard.failed(error, question);
    else if (question !== null) heard.answer(question, found);
  };

  const open = (): void => {
    link = new WebSocket(address);
    link.binaryType = "arraybuffer";
    link.onopen = () => {
      heard.connected(true);
      send();
    };
    link.onmessage = (event: MessageEvent<ArrayBuffer>) => receive(event.data);
    link.onclose = () => {
      waiting ??= flying;
      flying = null;
      begun = false;
      if (closed) return;
      heard.connected(false);
      timer = window.setTimeout(open, pause);
      pause = Math.min(2 * pause, LONGEST);
    };
  };

  open();
  return {
    ask(question) {
      waiting = question;
      if (flying !== null && "worst" in flying) flying = null;
      send();
    },
    close() {
      closed = true;
      window.clearTimeout(timer);
      link?.close();
    },
  };
}

/** A packed answer, or one that says why it cannot be read. */
function opened(data: ArrayBuffer): Packed {
  try {
    return unpack(data);
  } catch {
    return { header: { arrays: [], error: "An answer of the models cannot be read: ask again." }, arrays: new Map() };
  }
}
