import type { MessageStatus, State } from "../http/status.js";
import type { Prepared } from "../message/prepared.js";

/**
 * A message that a `FakePostroom` has.
 *
 * ```ts
 * const [placed] = postroom.enqueued("order.placed");
 * assert.equal(placed?.lane, "order-7");
 * ```
 */
export interface FakeRecord {
  readonly messageId: string;
  readonly topic: string;
  /** The payload, as a handler would get it. */
  readonly payload: unknown;
  readonly destination: string | null;
  readonly correlationId: string | null;
  readonly lane: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly kind: string;
  readonly uniqueKey: string | null;
  readonly state: State;
  readonly attempts: number;
  /** The answer of its handler. */
  readonly answer: unknown;
  readonly lastError: string | null;
  /** When it is due, by the clock of the fake. */
  readonly dueAt: Date;
}

/** The same, while it can change. Times are milliseconds. */
export interface Row {
  message: Prepared;
  payload: unknown;
  state: State;
  attempts: number;
  createdAt: number;
  dueAt: number;
  expiresAt: number | null;
  keyUntil: number | null;
  hasAnswer: boolean;
  answer: unknown;
  lastError: string | null;
}

const DAY = 86_400_000;

/** A new row. */
export function rowOf(message: Prepared, now: number): Row {
  const { due, ttlSeconds, destination, unique } = message;
  const dueAt = due === null ? now : "at" in due ? due.at.getTime() : now + due.inSeconds * 1000;
  const usual = destination === null ? null : Math.max(now, dueAt) + DAY;
  return {
    message,
    dueAt: Math.max(dueAt, now - DAY),
    createdAt: now,
    state: "ready",
    attempts: 0,
    payload: JSON.parse(asJson(message.text)) as unknown,
    expiresAt: ttlSeconds === null ? usual : now + ttlSeconds * 1000,
    keyUntil: unique?.forSeconds == null ? null : now + unique.forSeconds * 1000,
    hasAnswer: false,
    answer: null,
    lastError: null,
  };
}

function asJson(text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
  }
}

/** Whether the row has its unique key at this time. */
export function hasKey(row: Row, now: number): boolean {
  if (row.keyUntil !== null) return row.keyUntil > now;
  return row.state === "ready" || (row.state === "leased" && row.message.unique?.untilDone === true);
}

/** What a test sees of a row. */
export function recordOf({ message, ...row }: Row): FakeRecord {
  return {
    messageId: message.messageId,
    topic: message.topic,
    payload: row.payload,
    destination: message.destination,
    correlationId: message.correlationId,
    lane: message.lane,
    headers: message.headers ?? {},
    kind: message.kind ?? "Event",
    uniqueKey: message.unique?.key ?? null,
    state: row.state,
    attempts: row.attempts,
    answer: row.answer,
    lastError: row.lastError,
    dueAt: new Date(row.dueAt),
  };
}

/** What a client sees of a row. */
export function statusOf({ message, ...row }: Row): MessageStatus {
  const time = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());
  return {
    topic: message.topic,
    kind: message.kind ?? "Event",
    destination: message.destination,
    correlationId: message.correlationId,
    lane: message.lane,
    state: row.state,
    attempts: row.attempts,
    createdAt: time(row.createdAt),
    notBefore: row.state === "ready" ? time(row.dueAt) : null,
    expiresAt: time(row.expiresAt),
    finishedAt: null,
    lastError: row.lastError,
    hasAnswer: row.hasAnswer,
    answer: row.answer,
  };
}
