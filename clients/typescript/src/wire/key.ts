import { createHmac, timingSafeEqual } from "node:crypto";
import { inspect } from "node:util";

import { InvalidError } from "../errors.js";

/**
 * The algorithm of a key. Both sides agree on it; no message ever names it.
 *
 * ```ts
 * const algorithm: HmacAlgorithm = "HMAC-SHA512";
 * ```
 */
export type HmacAlgorithm = "HMAC-SHA256" | "HMAC-SHA512";

/**
 * What a key is made of.
 *
 * ```ts
 * const next = new Key({ kid: "2026-12", secret, notBefore: new Date("2026-12-01") });
 * ```
 */
export interface KeyFields {
  /** The id of the key: 1 to 64 of `A-Z a-z 0-9 . _ -`. It is public. */
  kid: string;
  /** The secret: `rfsec_` and URL-safe base64, `base64:` and base64, any other text, or bytes. At least 32 bytes. */
  secret: string | Uint8Array;
  /** `HMAC-SHA256` by default. */
  algorithm?: HmacAlgorithm;
  /** From when the key is valid. */
  notBefore?: Date;
  /** Until when the key is valid. */
  notAfter?: Date;
}

const SECRET_MIN = 32;
const HASHES = { "HMAC-SHA256": "sha256", "HMAC-SHA512": "sha512" } as const;

/**
 * A secret that two services share, with its id. It cannot be read or printed.
 *
 * ```ts
 * const key = new Key({ kid: "2026-11", secret: (await readFile("/run/secrets/shop", "utf8")).trim() });
 * ```
 */
export class Key {
  readonly kid: string;
  readonly algorithm: HmacAlgorithm;
  readonly #secret: Buffer;
  readonly #from: number;
  readonly #until: number;

  constructor(fields: KeyFields) {
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(fields.kid)) throw new InvalidError("kid must be 1 to 64 of A-Z a-z 0-9 . _ -");
    this.kid = fields.kid;
    this.algorithm = fields.algorithm ?? "HMAC-SHA256";
    if (!(this.algorithm in HASHES)) throw new InvalidError("algorithm must be HMAC-SHA256 or HMAC-SHA512");
    this.#secret = secretBytes(fields.secret);
    this.#from = fields.notBefore?.getTime() ?? -Infinity;
    this.#until = fields.notAfter?.getTime() ?? Infinity;
  }

  /** Whether it is valid at this time, in milliseconds. */
  isValid(now = Date.now()): boolean {
    return this.#from <= now && now < this.#until;
  }

  /** The signature of these pieces; the id of the key becomes the third one. */
  sign(purpose: "request" | "receipt", pieces: readonly (string | Uint8Array)[]): string {
    const derived = this.mac(`postroom v2 ${purpose}`);
    const [first = "", second = "", ...rest] = pieces;
    const made = hmac(this.algorithm, derived, encode([first, second, this.kid, ...rest]));
    return `v2;kid=${this.kid};${made.toString("base64url")}`;
  }

  /** The MAC of a text by the secret itself. */
  mac(data: string | Uint8Array): Buffer {
    return hmac(this.algorithm, this.#secret, data);
  }

  [inspect.custom](): string {
    return `Key(${this.kid}, ${this.algorithm})`;
  }
}

/** Whether two texts are the same, in a time that does not depend on where they differ. */
export function sameText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Whether one of the first eight signatures of a header is by one of the keys. */
export function verifies(
  header: string,
  keys: readonly Key[],
  purpose: "request" | "receipt",
  pieces: readonly (string | Uint8Array)[],
  now?: number,
): boolean {
  // To compare the text is as strict as to decode it: every MAC has one text only.
  const items = header
    .split(",")
    .slice(0, 8)
    .map((item) => item.replace(/^[ \t]+|[ \t]+$/g, ""));
  let isGenuine = false;
  for (const key of keys.filter((one) => one.isValid(now))) {
    const made = key.sign(purpose, pieces);
    for (const item of items) if (sameText(item, made)) isGenuine = true;
  }
  return isGenuine;
}

function hmac(algorithm: HmacAlgorithm, key: Uint8Array, data: string | Uint8Array): Buffer {
  return createHmac(HASHES[algorithm], key).update(data).digest();
}

/** The number of pieces, then each piece with its length before it; 64 bits, little-endian. */
function encode(pieces: readonly (string | Uint8Array)[]): Buffer {
  const parts = [count(pieces.length)];
  for (const piece of pieces) {
    const bytes = typeof piece === "string" ? Buffer.from(piece, "utf8") : piece;
    parts.push(count(bytes.byteLength), Buffer.from(bytes));
  }
  return Buffer.concat(parts);
}

function count(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function secretBytes(secret: string | Uint8Array): Buffer {
  const bytes = typeof secret === "string" ? decoded(secret) : Buffer.from(secret ?? []);
  if (bytes.length < SECRET_MIN) {
    throw new InvalidError(`a secret must have at least ${SECRET_MIN} bytes`, {
      advice: "head -c 32 /dev/urandom | base64",
    });
  }
  return bytes;
}

function decoded(secret: string): Buffer {
  const match = /^(rfsec_|base64:)(.*)$/s.exec(secret);
  if (match === null) return Buffer.from(secret, "utf8");
  const [, prefix, coded = ""] = match;
  const isUrl = prefix === "rfsec_";
  const grammar = isUrl ? /^[A-Za-z0-9_-]+={0,2}$/ : /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
  if (!grammar.test(coded))
    throw new InvalidError(`a secret that begins with ${prefix} must go on with ${isUrl ? "URL-safe " : ""}base64`);
  return Buffer.from(coded, isUrl ? "base64url" : "base64");
}
