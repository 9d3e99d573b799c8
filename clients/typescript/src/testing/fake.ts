import { ConflictError, KeyTakenError, NotFoundError, TimeoutError } from "../errors.js";
import type { PostroomClient } from "../http/api.js";
import type { Cancelled, NewMessage, RequestOptions, WaitOptions } from "../http/options.js";
import { hasEnded, resultOf, type MessageStatus, type Result } from "../http/status.js";
import { whole } from "../message/check.js";
import { Handlers } from "../message/handlers.js";
import { messageId } from "../message/id.js";
import { Message, type Handler } from "../message/message.js";
import type { Enqueued, EnqueueOptions } from "../message/options.js";
import { prepare, type Prepared } from "../message/prepared.js";
import { CENTURY, seconds, type Span } from "../message/span.js";
import { perform } from "../worker/perform.js";
import { hasKey, recordOf, rowOf, statusOf, type FakeRecord, type Row } from "./record.js";

const ATTEMPTS = 10;
const MORE = ["signal", "idempotencyKey", "table", "notify"];

/**
 * A Postroom in memory, for unit tests: it records what your code enqueues, runs handlers when you say so, and refuses
 * what the real one refuses. Its clock stands still until you call `advance`.
 *
 * ```ts
 * const postroom = new FakePostroom();
 * await placeOrder(postroom, 7);                               // your code
 * assert.deepEqual(postroom.enqueued("order.placed").map((m) => m.payload), [{ order: 7 }]);
 *
 * postroom.handle("order.placed", reserveOrder);               // your handler
 * await postroom.drain();
 * assert.equal(postroom.enqueued("order.placed")[0]?.state, "done");
 * ```
 */
export class FakePostroom implements PostroomClient {
  #rows: Row[] = [];
  #now = Date.now();
  readonly #here = new Handlers();
  readonly #elsewhere = new Map<string, Handlers>();
  readonly #failures: Error[] = [];

  /** Sets the handler of a topic for messages without a destination; `"*"` takes the rest. */
  handle<T = unknown>(topic: string, handler: Handler<T>): this {
    this.#here.add(topic, handler);
    return this;
  }

  /** Plays another service: handles the messages that go there. */
  handleAt<T = unknown>(destination: string, topic: string, handler: Handler<T>): this {
    const handlers = this.#elsewhere.get(destination) ?? new Handlers();
    this.#elsewhere.set(destination, handlers);
    handlers.add(topic, handler);
    return this;
  }

  /** What was enqueued, in order: everything, or of one topic. */
  enqueued(topic?: string): FakeRecord[] {
    return this.#rows.filter(({ message }) => topic === undefined || message.topic === topic).map(recordOf);
  }

  /** Lets the next call fail with this error, such as `new UnavailableError("the database is unavailable")`. */
  failNext(error: Error): void {
    this.#failures.push(error);
  }

  /** Moves the clock, so that what waits for a time is due. */
  advance(span: Span): void {
    this.#now += seconds("span", span, 0, CENTURY) * 1000;
    for (const row of this.#rows) {
      if (row.state === "ready" && row.expiresAt !== null && row.expiresAt <= this.#now) row.state = "expired";
    }
  }

  /** As `enqueue` of a `Client`. */
  async enqueue(topic: string, payload: unknown, options: EnqueueOptions & RequestOptions = {}): Promise<Enqueued> {
    return this.#store(prepare(topic, payload, options, MORE));
  }

  /** As `enqueue` of `postroom/pg` and `postroom/mysql`. It never looks at the connection. */
  readonly enqueueIn = async (
    _connection: unknown,
    topic: string,
    payload: unknown,
    options: EnqueueOptions & { table?: string; notify?: boolean } = {},
  ): Promise<Enqueued> => this.#store(prepare(topic, payload, options, MORE));

  /** As `enqueue` of `postroom/sqlite`. It never looks at the database. */
  readonly enqueueSync = (
    _db: unknown,
    topic: string,
    payload: unknown,
    options: EnqueueOptions & { table?: string } = {},
  ): Enqueued => this.#store(prepare(topic, payload, options, MORE));

  /** Runs your code like a transaction: if it throws, nothing of what it enqueued stays. */
  async transaction<T>(work: () => Promise<T> | T): Promise<T> {
    const before = this.#rows.map((row) => ({ ...row }));
    try {
      return await work();
    } catch (error) {
      this.#rows = before;
      throw error;
    }
  }

  /** As `enqueueMany` of a `Client`: all or none. */
  async enqueueMany(messages: readonly NewMessage[]): Promise<Enqueued[]> {
    whole("the number of messages", messages.length, 1, 1000);
    const prepared = messages.map(({ topic, payload, ...options }) => prepare(topic, payload, options));
    return this.transaction(() => prepared.map((message) => this.#store(message)));
  }

  /** As `status` of a `Client`. */
  async status(id: string): Promise<MessageStatus[]> {
    this.#fail();
    return this.#find(id).map(statusOf);
  }

  /** Runs the handlers, and returns the result. A message that has not ended then ends in a `TimeoutError`. */
  async wait<Answer = unknown>(id: string, _options: WaitOptions = {}): Promise<Result<Answer>> {
    this.#fail();
    this.#find(id);
    await this.drain();
    const messages = this.#find(id).map(statusOf);
    if (!messages.every(hasEnded))
      throw new TimeoutError(`message ${id} has not ended`, { advice: "handle() or advance()" });
    return resultOf<Answer>(messages);
  }

  /** As `cancel` of a `Client`. */
  async cancel(id: string): Promise<Cancelled> {
    return this.#cancel(this.#find(id));
  }

  /** As `cancelLane` of a `Client`. */
  async cancelLane(lane: string): Promise<Cancelled> {
    const rows = this.#rows.filter((row) => row.message.lane === lane && row.state === "ready");
    return rows.length === 0 ? { cancelled: 0, askedToStop: 0 } : this.#cancel(rows);
  }

  /** As `cancelKey` of a `Client`. */
  async cancelKey(key: string): Promise<Cancelled> {
    const rows = this.#rows.filter((row) => row.message.unique?.key === key).slice(-1);
    if (rows.length === 0) throw new NotFoundError("no message has this unique key", { status: 404 });
    return this.#cancel(rows);
  }

  /**
   * Runs the handlers of everything that is due, also of what they enqueue, and returns how many attempts that were. A
   * message that failed waits for its next attempt: 2 s, 4 s … 60 s, or what its `Retry` says.
   */
  async drain(): Promise<number> {
    for (let attempts = 0; ; attempts += 1) {
      const next = this.#next();
      if (next === undefined) return attempts;
      await this.#attempt(next.row, next.handler);
    }
  }

  /** Forgets every message. The handlers stay. */
  clear(): void {
    this.#rows = [];
  }

  #next(): { row: Row; handler: Handler } | undefined {
    const blocked = new Set<string>();
    const ready = this.#rows.filter(({ message: { lane }, state }) => {
      const isFirst = lane === null || !blocked.has(lane);
      if (lane !== null && ["ready", "leased", "dead"].includes(state)) blocked.add(lane);
      return isFirst && state === "ready";
    });
    return ready
      .filter((row) => row.dueAt <= this.#now)
      .sort((a, b) => a.dueAt - b.dueAt)
      .flatMap((row) => {
        const { destination, topic } = row.message;
        const handler = (destination === null ? this.#here : this.#elsewhere.get(destination))?.of(topic);
        return handler === undefined ? [] : [{ row, handler }];
      })[0];
  }

  async #attempt(row: Row, handler: Handler): Promise<void> {
    const { message } = row;
    row.state = "leased";
    const { signal } = new AbortController();
    const given = new Message({
      id: message.messageId,
      topic: message.topic,
      payload: row.payload,
      kind: message.kind ?? "Event",
      attempt: row.attempts + 1,
      correlationId: message.correlationId,
      lane: message.lane,
      headers: message.headers ?? {},
      createdAt: new Date(row.createdAt),
    });
    const verdict = await perform(handler, given, signal, () => undefined);
    if (verdict.verb === "ack") {
      row.state = "done";
      row.hasAnswer = verdict.answer !== undefined;
      row.answer = verdict.answer === undefined ? null : (JSON.parse(verdict.answer) as unknown);
      return;
    }
    row.attempts += 1;
    row.lastError = verdict.error;
    const isLast = row.attempts >= (message.maxAttempts ?? ATTEMPTS);
    row.state = verdict.verb === "fail" || isLast ? "dead" : "ready";
    const delay = verdict.verb === "abandon" ? verdict.delaySeconds : undefined;
    row.dueAt = this.#now + 1000 * (delay ?? Math.min(60, 2 ** row.attempts));
  }

  #store(message: Prepared): Enqueued {
    this.#fail();
    const id = message.messageId;
    if (this.#rows.some((row) => row.message.rowId === message.rowId)) return { messageId: id, duplicate: true };
    const { unique } = message;
    const holder =
      unique && this.#rows.findLast((row) => row.message.unique?.key === unique.key && row.state !== "dismissed");
    let replaced: string | undefined;
    if (unique && holder && hasKey(holder, this.#now)) {
      const keptOutBy = holder.message.messageId;
      if (unique.ifTaken === "refuse") throw new KeyTakenError("another message has the unique key", { keptOutBy });
      if (unique.ifTaken === "keep" || holder.state !== "ready") return { messageId: id, duplicate: true, keptOutBy };
      holder.state = "dismissed";
      replaced = keptOutBy;
    }
    this.#rows.push(rowOf(message, this.#now));
    return { messageId: id, duplicate: false, ...(replaced !== undefined && { replaced }) };
  }

  #find(id: string): Row[] {
    const checked = messageId(id);
    const rows = this.#rows.filter((row) => row.message.messageId === checked);
    if (rows.length === 0) throw new NotFoundError("no message has this id", { status: 404 });
    return rows;
  }

  #cancel(rows: Row[]): Cancelled {
    this.#fail();
    const waiting = rows.filter((row) => row.state === "ready");
    if (waiting.length === 0)
      throw new ConflictError(`it is too late: the message is ${rows[0]?.state}`, { status: 409 });
    waiting.forEach((row) => (row.state = "dismissed"));
    return { cancelled: waiting.length, askedToStop: 0 };
  }

  #fail(): void {
    const failure = this.#failures.shift();
    if (failure !== undefined) throw failure;
  }
}
