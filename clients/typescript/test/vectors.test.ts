// Postroom's own vectors: what is signed, and what a receiver and a sender must make of what arrives.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import {
  Key,
  makeReceipt,
  signRequest,
  signV1,
  verifyReceipt,
  verifyRequest,
  verifyV1,
  type KeyFields,
} from "postroom/wire";

const FOLDER = process.env["POSTROOM_VECTORS"] ?? "../../crates/postroom-services/vectors";
type Vector = Record<string, string> & {
  headers: [string, string][];
  topics?: string[];
  receipt: unknown;
  genuine: unknown;
};

function vectors(file: string): Vector[] {
  return readFileSync(join(FOLDER, file), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Vector);
}

function keyOf(vector: Vector): Key {
  const { kid = "", secret = "", algorithm } = vector;
  return new Key({
    kid,
    secret,
    ...(algorithm === undefined ? {} : { algorithm: algorithm as NonNullable<KeyFields["algorithm"]> }),
  });
}

function signed(vector: Vector): string | undefined {
  const key = keyOf(vector);
  if (vector["what"] === "v1") return signV1(vector as never, key);
  if (vector["what"] === "receipt") return makeReceipt(vector as never, [key]);
  const due = vector["dueAt"] === "" ? undefined : BigInt(vector["dueAt"]!);
  return signRequest(
    {
      ...(vector as unknown as {
        source: string;
        destination: string;
        path: string;
        messageId: string;
        body: string;
        method: string;
        contentType: string;
      }),
      enqueuedAt: BigInt(vector["enqueuedAt"]!),
      dueAt: due,
      attempt: Number(vector["attempt"]),
      timestamp: BigInt(vector["timestamp"]!),
    },
    [key],
  )["rf-signature"];
}

function judged(vector: Vector): unknown {
  const key = keyOf(vector);
  if (vector["what"] === "v1") return verifyV1(vector["signature"], vector as never, key);
  if (vector["what"] === "receipt") return verifyReceipt(vector["signature"], vector as never, [key]);
  const { method = "", path = "", body = "", receiver = "", knows = "", topics, now = "" } = vector;
  const verdict = verifyRequest(
    { method, path, headers: vector.headers, body: Buffer.from(body) },
    {
      name: receiver,
      now: BigInt(now),
      sources: { [knows]: { keys: [key], ...(topics === undefined ? {} : { topics }) } },
    },
  );
  return [String(verdict.status), verdict.head !== undefined];
}

describe("the vectors of the wire", () => {
  test("every signature is the expected one", () => {
    const all = vectors("signatures.jsonl");
    assert.ok(all.length >= 11);
    for (const vector of all) assert.equal(signed(vector), vector["signature"]);
  });

  test("every verdict is the expected one", () => {
    const all = vectors("verdicts.jsonl");
    assert.ok(all.length >= 176);
    for (const vector of all) {
      const expected = vector["what"] === "request" ? [vector["answer"], vector.receipt] : vector.genuine;
      assert.deepEqual(judged(vector), expected, `${vector["what"]}: ${vector["case"]}`);
    }
  });
});
