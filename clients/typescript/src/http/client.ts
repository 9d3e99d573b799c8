import { inspect } from "node:util";

import { InvalidError, PostroomError, TimeoutError, UnavailableError } from "../errors.js";
import { name, onlyKnown, whole } from "../message/check.js";
import { messageId } from "../message/id.js";
import type { Enqueued, EnqueueOptions } from "../message/options.js";
import { prepare, type Prepared } from "../message/prepared.js";
import type { PostroomClient } from "./api.js";
import { Backoff, pause } from "./backoff.js";
import { Connection, CONNECT_OPTIONS, type Answer } from "./connection.js";
import type { CallSignal, Cancelled, ClientOptions, NewMessage, RequestOptions, WaitOptions } from "./options.js";
import { refusal } from "./refusal.js";
import { enqueueError, enqueuedOf, requestText } from "./request.js";
import { awaitsAnswer, hasEnded, resultOf, type MessageStatus, type Result } from "./status.js";

const BATCH_MAX = 1000;
const WAIT_SECONDS_MAX = 30;

/**
 * A client of a node's HTTP API. The token needs `enqueue`; to see answers also `payload`, and to cancel `operate`.
 *
 * If your service can write to the node's database, enqueue in your own transaction instead (`postroom/pg`,
 * `postroom/sqlite`, `postroom/mysql`): only then your data and the message are stored together.
 *
 * ```ts
 * const client = new Client({ url: "http://127.0.0.1:7411", token: process.env.POSTROOM_TOKEN! });
 * const { messageId } = await client.enqueue("order.placed", { order: 7 });
 * const { state, answer } = await client.wait<{ reserved: boolean }>(messageId);
 * ```
 */
export class Client implements PostroomClient {
  readonly #connection: Connection;
  readonly #retryForMs: number;

  constructor(options: ClientOptions) {
    onlyKnown("Client", options, [...CONNECT_OPTIONS, "retryForMs"]);
    this.#connection = new Connection(options);
    this.#retryForMs = options.retryForMs ?? 30_000;
  }

  /**
   * Enqueues a message. When it returns, the message is durable.
   *
   * ```ts
   * await client.enqueue("invoice.due", { order: 7 }, { destination: "billing", lane: "order-7", dueAfter: "24h" });
   * ```
   */
  async enqueue(topic: string, payload: unknown, options: EnqueueOptions & RequestOptions = {}): Promise<Enqueued> {
    const message = prepare(topic, payload, options, ["signal", "idempotencyKey"]);
    const isKeyed = withKey(options, [message]);
    const body = requestText(message, !isKeyed);
    const { answer, tries } = await this.#repeat(this.#post("/v1/messages", body, options), options);
    if (answer.status >= 300) throw enqueueError(answer, [message]);
    return ours(enqueuedOf(answer.body), tries, message);
  }

  /**
   * Enqueues 1 to 1000 messages in one transaction: all of them or none. The results have the same order.
   *
   * ```ts
   * await client.enqueueMany(orders.map((order) => ({ topic: "order.placed", payload: order })));
   * ```
   */
  async enqueueMany(messages: readonly NewMessage[], options: RequestOptions = {}): Promise<Enqueued[]> {
    onlyKnown("enqueueMany", options, ["signal", "idempotencyKey"]);
    whole("the number of messages", messages.length, 1, BATCH_MAX);
    const prepared = messages.map((one, place) => {
      const { topic, payload, ...rest } = one;
      try {
        return prepare(topic, payload, rest);
      } catch (error) {
        throw error instanceof InvalidError ? new InvalidError(`messages[${place}]: ${error.message}`) : error;
      }
    });
    const isKeyed = withKey(options, prepared);
    const body = `{"messages":[${prepared.map((message) => requestText(message, !isKeyed)).join(",")}]}`;
    const { answer, tries } = await this.#repeat(this.#post("/v1/messages/batch", body, options), options);
    if (answer.status >= 300) throw enqueueError(answer, prepared);
    const results = (answer.body as { messages?: unknown[] }).messages ?? [];
    return results.map((one, place) => ours(enqueuedOf(one), tries, prepared[place]));
  }

  /** The status of a message, once for each of its destinations. */
  async status(id: string, options: CallSignal = {}): Promise<MessageStatus[]> {
    const { answer } = await this.#repeat(
      (signal) => this.#connection.call("GET", `/v1/messages/${messageId(id)}`, { signal }),
      options,
    );
    return statusOf(answer);
  }

  /**
   * Waits until a message is done, dead, expired or dismissed, and returns its state and its answer. If that takes too
   * long, it throws a `TimeoutError`; you can wait again.
   *
   * ```ts
   * const result = await client.wait<{ shelf: string }>(messageId, { timeoutMs: 10_000 });
   * if (result.state === "done") console.log(result.answer?.shelf);
   * else console.log(result.state, result.lastError);
   * ```
   */
  async wait<Answer = unknown>(id: string, options: WaitOptions = {}): Promise<Result<Answer>> {
    onlyKnown("wait", options, ["timeoutMs", "signal", "answer"]);
    const checked = messageId(id);
    const { timeoutMs = 60_000, signal } = options;
    const until = performance.now() + timeoutMs;
    const backoff = new Backoff(100, 1_000);
    for (;;) {
      const left = Math.max(0, until - performance.now());
      const wait = Math.min(WAIT_SECONDS_MAX, Math.ceil(left / 1000));
      const asked = performance.now();
      let messages: MessageStatus[] | undefined;
      try {
        const path = `/v1/messages/${checked}?wait=${wait}`;
        messages = statusOf(await this.#connection.call("GET", path, { signal, waitMs: wait * 1000 }));
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw error;
      }
      if (messages?.every((message) => hasEnded(message) && !awaitsAnswer(message, options.answer))) {
        return resultOf<Answer>(messages);
      }
      if (performance.now() >= until) {
        throw new TimeoutError(`message ${checked} has not ended after ${timeoutMs} ms`, {
          advice: "wait again, or look at status()",
        });
      }
      // A node that waited needs no pause.
      const hasWaited = messages !== undefined && performance.now() - asked >= 900;
      if (hasWaited) backoff.reset();
      else await pause(Math.min(backoff.next(), Math.max(1, until - performance.now())), signal);
    }
  }

  /**
   * Cancels a message that waits, or asks one in progress to stop. The token needs `operate`. If it is too late, this
   * throws a `ConflictError`.
   */
  async cancel(id: string, options: CallSignal = {}): Promise<Cancelled> {
    return this.#cancel(`/_rf/outbox/${messageId(id)}/cancel`, undefined, options.signal);
  }

  /** Cancels every message of a lane in the outbox. */
  async cancelLane(lane: string, options: CallSignal = {}): Promise<Cancelled> {
    return this.#cancel("/_rf/outbox/cancel", { lane: name("lane", lane) }, options.signal);
  }

  /** Cancels the message that has this unique key. */
  async cancelKey(key: string, options: CallSignal = {}): Promise<Cancelled> {
    return this.#cancel("/_rf/outbox/cancel", { uniqueKey: name("key", key) }, options.signal);
  }

  async #cancel(path: string, body: object | undefined, signal: AbortSignal | undefined): Promise<Cancelled> {
    const answer = await this.#connection.call("POST", path, { ...(body && { body: JSON.stringify(body) }), signal });
    if (answer.status >= 300) throw refusal(answer.status, answer.body);
    const { cancelled, askedToStop } = answer.body as Cancelled;
    return { cancelled, askedToStop };
  }

  #post(
    path: string,
    body: string,
    { idempotencyKey: key }: RequestOptions,
  ): (signal?: AbortSignal) => Promise<Answer> {
    const headers = key === undefined ? {} : { "idempotency-key": key };
    return (signal) => this.#connection.call("POST", path, { body, headers, signal });
  }

  /** Repeats a request until there is an answer that a repetition would not change. */
  async #repeat(
    call: (signal?: AbortSignal) => Promise<Answer>,
    { signal }: CallSignal,
  ): Promise<{ answer: Answer; tries: number }> {
    const until = performance.now() + this.#retryForMs;
    const backoff = new Backoff();
    for (let tries = 1; ; tries += 1) {
      let failure: PostroomError;
      let atLeast = 0;
      try {
        const answer = await call(signal);
        const error = answer.status < 300 ? undefined : refusal(answer.status, answer.body);
        if (!(error instanceof UnavailableError)) return { answer, tries };
        [failure, atLeast] = [error, (answer.retryAfter ?? 0) * 1000];
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw error;
        failure = error;
      }
      const wait = Math.max(backoff.next(), atLeast);
      if (performance.now() + wait > until) throw failure;
      await pause(wait, signal);
    }
  }

  /** Never the token. */
  [inspect.custom](): string {
    return `Client(${this.#connection.origin})`;
  }
}

function statusOf(answer: Answer): MessageStatus[] {
  if (answer.status >= 300) throw refusal(answer.status, answer.body);
  return (answer.body as { messages: MessageStatus[] }).messages;
}

function withKey(options: RequestOptions, messages: readonly Prepared[]): boolean {
  const key = options.idempotencyKey;
  if (key === undefined) return false;
  if (!/^[\x21\x23-\x7e]{1,255}$/.test(key)) {
    throw new InvalidError("idempotencyKey must be 1 to 255 visible ASCII characters without blanks and quotes");
  }
  if (messages.some((message) => message.hasOwnId)) {
    throw new InvalidError("messageId and idempotencyKey are given; give only one of them");
  }
  return true;
}

/** A duplicate of an earlier try of the same call is no duplicate for the caller. */
function ours(stored: Enqueued, tries: number, message: Prepared | undefined): Enqueued {
  const isOurs = tries > 1 && message?.hasOwnId === false && stored.messageId === message.messageId;
  return isOurs && stored.keptOutBy === undefined ? { ...stored, duplicate: false } : stored;
}
