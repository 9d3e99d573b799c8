import type { Agent } from "node:http";
import { inspect } from "node:util";

import { InvalidError } from "../errors.js";
import { deadline } from "../http/deadline.js";
import { checkedUrl } from "../http/url.js";
import { onlyKnown, service } from "../message/check.js";
import { newMessageId } from "../message/id.js";
import { jsonValue } from "../message/payload.js";
import { envelopeText, type WireKind } from "./envelope.js";
import type { Key } from "./key.js";
import { verifyReceipt } from "./receipt.js";
import { microsNow, signRequest, type Micros } from "./request.js";
import { post, type RawAnswer } from "./send.js";

/**
 * Options of a `WireClient`.
 *
 * ```ts
 * const url = "https://billing.internal:7410";
 * const billing = new WireClient({ url, source: "orders", destination: "billing", keys: [key] });
 * ```
 */
export interface WireClientOptions {
  /** Where the receiver is, such as `https://inventory.example.com:7410`; without a path it is `/_rf/receive`. */
  url: string | URL;
  /** The name of this service. */
  source: string;
  /** The name of the receiving service. */
  destination: string;
  /** The keys to sign with; a second one while you replace one. */
  keys: readonly Key[];
  /** How long an answer may take, in milliseconds; 30,000 by default. */
  timeoutMs?: number;
  /** Allows `http://` to another machine. Anyone on the way can then read the messages. */
  allowUnencrypted?: boolean;
  /** An agent of your own, for example `new https.Agent({ ca, cert, key })`. */
  agent?: Agent;
}

/**
 * What to say of a message that is sent over the wire.
 *
 * ```ts
 * await inventory.send("stock.reserve", { order: 7 }, { kind: "Command", messageId, enqueuedAt, attempt: 2 });
 * ```
 */
export interface SendOptions {
  /** `Signal` by default. */
  kind?: WireKind;
  correlationId?: string;
  headers?: Record<string, string>;
  /** The same each time the message is sent; new by default. */
  messageId?: string;
  /** When the message was created: the same each time it is sent. */
  enqueuedAt?: Micros;
  /** The time before which it was not to be sent: the same each time. */
  dueAt?: Micros;
  /** 1, and one more for each attempt that was used. */
  attempt?: number;
  signal?: AbortSignal;
}

/**
 * What an answer means for the message: it is `done` or `dead`; it is sent again after a failure of its own (`retry`,
 * which uses an attempt) or waits (`wait`); or the place could not be reached or has proven nothing (`unavailable`).
 *
 * ```ts
 * const isOver = (outcome: SendOutcome) => outcome === "done" || outcome === "dead";
 * ```
 */
export type SendOutcome = "done" | "dead" | "retry" | "wait" | "unavailable";

/**
 * The result of one attempt.
 *
 * ```ts
 * const { outcome, answer, retryAfter }: Sent = await inventory.send("stock.reserve", { order: 7 });
 * ```
 */
export interface Sent {
  outcome: SendOutcome;
  messageId: string;
  /** Use it again when you repeat the message. */
  enqueuedAt: Micros;
  /** The HTTP status; `null` if no answer came. */
  status: number | null;
  /** Whether the answer had a valid receipt. Without one, nothing is done and nothing is dead. */
  hasReceipt: boolean;
  /** Whether the receiver knew the message already. */
  duplicate: boolean;
  /** The answer of its handler, if it came at once. */
  answer: unknown;
  /** The receiver's words, if it refused. */
  error: string | null;
  /** For how many seconds the receiver asks to wait. */
  retryAfter: number | null;
}

/**
 * Sends messages to a Postroom receiver over the signed wire, without a node. It makes one attempt for each call: keep
 * the message yourself until it is done, or let an outbox do that.
 *
 * ```ts
 * const url = "https://inventory.internal:7410";
 * const inventory = new WireClient({ url, source: "orders", destination: "inventory", keys: [key] });
 * const sent = await inventory.send("stock.reserve", { order: 7 }, { kind: "Command" });
 * if (sent.outcome === "done") console.log(sent.answer);
 * ```
 */
export class WireClient {
  readonly #keys: readonly Key[];
  readonly #url: URL;
  readonly #source: string;
  readonly #destination: string;
  readonly #timeoutMs: number;
  readonly #agent: Agent | undefined;

  constructor(options: WireClientOptions) {
    onlyKnown("WireClient", options, [
      "url",
      "source",
      "destination",
      "keys",
      "timeoutMs",
      "allowUnencrypted",
      "agent",
    ]);
    this.#url = receiverUrl(options);
    this.#source = service("source", options.source);
    this.#destination = service("destination", options.destination);
    if (options.keys.length === 0) throw new InvalidError("keys must have at least one key");
    this.#keys = options.keys;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#agent = options.agent;
  }

  /** Sends a message once, and says what the answer means. It throws only for wrong arguments and for your own signal. */
  async send(topic: string, payload: unknown, options: SendOptions = {}): Promise<Sent> {
    const { kind, correlationId, headers, messageId = newMessageId(), enqueuedAt = microsNow(), attempt = 1 } = options;
    const body = Buffer.from(
      envelopeText({ messageId, source: this.#source, topic, payload, kind, correlationId, headers }),
    );
    const signed = signRequest(
      {
        source: this.#source,
        destination: this.#destination,
        path: this.#url.pathname + this.#url.search,
        messageId,
        enqueuedAt,
        dueAt: options.dueAt,
        attempt,
        timestamp: microsNow(),
        body,
      },
      this.#keys,
    );
    const sent = { messageId: signed["rf-message-id"] ?? messageId, enqueuedAt };
    const limit = deadline(this.#timeoutMs, options.signal);
    try {
      return { ...sent, ...this.#judge(await post(this.#url, signed, body, limit.signal, this.#agent), signed) };
    } catch (error) {
      if (limit.wasGiven()) throw options.signal?.reason;
      const code = (error as { code?: unknown }).code;
      const words = limit.isOver()
        ? "no answer in time"
        : `no answer: ${typeof code === "string" ? code : "the connection failed"}`;
      return {
        ...sent,
        outcome: "unavailable",
        status: null,
        hasReceipt: false,
        duplicate: false,
        answer: null,
        error: words,
        retryAfter: null,
      };
    } finally {
      limit.end();
    }
  }

  #judge(answer: RawAnswer, signed: Record<string, string>): Omit<Sent, "messageId" | "enqueuedAt"> {
    const { status, headers, body } = answer;
    const one = (name: string): string | undefined => (typeof headers[name] === "string" ? headers[name] : undefined);
    const retryAfter = one("retry-after");
    const hasReceipt = verifyReceipt(
      one("rf-ack"),
      {
        destination: this.#destination,
        messageId: signed["rf-message-id"] ?? "",
        timestamp: signed["rf-timestamp"] ?? "",
        status,
        body,
        retryAfter,
        retention: one("rf-inbox-retention"),
      },
      this.#keys,
    );
    const said = jsonValue(body.toString("utf8"))?.value;
    const words = (typeof said === "object" && said !== null ? said : {}) as Record<string, unknown>;
    const isAcknowledged = words["acknowledged"] === true || words["duplicateDetected"] === true;
    return {
      outcome: hasReceipt ? outcomeOf(status, isAcknowledged) : "unavailable",
      status,
      hasReceipt,
      duplicate: hasReceipt && words["duplicateDetected"] === true,
      answer: hasReceipt ? (words["payload"] ?? null) : null,
      error:
        typeof words["error"] === "string"
          ? words["error"]
          : hasReceipt
            ? null
            : `it answered ${status} without a valid receipt`,
      retryAfter: /^\d{1,9}$/.test(retryAfter ?? "") ? Math.min(Number(retryAfter), hasReceipt ? 3600 : 60) : null,
    };
  }

  /** Never the keys. */
  [inspect.custom](): string {
    return `WireClient(${this.#source} to ${this.#destination} at ${this.#url.origin})`;
  }
}

function outcomeOf(status: number, isAcknowledged: boolean): SendOutcome {
  if (status >= 200 && status < 300) return isAcknowledged ? "done" : "unavailable";
  if ([400, 410, 413, 422].includes(status)) return "dead";
  return status === 500 ? "retry" : "wait";
}

function receiverUrl({ url, allowUnencrypted }: WireClientOptions): URL {
  const parsed = checkedUrl(url, "https://inventory.example.com:7410", allowUnencrypted);
  if (parsed.pathname === "/" && parsed.search === "") parsed.pathname = "/_rf/receive";
  parsed.hash = "";
  return parsed;
}
