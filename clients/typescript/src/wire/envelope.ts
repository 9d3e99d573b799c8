import { InvalidError } from "../errors.js";
import { headers as checkedHeaders, kind as checkedKind, maybeName, service, type Kind } from "../message/check.js";
import { messageId as checkedId } from "../message/id.js";
import { payloadText } from "../message/payload.js";
import { members } from "./json.js";

/**
 * The kinds of message that travel between services.
 *
 * ```ts
 * const kind: WireKind = "Command";
 * ```
 */
export type WireKind = Exclude<Kind, "Event">;

/**
 * A message on its way from one service to another.
 *
 * ```ts
 * const { endpoint, payload }: Envelope = parseEnvelope(text)!;
 * ```
 */
export interface Envelope {
  messageId: string;
  sourceServiceId: string;
  messageType: WireKind;
  /** The topic, which selects the handler. */
  endpoint: string;
  correlationId: string | null;
  headers: Record<string, string>;
  /** The payload as it is written, byte for byte. */
  payload: string;
}

const FIELDS = ["messageId", "correlationId", "sourceServiceId", "messageType", "endpoint", "payload", "headers"];
const UUID = /^(?!0{8}-0{4}-0{4}-0{4}-0{12}$)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const SERVICE = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const ENDPOINT = /^[^\s\p{Cc}]{1,255}$/u;
/** Names of headers that belong to the protocol. */
const RESERVED = "rf-";

/**
 * The fields of a new envelope.
 *
 * ```ts
 * const fields: EnvelopeFields = { messageId, source: "orders", topic: "stock.reserve", payload: { order: 7 } };
 * ```
 */
export interface EnvelopeFields {
  messageId: string;
  source: string;
  topic: string;
  payload: unknown;
  kind?: WireKind | undefined;
  correlationId?: string | undefined;
  headers?: Record<string, string> | undefined;
}

/**
 * The body of a request.
 *
 * ```ts
 * const body = envelopeText({ messageId, source: "orders", topic: "stock.reserve", payload: { order: 7 } });
 * ```
 */
export function envelopeText(fields: EnvelopeFields): string {
  const kind = checkedKind(fields.kind ?? "Signal");
  if (kind === "Event")
    throw new InvalidError("an Event does not travel; kind must be Signal, Command, PushCall or Response");
  if (!ENDPOINT.test(fields.topic))
    throw new InvalidError("topic must be 1 to 255 characters without blanks and control characters");
  const head = JSON.stringify({
    messageId: checkedId(fields.messageId),
    correlationId: maybeName("correlationId", fields.correlationId) ?? undefined,
    sourceServiceId: service("source", fields.source),
    messageType: kind,
    endpoint: fields.topic,
    headers: checkedHeaders(fields.headers) ?? undefined,
  });
  return `${head.slice(0, -1)},"payload":${payloadJson(fields)}}`;
}

/** A payload that is not JSON travels as a string, and its content type says so. */
function payloadJson({ payload, headers }: EnvelopeFields): string {
  const text = payloadText(payload);
  return isJsonType(headers?.["content-type"]) ? text : JSON.stringify(text);
}

/**
 * Reads a body; `undefined` if it is no envelope. Headers of the protocol are kept here.
 *
 * ```ts
 * const envelope = parseEnvelope(text);
 * if (envelope !== undefined) console.log(envelope.endpoint);
 * ```
 */
export function parseEnvelope(body: string): Envelope | undefined {
  const found = members(body);
  if (found === undefined || found.some(({ name }) => !FIELDS.includes(name)) || hasTwins(found)) return undefined;
  const texts = new Map(found.map(({ name, text }) => [name, text]));
  const value = (name: string): unknown => JSON.parse(texts.get(name) ?? "null");
  const payload = texts.get("payload");
  const [id, source, type, endpoint, correlation] = [
    "messageId",
    "sourceServiceId",
    "messageType",
    "endpoint",
    "correlationId",
  ].map(value);
  const isFine =
    payload !== undefined &&
    typeof id === "string" &&
    UUID.test(id) &&
    typeof source === "string" &&
    SERVICE.test(source) &&
    typeof type === "string" &&
    ["Signal", "Command", "PushCall", "Response"].includes(type) &&
    typeof endpoint === "string" &&
    ENDPOINT.test(endpoint) &&
    endpoint.isWellFormed() &&
    (correlation === null || typeof correlation === "string");
  const headers = headersOf(texts.get("headers"));
  if (!isFine || headers === undefined) return undefined;
  return {
    messageId: id,
    sourceServiceId: source,
    messageType: type as WireKind,
    endpoint,
    headers,
    payload,
    correlationId: correlation === "" ? null : correlation,
  };
}

/** Whether headers, correlation id and payload follow the rules. */
export function isMessage(envelope: Envelope): boolean {
  const own = Object.entries(envelope.headers).filter(([name]) => !name.startsWith(RESERVED));
  try {
    maybeName("correlationId", envelope.correlationId);
    checkedHeaders(Object.fromEntries(own));
  } catch {
    return false;
  }
  return isJsonType(envelope.headers["content-type"]) || envelope.payload.startsWith('"');
}

function isJsonType(contentType = "application/json"): boolean {
  const type = (contentType.split(";")[0] ?? "").trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}

function headersOf(text: string | undefined): Record<string, string> | undefined {
  if (text === undefined) return {};
  const found = members(text);
  if (found === undefined || hasTwins(found) || !found.every((one) => one.text.startsWith('"'))) return undefined;
  return Object.fromEntries(found.map((one) => [one.name, JSON.parse(one.text) as string]));
}

function hasTwins(found: readonly { name: string }[]): boolean {
  return new Set(found.map(({ name }) => name)).size < found.length;
}
