import { service } from "../message/check.js";
import { isMessage, parseEnvelope, type Envelope } from "./envelope.js";
import { verifies, type Key } from "./key.js";
import { microsNow, requestPieces, sha256, type Micros } from "./request.js";

/**
 * A service that may send.
 *
 * ```ts
 * const orders: WireSource = { keys: [key], topics: ["stock.*"] };
 * ```
 */
export interface WireSource {
  keys: readonly Key[];
  /** What it may send; `"order.*"` means every topic that begins with `order.`. Without it, everything. */
  topics?: readonly string[];
}

/**
 * A request that arrived.
 *
 * ```ts
 * const arrived: ArrivedRequest = { method: "POST", path: "/_rf/receive", headers: [["rf-version", "2"]], body };
 * ```
 */
export interface ArrivedRequest {
  method: string;
  /** The path with its query, exactly as it stands in the request line. */
  path: string;
  /** Every header as a pair of its name in lower case and its value; some may be there twice. */
  headers: readonly (readonly [name: string, value: string])[];
  body: Uint8Array;
}

/**
 * Who verifies.
 *
 * ```ts
 * const verifier: Verifier = { name: "inventory", sources: { orders: { keys: [key] } } };
 * ```
 */
export interface Verifier {
  /** The name of the receiving service. */
  name: string;
  /** Who may send. */
  sources: Readonly<Record<string, WireSource>>;
  /** How old a message may be; 29 days by default. */
  windowSeconds?: number;
  /** The time; now by default. */
  now?: Micros;
}

/**
 * What a request says about itself. It is proven only if the request was verified.
 *
 * ```ts
 * const { source, messageId }: WireHead = head;
 * ```
 */
export interface WireHead {
  source: string;
  destination: string;
  messageId: string;
  timestamp: string;
  attempt: number;
}

/**
 * The result of the checks.
 *
 * ```ts
 * const verdict: Verdict = verifyRequest(arrived, verifier);
 * console.log(verdict.ok ? verdict.envelope.endpoint : verdict.error);
 * ```
 */
export type Verdict =
  /** Handle the message, and answer with a receipt. */
  | { ok: true; status: 200; head: WireHead; envelope: Envelope }
  /** Answer with this status, and with a receipt if `head` is there. */
  | { ok: false; status: number; error: string; head?: WireHead };

const SERVICE = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const TIME = /^(0|-?[1-9][0-9]*)$/;
const VISIBLE = /^[\t\x20-\x7e]*$/;
const GRAMMAR: Readonly<Record<string, RegExp>> = {
  "rf-version": /^2$/,
  "rf-source": SERVICE,
  "rf-destination": SERVICE,
  "rf-message-id": /^(?!0{8}-0{4}-0{4}-0{4}-0{12}$)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  "rf-enqueued-at": TIME,
  "rf-attempt": /^(0|[1-9][0-9]*)$/,
  "rf-timestamp": TIME,
  "rf-content-sha256": /^[0-9a-f]{64}$/,
  "content-type": VISIBLE,
  "rf-signature": VISIBLE,
};
const TOLERANCE = 300_000_000n;
const WINDOW_SECONDS = 29 * 86_400;
const REFUSED: Verdict = { ok: false, status: 401, error: "the request is not signed as it must be" };

/**
 * Checks a request as a receiver must: who signed it, for whom, when, and whether it is an envelope. Limits, duplicates
 * and handlers are yours. Set `Retry-After` and `rf-inbox-retention` before you make the receipt.
 *
 * ```ts
 * const verdict = verifyRequest(arrived, { name: "inventory", sources: { orders: { keys: [key] } } });
 * if (verdict.ok) await handle(verdict.envelope);
 * ```
 */
export function verifyRequest(request: ArrivedRequest, verifier: Verifier): Verdict {
  const { method, path, body } = request;
  if (method !== "POST") return { ok: false, status: 405, error: "only POST is allowed" };
  if (!request.headers.some(([name]) => name === "rf-signature")) return REFUSED;
  const headers = wellFormed(request.headers);
  if (headers === undefined)
    return { ok: false, status: 400, error: "a header is missing, is there twice, or is malformed" };
  const header = (name: string): string => headers.get(name) ?? "";
  const now = verifier.now ?? microsNow();
  const [source, enqueued, signed] = [
    header("rf-source"),
    BigInt(header("rf-enqueued-at")),
    BigInt(header("rf-timestamp")),
  ];
  const due = headers.has("rf-due-at") ? BigInt(header("rf-due-at")) : enqueued;
  const known = Object.hasOwn(verifier.sources, source) ? verifier.sources[source] : undefined;
  const pieces = requestPieces(header, method, path, Buffer.from(header("rf-content-sha256"), "hex"));
  const isGenuine = verifies(header("rf-signature"), known?.keys ?? [], "request", pieces, Number(now / 1000n));
  const isOurs = header("rf-destination") === service("name", verifier.name);
  const isTimely = absolute(signed - now) <= TOLERANCE && enqueued <= signed + TOLERANCE;
  const isWhole = sha256(body).toString("hex") === header("rf-content-sha256");
  if (known === undefined || !isGenuine || !isOurs || !isTimely || !isWhole) return REFUSED;
  const head: WireHead = {
    source,
    destination: verifier.name,
    messageId: header("rf-message-id"),
    timestamp: header("rf-timestamp"),
    attempt: Number(header("rf-attempt")),
  };
  const envelope = parseEnvelope(utf8(body));
  if (envelope === undefined) return { ok: false, status: 400, error: "the body is not an envelope", head };
  if (envelope.messageId !== head.messageId || envelope.sourceServiceId !== source) return REFUSED;
  if (!isMessage(envelope))
    return { ok: false, status: 400, error: "a header, the correlation id or the payload is wrong", head };
  const window = BigInt(verifier.windowSeconds ?? WINDOW_SECONDS) * 1_000_000n;
  if ((due > enqueued ? due : enqueued) < now - window)
    return { ok: false, status: 410, error: "the message is too old", head };
  if (!maySend(known, envelope)) return { ok: false, status: 403, error: "the source may not send this", head };
  return { ok: true, status: 200, head, envelope };
}

/** The headers, if each is there once and well-formed. */
function wellFormed(pairs: ArrivedRequest["headers"]): Map<string, string> | undefined {
  const optional = pairs.some(([name]) => name === "rf-due-at") ? { "rf-due-at": TIME } : {};
  const found = new Map<string, string>();
  for (const [name, form] of Object.entries({ ...GRAMMAR, ...optional })) {
    const values = pairs.filter((pair) => pair[0] === name);
    const value = values[0]?.[1];
    if (values.length !== 1 || value === undefined || !form.test(value)) return undefined;
    if (form === TIME && !isTime(value)) return undefined;
    found.set(name, value);
  }
  return BigInt(found.get("rf-attempt") ?? 0) < 2n ** 32n ? found : undefined;
}

function isTime(value: string): boolean {
  return value.length <= 20 && BigInt.asIntN(64, BigInt(value)) === BigInt(value);
}

/** A response has the topic of the receiver's own request. */
function maySend(source: WireSource, { messageType, endpoint }: Envelope): boolean {
  if (source.topics === undefined || messageType === "Response") return true;
  return source.topics.some((topic) =>
    topic.endsWith("*") ? endpoint.startsWith(topic.slice(0, -1)) : endpoint === topic,
  );
}

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}

/** What is no UTF-8 becomes something that is no envelope. */
function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return "";
  }
}
