import { InvalidError } from "../errors.js";
import { onlyKnown, whole } from "../message/check.js";
import type { Message } from "../message/message.js";
import { seconds, type Span } from "../message/span.js";
import { CONNECT_OPTIONS, type ConnectOptions } from "../http/connection.js";

/**
 * A queue of a node: `inbox` has what other services sent, `outbox` what was enqueued here without a destination.
 *
 * ```ts
 * const queues: Queue[] = ["inbox"];
 * ```
 */
export type Queue = "inbox" | "outbox";

/**
 * Options of a worker.
 *
 * ```ts
 * const onError = (error: unknown, message?: Message) => log(error, message?.id);
 * const worker = new Worker({ url, token, concurrency: 50, lease: "2m", onError });
 * ```
 */
export interface WorkerOptions extends ConnectOptions {
  /** Which queues to fetch from; both by default. */
  queues?: readonly Queue[];
  /** How many messages to handle at once; 10 by default, at most 1000. */
  concurrency?: number;
  /** How long a message stays ours without a word from this worker; 30 s by default. It is renewed while a handler works. */
  lease?: Span;
  /** How long to wait for messages in one request; 20 s by default, at most 30 s. */
  longPoll?: Span;
  /** How long `stop` lets handlers finish; 10 s by default. */
  grace?: Span;
  /**
   * Hears of every failure: of a handler, with its message, and of the connection, without one. The default writes a
   * line to stderr that names the topic, the id and the name of the error, but not its words: they may quote a payload.
   */
  onError?: (error: unknown, message?: Message) => void;
}

/** The options with their defaults. */
export interface WorkerSettings {
  queues: readonly Queue[];
  concurrency: number;
  leaseSeconds: number;
  waitSeconds: number;
  graceMs: number;
  onError: (error: unknown, message?: Message) => void;
}

const KNOWN = ["queues", "concurrency", "lease", "longPoll", "grace", "onError"];

/** Checks the options and fills in the defaults. */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  onlyKnown("Worker", options, [...CONNECT_OPTIONS, ...KNOWN]);
  const queues = options.queues ?? ["inbox", "outbox"];
  if (queues.length === 0 || queues.some((queue) => queue !== "inbox" && queue !== "outbox")) {
    throw new InvalidError('queues must have "inbox", "outbox" or both');
  }
  return {
    queues: [...new Set(queues)],
    concurrency: whole("concurrency", options.concurrency ?? 10, 1, 1000),
    leaseSeconds: seconds("lease", options.lease ?? 30, 1, 86_400),
    waitSeconds: seconds("longPoll", options.longPoll ?? 20, 0, 30),
    graceMs: seconds("grace", options.grace ?? 10, 0, 86_400) * 1000,
    onError: options.onError ?? report,
  };
}

function report(error: unknown, message?: Message): void {
  const name = error instanceof Error ? error.name : "an error";
  const what =
    message === undefined
      ? String(error instanceof Error ? error.message : name)
      : `${message.topic} ${message.id} failed at attempt ${message.attempt}: ${name}`;
  console.error(`postroom worker: ${what}`);
}
