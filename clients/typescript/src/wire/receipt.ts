import { verifies, type Key } from "./key.js";
import { sha256 } from "./request.js";

/**
 * What a receipt is made over.
 *
 * ```ts
 * const answer: ReceiptFields = { ...head, status: 200, body: text, retention: "2505600" };
 * ```
 */
export interface ReceiptFields {
  /** `rf-destination`, `rf-message-id` and `rf-timestamp` of the request. */
  destination: string;
  messageId: string;
  timestamp: string;
  status: number | string;
  /** The body of the answer, as it is sent. */
  body: string | Uint8Array;
  /** The value of `Retry-After`, if the answer has it. */
  retryAfter?: string | undefined;
  /** The value of `rf-inbox-retention`, if the answer has it. */
  retention?: string | undefined;
}

/**
 * The value of `rf-ack`: one signature for each key that is valid now.
 *
 * ```ts
 * response.setHeader("rf-ack", makeReceipt({ ...head, status: 200, body: text }, [key]));
 * ```
 */
export function makeReceipt(fields: ReceiptFields, keys: readonly Key[]): string {
  return keys
    .filter((key) => key.isValid())
    .map((key) => key.sign("receipt", pieces(fields)))
    .join(",");
}

/**
 * Whether a receipt proves that the receiver itself gave this answer, to this message and this attempt. Give what you
 * sent and what came back.
 *
 * ```ts
 * const answer = { destination: "inventory", messageId, timestamp, status: 200, body: text };
 * const isGenuine = verifyReceipt(receipt, answer, [key]);
 * ```
 */
export function verifyReceipt(receipt: string | undefined, fields: ReceiptFields, keys: readonly Key[]): boolean {
  return receipt !== undefined && verifies(receipt, keys, "receipt", pieces(fields));
}

function pieces(fields: ReceiptFields): (string | Uint8Array)[] {
  const { destination, messageId, timestamp, status, body, retryAfter, retention } = fields;
  const first = ["rf-ack-v2", "ack", destination, messageId, timestamp, String(status), sha256(body)];
  return retryAfter === undefined && retention === undefined ? first : [...first, retryAfter ?? "", retention ?? ""];
}
