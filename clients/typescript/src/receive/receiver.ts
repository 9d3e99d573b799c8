import { inspect } from "node:util";

import { InvalidError } from "../errors.js";
import { answerText } from "../message/answer.js";
import { onlyKnown, whole } from "../message/check.js";
import { Handlers } from "../message/handlers.js";
import { Message, type Handler } from "../message/message.js";
import { jsonValue } from "../message/payload.js";
import { seconds, type Span } from "../message/span.js";
import { heard, reason, Retry, Terminal } from "../outcome.js";
import { WebhookKeys } from "./secret.js";
import { isSigned, type HeaderOf } from "./verify.js";

/**
 * Options of a receiver.
 *
 * ```ts
 * const receiver = new Receiver({ secrets: [newSecret, oldSecret], tolerance: "1m" }); // while you replace the secret
 * ```
 */
export interface ReceiverOptions {
  /** The secrets of the handler in the node's configuration: one, and a second one while you replace it. */
  secrets?: readonly string[];
  /** Accepts requests without a signature, so anyone who reaches the port can send messages. Only for tests. */
  allowUnsigned?: boolean;
  /** How far the clocks may be apart, and how old a request may be; 5 minutes by default. */
  tolerance?: Span;
  /** The largest body, in bytes; 5 MiB by default. */
  bodyMax?: number;
  /**
   * Hears of every failure of a handler. The default writes a line to stderr that names the topic, the id and the name
   * of the error, but not its words: they may quote a payload.
   */
  onError?: (error: unknown, message: Message) => void;
}

/**
 * A request, as any server can give it.
 *
 * ```ts
 * const request: PushRequest = { method: "POST", header: (name) => headers[name], body, signal };
 * ```
 */
export interface PushRequest {
  method: string;
  header: HeaderOf;
  body: Uint8Array;
  signal: AbortSignal;
}

/**
 * The answer to a request.
 *
 * ```ts
 * const { status, headers: more, body: text }: PushAnswer = await receiver.receive(request);
 * ```
 */
export interface PushAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

const BODY_MAX = 5 * 1024 * 1024;
const REASON_MAX = 2000;

/**
 * Handles messages that a node posts to a URL of yours. It verifies who sent them, calls the handler of their topic, and
 * turns its result into the answer that the node expects.
 *
 * Delivery is at least once: wrap your work in `once`, so that a message that comes again changes nothing.
 *
 * ```ts
 * const receiver = new Receiver({ secrets: [process.env.HANDLER_SECRET!] });
 * receiver.handle<Order>("order.placed", async ({ payload }) => ({ reserved: await reserve(payload) }));
 *
 * createServer(nodeListener(receiver)).listen(8080, "127.0.0.1"); // node:http
 * app.post("/messages", expressHandler(receiver));                // Express
 * const answer = fetchHandler(receiver);                          // everything that speaks fetch
 * ```
 */
export class Receiver {
  readonly #keys: WebhookKeys | undefined;
  readonly #handlers = new Handlers();
  readonly #toleranceSeconds: number;
  readonly #onError: (error: unknown, message: Message) => void;
  /** The largest body, in bytes. */
  readonly bodyMax: number;

  constructor(options: ReceiverOptions) {
    onlyKnown("Receiver", options, ["secrets", "allowUnsigned", "tolerance", "bodyMax", "onError"]);
    if (options.secrets === undefined && options.allowUnsigned !== true) {
      throw new InvalidError("a receiver needs secrets, or anyone could send it messages", {
        advice: "the `secret` of the handler in the node's configuration",
      });
    }
    this.#keys = options.secrets === undefined ? undefined : new WebhookKeys(options.secrets);
    this.#toleranceSeconds = seconds("tolerance", options.tolerance ?? 300, 1, 3600);
    this.bodyMax = whole("bodyMax", options.bodyMax ?? BODY_MAX, 1, 1024 ** 3);
    this.#onError = options.onError ?? report;
  }

  /** Sets the handler of a topic; `"*"` handles every topic without its own. */
  handle<T = unknown>(topic: string, handler: Handler<T>): this {
    this.#handlers.add(topic, handler);
    return this;
  }

  /** Answers one request. Servers other than those in this package can call it. */
  async receive(request: PushRequest): Promise<PushAnswer> {
    const { header, body } = request;
    if (request.method !== "POST") return { ...text(405, "only POST is allowed"), headers: { allow: "POST" } };
    if (body.byteLength > this.bodyMax) return text(413, "the body is too large");
    if (this.#keys !== undefined && !isSigned(this.#keys, header, body, this.#toleranceSeconds, Date.now())) {
      return text(401, "the signature is missing or wrong");
    }
    const message = messageOf(header, body);
    // Not 400, which would make it dead: a proxy may have removed the headers.
    if (message === undefined) return text(404, "this is no message of a node");
    const handler = this.#handlers.of(message.topic);
    // The node keeps the message until there is one.
    if (handler === undefined) return text(404, "no handler for this topic");
    try {
      const answer = answerText(await handler(message, { signal: request.signal }));
      if (answer === undefined) return { status: 204, headers: {}, body: "" };
      return { status: 200, headers: { "content-type": "application/json" }, body: answer };
    } catch (error) {
      heard(() => this.#onError(error, message));
      return failure(error);
    }
  }

  [inspect.custom](): string {
    return `Receiver(${this.#handlers.topics()?.join(", ") ?? "*"})`;
  }
}

/** 422 makes the message dead; 500 means a retry, after the time of `Retry-After` if there is one. */
function failure(error: unknown): PushAnswer {
  const words = reason(error).slice(0, REASON_MAX).toWellFormed();
  if (error instanceof Terminal) return text(422, words);
  const after = error instanceof Retry ? error.afterSeconds : undefined;
  return text(500, words, after === undefined ? {} : { "retry-after": String(after) });
}

function text(status: number, body: string, headers: Record<string, string> = {}): PushAnswer {
  return { status, headers: { ...headers, "content-type": "text/plain; charset=utf-8" }, body };
}

function messageOf(header: HeaderOf, body: Uint8Array): Message | undefined {
  const [id, topic] = [header("postroom-message-id"), header("postroom-topic")];
  if (id === undefined || topic === undefined || id === "" || topic === "") return undefined;
  const payload = utf8(body);
  if (payload === undefined) return undefined;
  const json = jsonValue(payload);
  const attempt = Number(header("postroom-attempt"));
  const kept = ["content-type", "traceparent", "tracestate"].flatMap((name) => {
    const value = header(name);
    return value === undefined ? [] : [[name, value]];
  });
  return new Message({
    id: fromHeader(id),
    topic: fromHeader(topic),
    payload: json === undefined ? payload : json.value,
    isJson: json !== undefined,
    attempt: Number.isSafeInteger(attempt) && attempt > 0 ? attempt : 1,
    source: header("postroom-source") ?? null,
    correlationId: maybe(header("postroom-correlation-id")),
    lane: maybe(header("postroom-lane")),
    headers: Object.fromEntries(kept) as Record<string, string>,
  });
}

function maybe(value: string | undefined): string | null {
  return value === undefined ? null : fromHeader(value);
}

/** A node sends UTF-8 in headers, and Node reads them as Latin-1. */
function fromHeader(value: string): string {
  return utf8(Buffer.from(value, "latin1")) ?? value;
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function report(error: unknown, message: Message): void {
  const name = error instanceof Error ? error.name : "an error";
  console.error(`postroom receiver: ${message.topic} ${message.id} failed at attempt ${message.attempt}: ${name}`);
}
