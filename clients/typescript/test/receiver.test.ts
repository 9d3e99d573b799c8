// The receiver, with requests as a node makes them.
import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { describe, test, type TestContext } from "node:test";
import { inspect } from "node:util";

import express from "express";
import {
  fetchHandler,
  InvalidError,
  Message,
  newMessageId,
  nodeListener,
  RawPayload,
  Receiver,
  Retry,
  Terminal,
} from "postroom";
import { expressHandler } from "postroom/express";
import { pushRequest } from "postroom/testing";

import { atEnd } from "./support/cleanup.js";

const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const other = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
const push = (more: object = {}) => pushRequest({ secret, topic: "order.placed", payload: { order: 7 }, ...more });
const receiver = (options: object = {}) => new Receiver({ secrets: [secret], onError: () => undefined, ...options });

/** A request with some of its headers replaced. */
function changed(request: Request, headers: Record<string, string>, body?: string): Request {
  const all = new Headers(request.headers);
  for (const [name, value] of Object.entries(headers)) value === "" ? all.delete(name) : all.set(name, value);
  return new Request(request.url, { method: "POST", headers: all, body: body ?? JSON.stringify({ order: 7 }) });
}

async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  atEnd(t, () => server.close());
  atEnd(t, () => server.closeAllConnections());
  await new Promise((up) => server.once("listening", up));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/messages`;
}

describe("who may send", () => {
  const handle = fetchHandler(receiver().handle("*", () => "yes"));
  const statusOf = async (request: Request): Promise<number> => (await handle(request)).status;

  test("a signature by the secret, and nothing else", async () => {
    assert.equal(await statusOf(push()), 200);
    assert.equal(await statusOf(push({ secret: other })), 401);
    for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"])
      assert.equal(await statusOf(changed(push(), { [name]: "" })), 401, name);
    assert.equal(await statusOf(changed(push(), {}, '{"order":8}')), 401);
    assert.equal(await statusOf(changed(push(), { "webhook-id": newMessageId() })), 401);
    assert.equal(
      await statusOf(changed(push(), { "postroom-message-id": newMessageId() })),
      401,
      "another id than the signed one",
    );
    const signature = push().headers.get("webhook-signature") ?? "";
    for (const wrong of [
      signature.slice(3),
      `v2,${signature.slice(3)}`,
      signature.slice(0, -1),
      `${signature}=`,
      "v1,",
      "v1",
      signature.replaceAll("=", ""),
    ]) {
      assert.equal(await statusOf(changed(push(), { "webhook-signature": wrong })), 401, wrong);
    }
  });

  test("one of several signatures, and one of several secrets", async () => {
    const signed = push();
    const signature = signed.headers.get("webhook-signature") ?? "";
    assert.equal(await statusOf(changed(signed, { "webhook-signature": `v1a,abc v1,AAAA ${signature}` })), 200);
    const rotating = fetchHandler(receiver({ secrets: [other, secret] }).handle("*", () => undefined));
    assert.deepEqual([(await rotating(push())).status, (await rotating(push({ secret: other }))).status], [204, 204]);
  });

  test("not too long ago, and not ahead", async () => {
    const at = (seconds: number) => new Date(Date.now() + seconds * 1000);
    assert.equal(await statusOf(push({ at: at(-290) })), 200);
    assert.equal(await statusOf(push({ at: at(290) })), 200);
    assert.equal(await statusOf(push({ at: at(-310) })), 401);
    assert.equal(await statusOf(push({ at: at(310) })), 401);
    const strict = fetchHandler(receiver({ tolerance: 10 }).handle("*", () => 1));
    assert.equal((await strict(push({ at: at(-20) }))).status, 401);
    for (const time of ["-1", "1e9", "0x10", " 1", "99999999999999999"])
      assert.equal(await statusOf(changed(push(), { "webhook-timestamp": time })), 401, time);
  });

  test("an id that cannot be signed is signed under its hash", async () => {
    const { createHash } = await import("node:crypto");
    const hashed = createHash("sha256").update("order 7.1").digest("hex");
    const request = changed(push({ messageId: hashed }), { "postroom-message-id": "order 7.1" });
    let id = "";
    const handle = fetchHandler(receiver().handle("*", (message) => void (id = message.id)));
    assert.deepEqual([(await handle(request)).status, id], [204, "order 7.1"]);
  });

  test("a receiver without secrets must be told so", async () => {
    assert.throws(
      () => new Receiver({}),
      (error) => error instanceof InvalidError && /anyone could send it messages/.test(error.message),
    );
    assert.throws(() => new Receiver({ secrets: [] }), /at least one secret/);
    for (const wrong of ["", "whsec_", "whsec_dG9vIHNob3J0", "whsec_not base64 at all, but long enough!!", 7]) {
      assert.throws(
        () => new Receiver({ secrets: [wrong as string] }),
        (error) => error instanceof InvalidError && !String(error).includes("not base64 at"),
      );
    }
    const open = fetchHandler(new Receiver({ allowUnsigned: true }).handle("*", () => 1));
    assert.equal((await open(changed(push(), { "webhook-signature": "" }))).status, 200);
    assert.ok(!inspect(receiver(), { showHidden: true, depth: 9 }).includes(secret.slice(6)));
  });
});

describe("what becomes of a message", () => {
  test("each outcome is the answer that a node expects", async () => {
    const handle = fetchHandler(
      receiver()
        .handle("answer", () => ({ reserved: true }))
        .handle("nothing", async () => undefined)
        .handle("null", () => null)
        .handle("later", () => {
          throw new Retry({ after: "5m", why: "busy" });
        })
        .handle("soon", () => {
          throw new Retry();
        })
        .handle("never", () => {
          throw new Terminal("an order needs items");
        })
        .handle("broken", () => {
          throw new TypeError("x is not a function");
        })
        .handle("long", () => "x".repeat(65_536)),
    );
    const told = async (topic: string): Promise<unknown[]> => {
      const response = await handle(push({ topic }));
      return [response.status, await response.text(), response.headers.get("retry-after")];
    };
    assert.deepEqual(await told("answer"), [200, '{"reserved":true}', null]);
    assert.deepEqual(await told("nothing"), [204, "", null]);
    assert.deepEqual(await told("null"), [200, "null", null]);
    assert.deepEqual(await told("later"), [500, "busy", "300"]);
    assert.deepEqual(await told("soon"), [500, "the handler asked for a retry", null]);
    assert.deepEqual(await told("never"), [422, "an order needs items", null]);
    assert.deepEqual(await told("broken"), [500, "TypeError: x is not a function", null]);
    assert.deepEqual(await told("long"), [422, "the answer has 65538 bytes; at most 65536 are allowed", null]);
    assert.deepEqual(await told("unknown"), [404, "no handler for this topic", null]);
    assert.equal((await handle(new Request("http://127.0.0.1/", { method: "GET" }))).status, 405);
    assert.equal((await handle(changed(push(), { "postroom-topic": "" }))).status, 404);
  });

  test("what a handler gets", async () => {
    const got: Message[] = [];
    const handle = fetchHandler(receiver().handle("*", (message) => void got.push(message)));
    await handle(push({ topic: "größe", attempt: 3, source: "shop", correlationId: "größe-7", lane: "l" }).clone());
    await handle(push({ payload: new RawPayload("^XA") }));
    const [first, second] = got;
    assert.deepEqual(
      [first?.payload, first?.attempt, first?.source, first?.correlationId, first?.lane, first?.isJson],
      [{ order: 7 }, 3, "shop", "größe-7", "l", true],
    );
    assert.deepEqual([second?.payload, second?.isJson], ["^XA", false]);
  });

  test("what it logs by itself quotes no payload", async (t) => {
    const lines: string[] = [];
    t.mock.method(console, "error", (...words: unknown[]) => lines.push(words.join(" ")));
    await fetchHandler(
      new Receiver({ secrets: [secret] }).handle("*", () => {
        throw new Error("bad card 4111");
      }),
    )(push());
    assert.match(lines.join("\n"), /^postroom receiver: order.placed [0-9a-f-]{36} failed at attempt 1: Error$/);
  });
});

describe("servers", () => {
  const small = () =>
    receiver({ bodyMax: 1000 }).handle<{ order: number }>("order.placed", ({ payload }) => payload.order);
  const tooLong = () => push({ payload: "x".repeat(2000) });

  for (const [name, listener] of [
    ["node:http", () => nodeListener(small())],
    ["Express", () => express().post("/messages", expressHandler(small())).use(express.json()) as RequestListener],
    [
      "Express, with the bytes",
      () =>
        express()
          .use(express.raw({ type: () => true }))
          .post("/messages", expressHandler(small())) as RequestListener,
    ],
  ] as const) {
    test(name, async (t) => {
      const url = await listen(t, listener());
      const answer = await fetch(push({ url }));
      assert.deepEqual(
        [answer.status, await answer.text(), answer.headers.get("content-type")],
        [200, "7", "application/json"],
      );
      assert.equal((await fetch(push({ url, secret: other }))).status, 401);
      const long = tooLong();
      assert.equal((await fetch(url, { method: "POST", headers: long.headers, body: await long.text() })).status, 413);
    });
  }

  test("a body that is too long without saying so is not read to its end", async (t) => {
    const url = new URL(await listen(t, nodeListener(small())));
    const socket = connect(Number(url.port), url.hostname);
    atEnd(t, () => socket.destroy());
    socket.write(
      `POST / HTTP/1.1\r\nhost: ${url.host}\r\ntransfer-encoding: chunked\r\n\r\n800\r\n${"x".repeat(2048)}\r\n`,
    );
    const answer = await new Promise<string>((said) => socket.once("data", (data) => said(data.toString())));
    assert.match(answer, /^HTTP\/1.1 413 /);
    const fetched = await fetchHandler(small())(new Request("http://a/", { method: "POST", body: "x".repeat(2000) }));
    assert.equal(fetched.status, 413);
  });

  test("a body that somebody else has read is a mistake that is told", async (t) => {
    const app = express().use(express.json()).post("/messages", expressHandler(small()));
    app.use(
      ((error, _request, response, _next) =>
        void response.status(500).end(String(error))) as express.ErrorRequestHandler,
    );
    const answer = await fetch(push({ url: await listen(t, app as RequestListener) }));
    assert.match(await answer.text(), /add the receiver before express.json\(\)/);
  });

  test("a node that no longer waits aborts the handler", async (t) => {
    let aborted: (reason: unknown) => void;
    const reason = new Promise((told) => (aborted = told));
    const begun = new AbortController();
    const url = await listen(
      t,
      nodeListener(
        receiver().handle(
          "*",
          (_, { signal }) =>
            new Promise(() => {
              signal.addEventListener("abort", () => aborted(signal.reason));
              begun.abort();
            }),
        ),
      ),
    );
    await assert.rejects(fetch(new Request(push({ url }), { signal: begun.signal })));
    assert.match(String(await reason), /no longer waits/);
  });
});
