import { InvalidError } from "../errors.js";

const NAME_MAX = 255;
const HEADERS_MAX = 64;
const HEADERS_BYTES_MAX = 16 * 1024;

/** The kinds of message. */
export const KINDS = ["Event", "Signal", "Command", "PushCall", "Response"] as const;

/**
 * The kind of a message; see the glossary of Postroom.
 *
 * ```ts
 * await client.enqueue("stock.reserve", { order: 7 }, { destination: "inventory", kind: "Command" });
 * ```
 */
export type Kind = (typeof KINDS)[number];

/** A text of 1 to 255 characters without control characters and without a blank at the end. */
export function name(what: string, text: unknown): string {
  const allowed = `1 to ${NAME_MAX} characters, no control characters, no blank at the end`;
  if (typeof text !== "string") throw new InvalidError(`${what} must be a text: ${allowed}`);
  if (!text.isWellFormed()) throw new InvalidError(`${what} is not valid Unicode; allowed are ${allowed}`);
  const length = text.length <= NAME_MAX ? text.length : [...text].length;
  if (length === 0) throw new InvalidError(`${what} is empty; allowed are ${allowed}`);
  if (length > NAME_MAX) throw new InvalidError(`${what} has ${length} characters; allowed are ${allowed}`);
  if (/\p{Cc}/u.test(text)) throw new InvalidError(`${what} has a control character; allowed are ${allowed}`);
  if (text.endsWith(" ")) throw new InvalidError(`${what} ends with a blank; allowed are ${allowed}`);
  return text;
}

/** The same, and empty means none. */
export function maybeName(what: string, text: unknown): string | null {
  return text === undefined || text === null || text === "" ? null : name(what, text);
}

/** The name of a service. */
export function service(what: string, text: unknown): string {
  if (typeof text !== "string" || !/^[a-z0-9][a-z0-9._-]{0,63}$/.test(text)) {
    throw new InvalidError(`${what} must be 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit`);
  }
  return text;
}

/** A kind, in its exact spelling. */
export function kind(text: unknown): Kind {
  const found = KINDS.find((known) => known === text);
  if (found === undefined) throw new InvalidError(`kind must be one of ${KINDS.join(", ")}`);
  return found;
}

/** An object of strings; `null` if there are none. */
export function headers(given: unknown): Record<string, string> | null {
  if (given === undefined || given === null) return null;
  if (typeof given !== "object" || Array.isArray(given)) {
    throw new InvalidError('headers must be an object of strings, like { language: "en" }');
  }
  const entries = Object.entries(given);
  let bytes = 0;
  for (const [key, value] of entries) {
    name("the name of a header", key);
    if (typeof value !== "string") throw new InvalidError(`the header ${key} must be a string`);
    if (value.includes("\0") || !value.isWellFormed()) {
      throw new InvalidError(`the header ${key} must be valid Unicode without U+0000`);
    }
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (entries.length > HEADERS_MAX) {
    throw new InvalidError(`there are ${entries.length} headers; at most ${HEADERS_MAX} are allowed`);
  }
  if (bytes > HEADERS_BYTES_MAX) {
    throw new InvalidError(`the headers have ${bytes} bytes; at most ${HEADERS_BYTES_MAX} are allowed`);
  }
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

/** A whole number between two others. */
export function whole(what: string, value: unknown, min: number, max: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max) {
    throw new InvalidError(`${what} must be a whole number from ${min} to ${max}`);
  }
  return value;
}

/** Refuses options that nobody knows: most are typing errors. */
export function onlyKnown(what: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    throw new InvalidError(`${what} has no option ${unknown}; the options are ${known.join(", ")}`);
  }
}
