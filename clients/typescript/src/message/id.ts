import { createHash, randomBytes } from "node:crypto";

import { InvalidError } from "../errors.js";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NIL = "00000000-0000-0000-0000-000000000000";

/**
 * A new message id. It sorts by the time it was made (UUIDv7).
 *
 * ```ts
 * const messageId = newMessageId();
 * await client.enqueue("order.placed", { order: 7 }, { messageId }); // safe to repeat
 * ```
 */
export function newMessageId(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return uuidOf(bytes);
}

/** The id in lower case, checked. */
export function messageId(id: unknown, what = "messageId"): string {
  const text = typeof id === "string" ? id.toLowerCase() : "";
  if (!UUID.test(text) || text === NIL) {
    throw new InvalidError(`${what} must be a UUID with hyphens, and not all zeros`);
  }
  return text;
}

/** The id of a message's row: derived from the destination, so that one message can go to several. */
export function rowId(message: string, destination: string | null): string {
  if (destination === null) return message;
  const id = bytesOf(message);
  const bytes = createHash("sha256").update(id).update(destination, "utf8").digest().subarray(0, 16);
  id.copy(bytes, 0, 0, 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return uuidOf(bytes);
}

/** The sixteen bytes of a UUID. */
export function bytesOf(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll("-", ""), "hex");
}

/** The UUID with these sixteen bytes. */
export function uuidOf(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
