import type { Kind } from "./check.js";
import type { Span } from "./span.js";

/**
 * A key that at most one message of an outbox has at a time.
 *
 * ```ts
 * await client.enqueue("page.index", { page: 7 }, { unique: { key: "page-7", ifTaken: "replace" }, dueAfter: "10s" });
 * ```
 */
export interface Unique {
  /** 1 to 255 characters. */
  key: string;
  /** How long the message has the key: until somebody begins to handle it (the default), or until it has ended. */
  until?: "started" | "done";
  /** In place of `until`: the message has the key for this long, whatever becomes of it. */
  for?: Span;
  /**
   * What happens if another message has the key: the new one is not stored (`"keep"`, the default), one that waits is
   * dismissed and the new one is stored (`"replace"`), or the call throws a `KeyTakenError` (`"refuse"`).
   */
  ifTaken?: "keep" | "replace" | "refuse";
}

/**
 * Everything that can be said of a message beside its topic and its payload.
 *
 * ```ts
 * const options: EnqueueOptions = { destination: "billing", lane: "order-7", ttl: "7d", maxAttempts: 3 };
 * ```
 */
export interface EnqueueOptions {
  /** The service that the message goes to. Without it, a handler here gets the message. */
  destination?: string;
  /** A name that the message shares with others, such as the id of an order. */
  correlationId?: string;
  /** Messages of one lane are handled in order, one after the other. */
  lane?: string;
  /** At most 64 strings, and 16 KiB in all. */
  headers?: Record<string, string>;
  /** When the message is due: a `Date`, or a text like `2026-11-15T12:00:00Z`. */
  dueAt?: Date | string;
  /** In place of `dueAt`: the time from now. */
  dueAfter?: Span;
  /** The message goes ahead of others, as if it had been due this long ago; at most 24 hours. */
  headStart?: Span;
  /** The time to live. The default is 24 hours with a destination, and no limit without one. */
  ttl?: Span;
  /** How often a failed message is tried in all. */
  maxAttempts?: number;
  /** The default is `"Event"`. */
  kind?: Kind;
  /** A UUID. A message is stored once under its id, so a call with your own id can be repeated. */
  messageId?: string;
  /** At most one message of an outbox has this key at a time. */
  unique?: Unique;
}

/**
 * What became of a message that was enqueued.
 *
 * ```ts
 * const { messageId, duplicate, keptOutBy } = await client.enqueue("page.index", 7, { unique: { key: "page-7" } });
 * ```
 */
export interface Enqueued {
  /** The id of the message. */
  messageId: string;
  /** Whether nothing was stored: the message was there already, or another one has its unique key. */
  duplicate: boolean;
  /** The message that waited under the same unique key, and was dismissed for this one. */
  replaced?: string;
  /** The message that has the unique key. The new one was not stored. */
  keptOutBy?: string;
}

/** The names of the options, to find typing errors. */
export const OPTIONS = [
  "destination",
  "correlationId",
  "lane",
  "headers",
  "dueAt",
  "dueAfter",
  "headStart",
  "ttl",
  "maxAttempts",
  "kind",
  "messageId",
  "unique",
] as const satisfies readonly (keyof EnqueueOptions)[];
