import { InvalidError } from "../errors.js";

/**
 * A payload as a text that is stored byte for byte. Use it for text that is not JSON, or for JSON that you have as text.
 *
 * ```ts
 * await enqueue(tx, "order.placed", new RawPayload('{"total": 12345678901234567890}'));
 * await enqueue(tx, "label.print", new RawPayload("^XA^FO50"), { headers: { "content-type": "text/plain" } });
 * ```
 */
export class RawPayload {
  readonly #text: string;

  constructor(text: string) {
    if (typeof text !== "string" || !text.isWellFormed() || text.includes("\0")) {
      throw new InvalidError("a raw payload must be a text: valid Unicode without U+0000");
    }
    this.#text = text;
  }

  /** The text. */
  get text(): string {
    return this.#text;
  }
}

/** The text of a payload. The errors of `JSON` may quote values, so they are not passed on. */
export function payloadText(payload: unknown): string {
  return payload instanceof RawPayload ? payload.text : jsonText("the payload", payload);
}

/** A value as JSON. */
export function jsonText(what: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    throw new InvalidError(`${what} cannot be written as JSON; it must have no cycles and no bigint`);
  }
  if (text === undefined) {
    throw new InvalidError(`${what} cannot be written as JSON; null is allowed, undefined and functions are not`);
  }
  return text;
}

/** The value of a JSON text, or `undefined` if it is none. */
export function jsonValue(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
