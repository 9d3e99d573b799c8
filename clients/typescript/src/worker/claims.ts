import { PostroomError, UnavailableError } from "../errors.js";
import { Backoff, pause } from "../http/backoff.js";
import type { Connection } from "../http/connection.js";
import { refusal } from "../http/refusal.js";
import { Message } from "../message/message.js";
import type { Kind } from "../message/check.js";
import { Held } from "./held.js";
import type { Queue, WorkerSettings } from "./options.js";
import type { Slots } from "./slots.js";

const LIMIT_MAX = 100;
/** A node with too many waiting clients answers at once. */
const HASTY_MS = 500;

/** What a claim loop works with. */
export interface ClaimParts {
  connection: Connection;
  settings: WorkerSettings;
  topics: string[] | undefined;
  slots: Slots;
  stopping: AbortSignal;
  /** Takes a message. */
  take: (held: Held) => void;
  failed: (error: unknown) => void;
}

/**
 * Fetches messages of one queue until the worker stops. It rejects if the very first request is refused: then the
 * address, the token or the node's configuration is wrong. Later it tries again, whatever happens.
 */
export async function claimAll(queue: Queue, parts: ClaimParts): Promise<void> {
  const { settings, slots, stopping } = parts;
  const backoff = new Backoff();
  let hasWorked = false;
  while (!stopping.aborted) {
    const free = await slots.free(stopping);
    if (free === 0) return;
    const asked = performance.now();
    try {
      const count = await claim(queue, Math.min(free, LIMIT_MAX), parts);
      hasWorked = true;
      const isHasty = count === 0 && settings.waitSeconds > 0 && performance.now() - asked < HASTY_MS;
      if (count > 0 || !isHasty) backoff.reset();
      else await pause(backoff.next(), stopping);
    } catch (error) {
      if (stopping.aborted) return;
      if (!hasWorked && error instanceof PostroomError && !(error instanceof UnavailableError)) throw error;
      parts.failed(error);
      await pause(backoff.next(), stopping).catch(() => undefined);
    }
  }
}

async function claim(queue: Queue, limit: number, parts: ClaimParts): Promise<number> {
  const { settings, connection, stopping: signal } = parts;
  const { leaseSeconds, waitSeconds } = settings;
  const answer = await connection.call("POST", `/v1/${queue}/claim`, {
    body: JSON.stringify({ topics: parts.topics, limit, leaseSeconds, waitSeconds }),
    signal,
    waitMs: waitSeconds * 1000,
    keepAnswer: true,
  });
  if (answer.status >= 300) throw refusal(answer.status, answer.body);
  const { messages = [] } = answer.body as { messages?: Claimed[] };
  for (const one of messages) parts.take(new Held(queue, one.lease, messageOf(one), leaseSeconds * 1000));
  return messages.length;
}

/** A message as the node hands it out. */
interface Claimed {
  lease: string;
  messageId: string;
  topic: string;
  kind: Kind;
  attempt: number;
  source: string | null;
  correlationId: string | null;
  lane: string | null;
  headers: Record<string, string>;
  createdAt: string;
  payload?: unknown;
  payloadText?: string;
}

function messageOf(claimed: Claimed): Message {
  const { messageId: id, payload, payloadText, createdAt, ...rest } = claimed;
  const isJson = payloadText === undefined;
  return new Message({ ...rest, id, payload: isJson ? payload : payloadText, isJson, createdAt: new Date(createdAt) });
}
