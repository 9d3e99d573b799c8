import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test, type TestContext } from "node:test";
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";

import { InvalidError, newMessageId, RawPayload } from "postroom";
import {
  envelopeText,
  Key,
  makeReceipt,
  microsNow,
  parseEnvelope,
  signRequest,
  verifyReceipt,
  verifyRequest,
  WireClient,
  type ArrivedRequest,
  type Verdict,
} from "postroom/wire";

import { atEnd } from "./support/cleanup.js";
import { closed } from "./support/server.js";

const SECRET = "an example secret, long enough to be one";
const key = new Key({ kid: "2026-11", secret: SECRET });
const id = newMessageId();

function request(overrides: { body?: string; path?: string; keys?: Key[]; enqueuedAt?: bigint } = {}): ArrivedRequest {
  const body =
    overrides.body ??
    envelopeText({ messageId: id, source: "orders", topic: "a", payload: { order: 7 }, kind: "Command" });
  const { path = "/_rf/receive", keys = [key], enqueuedAt = microsNow() } = overrides;
  const headers = signRequest(
    {
      source: "orders",
      destination: "inventory",
      path,
      messageId: id,
      enqueuedAt,
      attempt: 1,
      timestamp: microsNow(),
      body,
    },
    keys,
  );
  return { method: "POST", path, headers: Object.entries(headers), body: Buffer.from(body) };
}

function verdict(arrived: ArrivedRequest, keys = [key]): Verdict {
  return verifyRequest(arrived, { name: "inventory", sources: { orders: { keys } } });
}

/** A receiver that answers as `answer` says. */
async function receiver(
  t: TestContext,
  answer: (verdict: Verdict) => {
    status: number;
    body: string | Buffer;
    receipt?: string;
    headers?: Record<string, string>;
  },
): Promise<string> {
  const server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
        values.map((value) => [name, value] as const),
      );
      const {
        status,
        body,
        receipt,
        headers: more,
      } = answer(
        verdict({
          method: incoming.method ?? "",
          path: incoming.url ?? "",
          headers,
          body: Buffer.concat(parts),
        }),
      );
      response.writeHead(status, { ...more, ...(receipt === undefined ? {} : { "rf-ack": receipt }) }).end(body);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  atEnd(t, () => server.closeAllConnections());
  atEnd(t, () => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function client(url: string): WireClient {
  return new WireClient({ url, source: "orders", destination: "inventory", keys: [key] });
}

describe("keys", () => {
  test("the three forms of a secret", () => {
    const bytes = Buffer.alloc(32, 7);
    const forms = [
      bytes,
      `base64:${bytes.toString("base64")}`,
      `rfsec_${bytes.toString("base64url")}`,
      bytes.toString("latin1"),
    ];
    const signatures = forms.map((secret) => new Key({ kid: "k", secret }).sign("request", ["a", "b"]));
    assert.equal(new Set(signatures).size, 1);
  });

  test("a short or malformed secret is refused and not quoted", () => {
    for (const secret of [
      "short-secret",
      "base64:c2hvcnQ=",
      "rfsec_!!!!not base64 at all, but long enough",
      "base64:AAAA",
    ]) {
      assert.throws(
        () => new Key({ kid: "k", secret }),
        (error: Error) => error instanceof InvalidError && !inspect(error).includes(secret),
      );
    }
    assert.throws(() => new Key({ kid: "a b", secret: SECRET }), /kid must be/);
  });

  test("a key prints its id and not its secret", () => {
    assert.equal(inspect({ key }), "{ key: Key(2026-11, HMAC-SHA256) }");
    assert.ok(!JSON.stringify(key).includes(SECRET));
  });

  test("a key signs and verifies only while it is valid", () => {
    const old = new Key({ kid: "2026-11", secret: SECRET, notAfter: new Date(0) });
    assert.throws(() => request({ keys: [old] }), /no key is valid now/);
    assert.equal(verdict(request(), [old]).status, 401);
    assert.equal(verdict(request({ keys: [old, new Key({ kid: "2026-12", secret: `${SECRET}2` }), key] })).status, 200);
  });
});

describe("requests", () => {
  test("the payload keeps its bytes", () => {
    const text = '{ "total": 12345678901234567890,\n "a": [1, "}]\\"", {}] }';
    const found = parseEnvelope(
      envelopeText({ messageId: id, source: "orders", topic: "a", payload: new RawPayload(text) }),
    );
    assert.equal(found?.payload, text);
    const result = verdict(
      request({ body: envelopeText({ messageId: id, source: "orders", topic: "a", payload: new RawPayload(text) }) }),
    );
    assert.ok(result.ok && result.envelope.payload === text);
  });

  test("a payload that is no JSON travels as a string", () => {
    const body = envelopeText({
      messageId: id,
      source: "orders",
      topic: "a",
      payload: new RawPayload("^XA"),
      headers: { "content-type": "text/plain" },
    });
    const result = verdict(request({ body }));
    assert.ok(result.ok);
    assert.deepEqual([result.envelope.payload, result.envelope.headers], ['"^XA"', { "content-type": "text/plain" }]);
  });

  test("wrong arguments are refused with what is allowed", () => {
    const fields = { messageId: id, source: "orders", topic: "a", payload: 1 };
    assert.throws(() => envelopeText({ ...fields, source: "Orders" }), /source must be 1 to 64 of a-z/);
    assert.throws(() => envelopeText({ ...fields, topic: "a b" }), /topic must be 1 to 255/);
    assert.throws(() => envelopeText({ ...fields, messageId: "7" }), /messageId must be a UUID/);
    assert.throws(() => request({ enqueuedAt: 2n ** 63n }), /enqueuedAt must be microseconds/);
  });

  test("bodies that are no envelope", () => {
    const good = `{"messageId":"${id}","sourceServiceId":"orders","messageType":"Signal","endpoint":"a","payload":1}`;
    assert.ok(parseEnvelope(good));
    for (const bad of [
      "",
      "[]",
      "null",
      "{",
      good.replace("}", ',"endpoint":"a"}'),
      good.replace("}", ',"more":1}'),
      good.replace("}", ',"headers":{"a":"b","a":"b"}}'),
      good.replace("}", ',"headers":[]}'),
      good.replace('"a"', '"\\ud800"'),
    ]) {
      assert.equal(parseEnvelope(bad), undefined, bad);
    }
  });
});

describe("a client of the wire", () => {
  const done = '{"acknowledged":true,"duplicateDetected":false,"payload":{"shelf":7}}';
  const receipt = (told: Verdict, status: number, body: string, more: object = {}): string => {
    assert.ok(told.head);
    return makeReceipt({ ...told.head, status, body, ...more }, [key]);
  };

  test("an answer with a receipt counts", async (t) => {
    const url = await receiver(t, (told) => ({ status: 200, body: done, receipt: receipt(told, 200, done) }));
    const sent = await client(url).send("stock.reserve", { order: 7 }, { kind: "Command", correlationId: "order-7" });
    assert.deepEqual([sent.outcome, sent.hasReceipt, sent.answer], ["done", true, { shelf: 7 }]);
    assert.ok(
      !verifyReceipt(undefined, { destination: "a", messageId: id, timestamp: "1", status: 200, body: "" }, [key]),
    );
  });

  test("an answer without one never counts, whatever it says", async (t) => {
    const other = new Key({ kid: "2026-11", secret: `${SECRET} of somebody else` });
    for (const receipt of [undefined, "", "v2;kid=2026-11;", other.sign("receipt", ["rf-ack-v2", "ack"])]) {
      for (const status of [200, 422, 500]) {
        const url = await receiver(t, () => ({ status, body: done, ...(receipt === undefined ? {} : { receipt }) }));
        const sent = await client(url).send("a", 1);
        assert.deepEqual([sent.outcome, sent.hasReceipt, sent.answer], ["unavailable", false, null]);
      }
    }
  });

  test("each status with a receipt", async (t) => {
    const outcomes = {
      200: "done",
      400: "dead",
      403: "wait",
      404: "wait",
      409: "wait",
      410: "dead",
      422: "dead",
      500: "retry",
      503: "wait",
    };
    for (const [status, outcome] of Object.entries(outcomes)) {
      const body = status === "200" ? done : '{"acknowledged":false,"error":"no"}';
      const headers = { "retry-after": "7", "rf-inbox-retention": "2505600" };
      const more = { retryAfter: "7", retention: "2505600" };
      const url = await receiver(t, (told) => ({
        status: Number(status),
        body,
        headers,
        receipt: receipt(told, Number(status), body, more),
      }));
      const sent = await client(url).send("a", 1);
      assert.deepEqual([sent.outcome, sent.hasReceipt, sent.retryAfter], [outcome, true, 7], status);
    }
  });

  test("it neither follows redirects nor decompresses", async (t) => {
    const url = await receiver(t, (told) => {
      const body = gzipSync(done);
      assert.ok(told.head);
      return {
        status: 200,
        body,
        headers: { "content-encoding": "gzip" },
        receipt: makeReceipt({ ...told.head, status: 200, body }, [key]),
      };
    });
    const sent = await client(url).send("a", 1);
    assert.deepEqual(
      [sent.hasReceipt, sent.outcome],
      [true, "unavailable"],
      "the bytes are proven, and they are no JSON",
    );
    const redirecting = await receiver(t, () => ({ status: 307, body: "", headers: { location: url } }));
    assert.deepEqual((await client(redirecting).send("a", 1)).status, 307);
  });

  test("an answer that is too long is none", async (t) => {
    const url = await receiver(t, () => ({ status: 200, body: Buffer.alloc(5 * 1024 * 1024) }));
    const sent = await client(url).send("a", 1);
    assert.deepEqual([sent.outcome, sent.status], ["unavailable", null]);
  });

  test("nobody listens, or nobody answers in time", async (t) => {
    const nobody = await client(await closed()).send("a", 1);
    assert.deepEqual([nobody.outcome, nobody.status, nobody.error], ["unavailable", null, "no answer: ECONNREFUSED"]);
    const silent = createServer(() => undefined).listen(0, "127.0.0.1");
    atEnd(t, () => silent.closeAllConnections());
    atEnd(t, () => silent.close());
    await new Promise((up) => silent.once("listening", up));
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const patient = new WireClient({ url, source: "orders", destination: "inventory", keys: [key], timeoutMs: 50 });
    assert.equal((await patient.send("a", 1)).error, "no answer in time");
    await assert.rejects(patient.send("a", 1, { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
  });

  test("it refuses what is not safe, and prints no key", () => {
    assert.throws(() => client("http://inventory.example.com"), /anyone on the way can read/);
    assert.throws(
      () => client("https://me:hunter2@inventory.example.com"),
      (error: Error) => !inspect(error).includes("hunter2"),
    );
    assert.equal(
      inspect(client("https://inventory.example.com")),
      "WireClient(orders to inventory at https://inventory.example.com)",
    );
  });
});
