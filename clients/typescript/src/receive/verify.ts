import { createHash } from "node:crypto";

import type { WebhookKeys } from "./secret.js";

/**
 * Reads one header by its name in lower case.
 *
 * ```ts
 * const header: HeaderOf = (name) => headers[name];
 * ```
 */
export type HeaderOf = (name: string) => string | undefined;

/**
 * Whether a request was signed with one of the keys, within the tolerance. The signature covers the id, the time and the
 * body. A message whose id cannot be signed is signed under the hash of its id.
 */
export function isSigned(
  keys: WebhookKeys,
  header: HeaderOf,
  body: Uint8Array,
  toleranceSeconds: number,
  now: number,
): boolean {
  const id = header("webhook-id") ?? "";
  const timestamp = header("webhook-timestamp") ?? "";
  const signatures = header("webhook-signature") ?? "";
  if (!/^[\x21-\x2d\x2f-\x7e]{1,255}$/.test(id) || !/^\d{1,15}$/.test(timestamp)) return false;
  if (Math.abs(now / 1000 - Number(timestamp)) > toleranceSeconds) return false;
  if (!keys.verify(id, timestamp, body, signatures)) return false;
  const named = header("postroom-message-id");
  return named === id || (named !== undefined && createHash("sha256").update(named, "utf8").digest("hex") === id);
}
