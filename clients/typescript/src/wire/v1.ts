import { sameText, type Key } from "./key.js";
import { sha256 } from "./request.js";

/**
 * What a v1 signature covers. It does not cover the time, the receiver or the headers: use it only for old peers.
 *
 * ```ts
 * const fields: V1Fields = { messageId, sourceServiceId: "orders", endpoint: "OrderApproved", payload: text };
 * ```
 */
export interface V1Fields {
  messageId: string;
  sourceServiceId: string;
  endpoint: string;
  /** The payload as it is written in the envelope. */
  payload: string;
}

/**
 * The value of the envelope's header `rf-hmac`.
 *
 * ```ts
 * const fields = { messageId, sourceServiceId: "orders", endpoint: "OrderApproved", payload: text };
 * const header = { "rf-hmac": signV1(fields, key) };
 * ```
 */
export function signV1(fields: V1Fields, key: Key): string {
  const { messageId, sourceServiceId, endpoint, payload } = fields;
  return key.mac(messageId + sourceServiceId + endpoint + sha256(payload).toString("hex")).toString("base64");
}

/**
 * Whether a v1 signature is by this key.
 *
 * ```ts
 * const isGenuine = verifyV1(envelope.headers["rf-hmac"], envelope, key);
 * ```
 */
export function verifyV1(signature: string | undefined, fields: V1Fields, key: Key): boolean {
  return signature !== undefined && sameText(signature, signV1(fields, key));
}
