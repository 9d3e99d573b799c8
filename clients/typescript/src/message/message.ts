import { inspect } from "node:util";

import type { Kind } from "./check.js";

/**
 * What a message is made of.
 *
 * ```ts
 * const message = new Message({ id: "m-1", topic: "order.placed", payload: { order: 7 } }); // for a test of a handler
 * ```
 */
export interface MessageFields<T> {
  id: string;
  topic: string;
  payload: T;
  isJson?: boolean;
  kind?: Kind | null;
  attempt?: number;
  source?: string | null;
  correlationId?: string | null;
  lane?: string | null;
  headers?: Record<string, string>;
  createdAt?: Date | null;
}

/**
 * A message as a handler gets it, fetched or posted. Printing it shows its topic and its id, and never its payload.
 *
 * ```ts
 * worker.handle<Order>("order.placed", async (message) => reserve(message.payload));
 * ```
 */
export class Message<T = unknown> {
  /** Its id: the same on every delivery. Ids are unique for each source. */
  readonly id: string;
  readonly topic: string;
  /** Its payload, parsed: numbers beyond 2^53 lose digits. A payload that is not JSON is a string. */
  readonly payload: T;
  /** Whether the payload is JSON. */
  readonly isJson: boolean;
  /** Its kind; `null` if it was posted, because a node does not say it then. */
  readonly kind: Kind | null;
  /** 1 for the first. */
  readonly attempt: number;
  /** The service that sent it; `null` if it was enqueued here. */
  readonly source: string | null;
  readonly correlationId: string | null;
  readonly lane: string | null;
  /** Its headers; of a posted message only `content-type`, `traceparent` and `tracestate`. */
  readonly headers: Readonly<Record<string, string>>;
  /** When it was enqueued; `null` if it was posted. */
  readonly createdAt: Date | null;

  constructor(fields: MessageFields<T>) {
    this.id = fields.id;
    this.topic = fields.topic;
    this.payload = fields.payload;
    this.isJson = fields.isJson ?? true;
    this.kind = fields.kind ?? null;
    this.attempt = fields.attempt ?? 1;
    this.source = fields.source ?? null;
    this.correlationId = fields.correlationId ?? null;
    this.lane = fields.lane ?? null;
    this.headers = fields.headers ?? {};
    this.createdAt = fields.createdAt ?? null;
  }

  [inspect.custom](): string {
    return `Message(${this.topic} ${this.id}, attempt ${this.attempt})`;
  }
}

/**
 * What a handler gets beside the message.
 *
 * ```ts
 * worker.handle("page.fetch", async (_message, { signal }) => (await fetch("https://example.com", { signal })).status);
 * ```
 */
export interface HandlerContext {
  /**
   * It is aborted when the work is in vain: the lease is lost, the worker stops and its grace is over, or the node that
   * posted the message no longer waits. Pass it on to whatever you wait for.
   */
  signal: AbortSignal;
}

/**
 * Handles the messages of a topic. What it returns is the answer: any JSON of at most 64 KiB, or nothing. It throws a
 * `Retry` or a `Terminal` to say what to do; any other error means a retry.
 *
 * ```ts
 * const reserveOrder: Handler<Order> = async ({ payload }) => ({ shelf: await reserve(payload) });
 * ```
 */
export type Handler<T = unknown> = (message: Message<T>, context: HandlerContext) => unknown;
