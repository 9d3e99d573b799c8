import { InvalidError, NodeError, PostroomError, UnavailableError } from "../errors.js";
import { jsonValue } from "../message/payload.js";
import { deadline } from "./deadline.js";
import { checkedUrl } from "./url.js";

/**
 * Where a node is, and what proves who asks.
 *
 * ```ts
 * const worker = new Worker({ url: "http://127.0.0.1:7411", token: process.env["POSTROOM_TOKEN"]! });
 * ```
 */
export interface ConnectOptions {
  /** The address of the node's HTTP API, such as `http://127.0.0.1:7411`. */
  url: string | URL;
  /** The token, or a function that returns it, for tokens that change. */
  token: string | (() => string | Promise<string>);
  /** Allows `http://` to another machine. Anyone on the way can then read the token and the messages. */
  allowUnencrypted?: boolean;
  /** How long one request may take, in milliseconds; 15,000 by default. A long poll gets its own time on top. */
  requestTimeoutMs?: number;
  /** A `fetch` of your own, for example one that shows a client certificate; the global one by default. */
  fetch?: typeof fetch;
}

/** The names of the options. */
export const CONNECT_OPTIONS = ["url", "token", "allowUnencrypted", "requestTimeoutMs", "fetch"];

/** What a node answered. */
export interface Answer {
  status: number;
  body: unknown;
  /** The seconds of `Retry-After`. */
  retryAfter: number | undefined;
}

/** How to call. */
export interface CallOptions {
  body?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** How much longer than usual the answer may take, in milliseconds. */
  waitMs?: number;
  /** An answer that has begun is read to its end, even if the signal is aborted then. */
  keepAnswer?: boolean;
}

const REQUEST_TIMEOUT = 15_000;

/** Calls to one node. The token cannot be read or printed. */
export class Connection {
  readonly #token: () => string | Promise<string>;
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;
  /** The address without a path, for messages. */
  readonly origin: string;

  constructor(options: ConnectOptions) {
    const url = checkedUrl(options.url, "http://127.0.0.1:7411 or https://node.example.com", options.allowUnencrypted);
    if (url.search !== "" || url.hash !== "") throw new InvalidError("url must have no query and no fragment");
    this.origin = url.origin;
    this.#base = url.href.replace(/\/+$/, "");
    this.#timeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT;
    this.#fetch = options.fetch ?? fetch;
    const { token } = options;
    if (typeof token !== "function") checkedToken(token);
    this.#token = typeof token === "function" ? token : () => token;
  }

  /** Sends one request. It throws an `UnavailableError` if no answer comes, and the signal's reason if that is aborted. */
  async call(method: "GET" | "POST", path: string, options: CallOptions = {}): Promise<Answer> {
    const { body, signal, waitMs = 0 } = options;
    const token = checkedToken(await this.#token());
    const headers = { ...options.headers, authorization: `Bearer ${token}`, accept: "application/json" };
    const limit = deadline(this.#timeoutMs + waitMs, signal);
    try {
      const answer = await this.#fetch(this.#base + path, {
        method,
        headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
        ...(body === undefined ? {} : { body }),
        redirect: "manual",
        signal: limit.signal,
      });
      if (answer.type === "opaqueredirect" || (answer.status >= 300 && answer.status < 400)) {
        throw new NodeError(`${this.origin} redirects, and a node does not`, {
          advice: "the address of the node itself",
        });
      }
      if (options.keepAnswer) limit.detach();
      const parsed = jsonValue(await answer.text());
      const retryAfter = /^\d{1,9}$/.exec(answer.headers.get("retry-after") ?? "")?.[0];
      if (parsed === undefined && answer.ok)
        throw new UnavailableError(`${this.origin} answered something that is no JSON`);
      return {
        status: answer.status,
        body: parsed?.value,
        retryAfter: retryAfter === undefined ? undefined : Number(retryAfter),
      };
    } catch (error) {
      if (error instanceof PostroomError) throw error;
      if (limit.wasGiven()) throw signal?.reason;
      throw new UnavailableError(
        `no answer from ${this.origin}: ${limit.isOver() ? "it took too long" : cause(error)}`,
        {
          advice: "look whether the node runs, and whether the address is right",
        },
      );
    } finally {
      limit.end();
    }
  }
}

/** A wrong token must not get into a header: the error of `fetch` would quote it. */
function checkedToken(token: unknown): string {
  if (typeof token !== "string" || !/^[\x21-\x7e]{1,4096}$/.test(token)) {
    throw new InvalidError("token must be a text of visible ASCII characters without blanks");
  }
  return token;
}

function cause(error: unknown): string {
  const inner = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  return typeof inner?.code === "string" ? inner.code : "the connection failed";
}
