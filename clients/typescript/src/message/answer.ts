import { Terminal } from "../outcome.js";
import { jsonText } from "./payload.js";

/** The longest answer of a handler, in bytes. */
export const ANSWER_MAX = 64 * 1024;

/** The text of a handler's answer; `undefined` for none. An answer that cannot be stored is an error for good. */
export function answerText(answer: unknown): string | undefined {
  if (answer === undefined) return undefined;
  let text: string;
  try {
    text = jsonText("the answer", answer);
  } catch (error) {
    throw new Terminal((error as Error).message);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > ANSWER_MAX) throw new Terminal(`the answer has ${bytes} bytes; at most ${ANSWER_MAX} are allowed`);
  return text;
}
