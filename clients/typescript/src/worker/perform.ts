import { answerText } from "../message/answer.js";
import type { Handler, Message } from "../message/message.js";
import { reason, Retry, Terminal } from "../outcome.js";

/** How a message is settled. */
export type Verdict =
  | { verb: "ack"; answer: string | undefined }
  | { verb: "abandon"; error: string; delaySeconds: number | undefined }
  | { verb: "fail"; error: string };

/** The most of an error's words that a node keeps. */
const REASON_MAX = 4000;

/** Runs a handler, and says what to do with the message. `failed` hears of an error. */
export async function perform(
  handler: Handler,
  message: Message,
  signal: AbortSignal,
  failed: (error: unknown) => void,
): Promise<Verdict> {
  try {
    return { verb: "ack", answer: answerText(await handler(message, { signal })) };
  } catch (error) {
    failed(error);
    return verdictOn(error);
  }
}

/** What an error means for the message. */
export function verdictOn(thrown: unknown): Verdict {
  const error = reason(thrown).slice(0, REASON_MAX).toWellFormed();
  if (thrown instanceof Terminal) return { verb: "fail", error };
  return { verb: "abandon", error, delaySeconds: thrown instanceof Retry ? thrown.afterSeconds : undefined };
}
