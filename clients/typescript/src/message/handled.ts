import { InvalidError } from "../errors.js";
import { jsonText } from "./payload.js";
import type { Message } from "./message.js";

/** The table that `once` writes to, unless you name another. */
export const HANDLED = "postroom_handled";

/** What `once` knows a message by: ids are unique for each source. */
export function keyOf(message: Pick<Message, "id" | "source">): [source: string, id: string] {
  if (typeof message?.id !== "string" || message.id === "") throw new InvalidError("once needs a message with an id");
  return [message.source ?? "", message.id];
}

/** The text to store for an answer; `null` for none. */
export function storedAnswer(answer: unknown): string | null {
  return answer === undefined ? null : jsonText("the answer", answer);
}

/** The answer from its stored text. */
export function answerOf(text: unknown): unknown {
  return typeof text === "string" ? (JSON.parse(text) as unknown) : undefined;
}

/**
 * Options of `once`.
 *
 * ```ts
 * await once(tx, message, work, { table: "shop.handled" });
 * ```
 */
export interface OnceOptions {
  /** The table; `postroom_handled` by default. */
  table?: string;
}
