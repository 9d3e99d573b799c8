import { createHash } from "node:crypto";

import { InvalidError } from "../errors.js";
import { service, whole } from "../message/check.js";
import { messageId as checkedId } from "../message/id.js";
import type { Key } from "./key.js";

/**
 * A time on the wire: microseconds since 1970, UTC.
 *
 * ```ts
 * const enqueuedAt: Micros = BigInt(Date.now()) * 1000n;
 * ```
 */
export type Micros = bigint;

/**
 * What a request is signed over.
 *
 * ```ts
 * const request: SignedRequest = { source: "orders", destination: "inventory", path: "/_rf/receive", messageId,
 *   enqueuedAt, attempt: 1, timestamp: microsNow(), body: text };
 * ```
 */
export interface SignedRequest {
  source: string;
  destination: string;
  /** The path with its query, as it stands in the request line. */
  path: string;
  messageId: string;
  /** When the message was created: the same each time it is sent. */
  enqueuedAt: Micros;
  /** The time before which it was not to be sent: the same each time. */
  dueAt?: Micros | undefined;
  /** 1, and one more for each attempt used. */
  attempt: number;
  /** When this request is signed: new each time. */
  timestamp: Micros;
  body: string | Uint8Array;
  /** `POST` by default. */
  method?: string;
  /** `application/json` by default. */
  contentType?: string;
}

/**
 * The time now.
 *
 * ```ts
 * const enqueuedAt = microsNow();
 * ```
 */
export function microsNow(): Micros {
  return BigInt(Date.now()) * 1000n;
}

/**
 * Signs a request with each of the keys, and returns its headers.
 *
 * ```ts
 * const headers = signRequest({ source: "orders", destination: "inventory", path: "/_rf/receive", messageId,
 *   enqueuedAt: microsNow(), attempt: 1, timestamp: microsNow(), body }, [key]);
 * ```
 */
export function signRequest(request: SignedRequest, keys: readonly Key[]): Record<string, string> {
  const valid = keys.filter((key) => key.isValid());
  if (valid.length === 0) throw new InvalidError("no key is valid now; a request needs at least one signature");
  const contentType = request.contentType ?? "application/json";
  const digest = sha256(request.body);
  const due = request.dueAt === undefined ? "" : time("dueAt", request.dueAt);
  const headers: Record<string, string> = {
    "content-type": contentType,
    "rf-version": "2",
    "rf-source": service("source", request.source),
    "rf-destination": service("destination", request.destination),
    "rf-message-id": checkedId(request.messageId),
    "rf-enqueued-at": time("enqueuedAt", request.enqueuedAt),
    ...(due === "" ? {} : { "rf-due-at": due }),
    "rf-attempt": String(whole("attempt", request.attempt, 0, 2 ** 32 - 1)),
    "rf-timestamp": time("timestamp", request.timestamp),
    "rf-content-sha256": digest.toString("hex"),
  };
  const pieces = requestPieces((name) => headers[name] ?? "", request.method ?? "POST", request.path, digest);
  return { ...headers, "rf-signature": valid.map((key) => key.sign("request", pieces)).join(",") };
}

/** The pieces that a request's signature covers, without the id of the key. */
export function requestPieces(
  header: (name: string) => string,
  method: string,
  path: string,
  digest: Uint8Array,
): (string | Uint8Array)[] {
  return [
    "rf-sig-v2",
    "req",
    header("rf-source"),
    header("rf-destination"),
    method,
    path,
    header("rf-message-id"),
    header("rf-enqueued-at"),
    header("rf-due-at"),
    header("rf-attempt"),
    header("rf-timestamp"),
    header("content-type"),
    digest,
  ];
}

/** The SHA-256 of a body. */
export function sha256(body: string | Uint8Array): Buffer {
  return createHash("sha256").update(body).digest();
}

function time(what: string, value: Micros): string {
  if (typeof value !== "bigint" || BigInt.asIntN(64, value) !== value) {
    throw new InvalidError(`${what} must be microseconds since 1970, as a bigint of 64 bits`);
  }
  return String(value);
}
