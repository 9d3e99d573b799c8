import { InvalidError } from "../errors.js";
import { headers, kind, maybeName, name, onlyKnown, service, whole, type Kind } from "./check.js";
import { messageId, newMessageId, rowId } from "./id.js";
import { OPTIONS, type EnqueueOptions, type Unique } from "./options.js";
import { payloadText } from "./payload.js";
import { CENTURY, seconds } from "./span.js";

const ATTEMPTS_MAX = 2_147_483_647;
const HEAD_START_MAX = 86_400;

/** When a message is due: at a time, or so many seconds from now (negative for a head start). */
export type Due = { at: Date } | { inSeconds: number };

/** A unique key, checked. */
export interface PreparedUnique {
  key: string;
  untilDone: boolean;
  forSeconds: number | null;
  ifTaken: "keep" | "replace" | "refuse";
}

/** A message, checked. What it does not name is `null`. */
export interface Prepared {
  topic: string;
  text: string;
  messageId: string;
  /** Whether the caller chose the id, and may repeat it. */
  hasOwnId: boolean;
  /** The id of its row. */
  rowId: string;
  destination: string | null;
  correlationId: string | null;
  lane: string | null;
  headers: Record<string, string> | null;
  due: Due | null;
  ttlSeconds: number | null;
  maxAttempts: number | null;
  kind: Kind | null;
  unique: PreparedUnique | null;
}

/** Checks a message. Other options than those of every message are named in `more`. */
export function prepare(topic: string, payload: unknown, given: EnqueueOptions = {}, more: string[] = []): Prepared {
  onlyKnown("enqueue", given, [...OPTIONS, ...more]);
  const destination = given.destination === undefined ? null : service("destination", given.destination);
  const id = given.messageId === undefined ? newMessageId() : messageId(given.messageId);
  return {
    topic: name("topic", topic),
    text: payloadText(payload),
    messageId: id,
    hasOwnId: given.messageId !== undefined,
    rowId: rowId(id, destination),
    destination,
    correlationId: maybeName("correlationId", given.correlationId),
    lane: maybeName("lane", given.lane),
    headers: headers(given.headers),
    due: due(given),
    ttlSeconds: given.ttl === undefined ? null : seconds("ttl", given.ttl, 1, CENTURY),
    maxAttempts: given.maxAttempts === undefined ? null : whole("maxAttempts", given.maxAttempts, 1, ATTEMPTS_MAX),
    kind: given.kind === undefined ? null : kind(given.kind),
    unique: given.unique === undefined ? null : unique(given.unique),
  };
}

function due(given: EnqueueOptions): Due | null {
  const said = (["dueAt", "dueAfter", "headStart"] as const).filter((option) => given[option] !== undefined);
  if (said.length > 1) throw new InvalidError(`${said.join(" and ")} are given; give only one of them`);
  if (given.dueAt !== undefined) return { at: moment(given.dueAt) };
  if (given.dueAfter !== undefined) return { inSeconds: seconds("dueAfter", given.dueAfter, 0, CENTURY) };
  if (given.headStart !== undefined) return { inSeconds: -seconds("headStart", given.headStart, 0, HEAD_START_MAX) };
  return null;
}

function moment(given: unknown): Date {
  const zoned = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/i;
  const at = typeof given === "string" && zoned.test(given) ? new Date(given) : given;
  if (!(at instanceof Date) || Number.isNaN(at.getTime())) {
    throw new InvalidError("dueAt must be a Date, or a text like 2026-11-15T12:00:00Z");
  }
  return at;
}

function unique(given: Unique): PreparedUnique {
  if (typeof given !== "object" || given === null) throw new InvalidError('unique must be like { key: "page-7" }');
  onlyKnown("unique", given, ["key", "until", "for", "ifTaken"]);
  if (given.until !== undefined && given.for !== undefined) {
    throw new InvalidError("unique.until and unique.for are given; give only one of them");
  }
  const { until = "started", ifTaken = "keep" } = given;
  if (!["started", "done"].includes(until)) throw new InvalidError('unique.until must be "started" or "done"');
  if (!["keep", "replace", "refuse"].includes(ifTaken)) {
    throw new InvalidError('unique.ifTaken must be "keep", "replace" or "refuse"');
  }
  return {
    key: name("unique.key", given.key),
    untilDone: until === "done",
    forSeconds: given.for === undefined ? null : seconds("unique.for", given.for, 1, CENTURY),
    ifTaken,
  };
}
