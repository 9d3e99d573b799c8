import { InvalidError } from "../errors.js";

/**
 * A length of time: whole seconds as a number, or a text such as `"90s"`, `"10m"`, `"24h"` or `"7d"`.
 *
 * ```ts
 * await client.enqueue("order.remind", { order: 7 }, { dueAfter: "24h", ttl: "7d" });
 * ```
 */
export type Span = number | `${number}${"s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A hundred years, the longest time that a message may name. */
export const CENTURY = 100 * 365 * 86_400;

/** The span in seconds, checked. */
export function seconds(what: string, span: Span, min: number, max: number): number {
  const value = typeof span === "number" ? span : parsed(span);
  if (!Number.isSafeInteger(value)) {
    throw new InvalidError(`${what} must be whole seconds, or a text like "90s", "10m", "24h" or "7d"`);
  }
  if (value < min || value > max) {
    throw new InvalidError(`${what} is ${value} seconds; allowed are ${min} to ${max}`);
  }
  return value;
}

function parsed(text: unknown): number {
  const match = typeof text === "string" ? /^(\d{1,12})([smhd])$/.exec(text) : null;
  return match ? Number(match[1]) * (UNITS[match[2] ?? ""] ?? NaN) : NaN;
}
