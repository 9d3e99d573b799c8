import type { EnqueueOptions } from "../message/options.js";
import type { ConnectOptions } from "./connection.js";

/**
 * Options of a client.
 *
 * ```ts
 * const client = new Client({ url: "https://node.example.com", token: () => readToken(), retryForMs: 5_000 });
 * ```
 */
export interface ClientOptions extends ConnectOptions {
  /**
   * For how long a call is repeated when the node is unavailable or gives no answer, in milliseconds; 30,000 by default.
   * Repeating is safe: each message has an id before the first try.
   */
  retryForMs?: number;
}

/**
 * Options of one call.
 *
 * ```ts
 * await client.status(messageId, { signal: AbortSignal.timeout(1_000) });
 * ```
 */
export interface CallSignal {
  /** Ends the call early. */
  signal?: AbortSignal;
}

/**
 * Options of `enqueue` and `enqueueMany` over HTTP.
 *
 * ```ts
 * await client.enqueue("order.placed", { order: 7 }, { idempotencyKey: "order-7" });
 * ```
 */
export interface RequestOptions extends CallSignal {
  /** A key of 1 to 255 ASCII characters, in place of `messageId`: the same request with the same key stores nothing more. */
  idempotencyKey?: string;
}

/**
 * One message of many.
 *
 * ```ts
 * const messages: NewMessage[] = [{ topic: "order.placed", payload: { order: 7 }, lane: "order-7" }];
 * ```
 */
export interface NewMessage extends EnqueueOptions {
  topic: string;
  payload: unknown;
}

/**
 * Options of `wait`.
 *
 * ```ts
 * await client.wait(messageId, { timeoutMs: 10_000, answer: false });
 * ```
 */
export interface WaitOptions extends CallSignal {
  /** How long to wait, in milliseconds; 60,000 by default. */
  timeoutMs?: number;
  /**
   * Whether to wait for the answer, too, after the message was delivered to another service. The default is yes for a
   * `Command` and a `PushCall`, and no for the rest.
   */
  answer?: boolean;
}

/**
 * What became of a cancellation.
 *
 * ```ts
 * const { cancelled, askedToStop } = await client.cancelLane("order-7");
 * ```
 */
export interface Cancelled {
  /** How many waited, and are dismissed. */
  cancelled: number;
  /** How many are in progress, and were asked to stop. */
  askedToStop: number;
}
