import { createHmac, timingSafeEqual } from "node:crypto";
import { inspect } from "node:util";

import { InvalidError } from "../errors.js";

const KEY_BYTES_MIN = 24;

/** The keys of webhook secrets. They cannot be read or printed. */
export class WebhookKeys {
  readonly #keys: Buffer[];

  /** Takes secrets in the form `whsec_` and base64 of at least 24 bytes. */
  constructor(secrets: readonly string[]) {
    if (secrets.length === 0) throw new InvalidError("a receiver needs at least one secret");
    this.#keys = secrets.map(decoded);
  }

  /** Whether one of the signatures was made with one of the keys. It compares in constant time. */
  verify(id: string, timestamp: string, body: Uint8Array, signatures: string): boolean {
    const given = signatures
      .split(" ")
      .filter((one) => one.startsWith("v1,"))
      .map((one) => Buffer.from(one.slice(3), "latin1"));
    let isGenuine = false;
    for (const key of this.#keys) {
      const made = Buffer.from(mac(key, id, timestamp, body), "latin1");
      for (const one of given) if (one.length === made.length && timingSafeEqual(one, made)) isGenuine = true;
    }
    return isGenuine;
  }

  /** The value of `webhook-signature`. */
  sign(id: string, timestamp: string, body: Uint8Array): string {
    return this.#keys.map((key) => `v1,${mac(key, id, timestamp, body)}`).join(" ");
  }

  [inspect.custom](): string {
    return `WebhookKeys(${this.#keys.length})`;
  }
}

function mac(key: Buffer, id: string, timestamp: string, body: Uint8Array): string {
  return createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
}

function decoded(secret: unknown): Buffer {
  const text = typeof secret === "string" ? secret.trim().replace(/^whsec_/, "") : "";
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  const key = Buffer.from(isBase64 ? text : "", "base64");
  if (key.length < KEY_BYTES_MIN) {
    throw new InvalidError(`a secret must be whsec_ and base64 of at least ${KEY_BYTES_MIN} bytes`, {
      advice: 'echo "whsec_$(head -c 32 /dev/urandom | base64)"',
    });
  }
  return key;
}
