// The client against a server that misbehaves as the test says.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";

import {
  Client,
  ConflictError,
  InvalidError,
  KeyTakenError,
  newMessageId,
  NodeError,
  NotAllowedError,
  NotFoundError,
  PostroomError,
  RawPayload,
  TimeoutError,
  UnavailableError,
} from "postroom";

import { closed, scripted } from "./support/server.js";

const token = "hunter2-hunter2";
const id = newMessageId();

function status(state: string, more: object = {}): object {
  return {
    messages: [
      {
        topic: "a",
        kind: "Event",
        destination: null,
        state,
        attempts: 0,
        hasAnswer: false,
        answer: null,
        lastError: null,
        ...more,
      },
    ],
  };
}

describe("enqueue", () => {
  test("the whole message", async (t) => {
    const { url, got } = await scripted(t, (one) =>
      one.answer(201, { messageId: one.body.messageId, duplicate: false }),
    );
    const client = new Client({ url, token });
    const dueAt = new Date("2100-01-01T00:00:00Z");
    const { messageId } = await client.enqueue(
      "a",
      { order: 7 },
      {
        destination: "billing",
        correlationId: "order-7",
        lane: "l",
        headers: { a: "b" },
        dueAt,
        ttl: "2d",
        maxAttempts: 3,
        kind: "Command",
        unique: { key: "k", for: "1m", ifTaken: "replace" },
      },
    );
    await client.enqueue("a", new RawPayload("12345678901234567890"), { dueAfter: "1m" });
    await client.enqueue("a", null, { headStart: "1h", unique: { key: "k" } });
    assert.deepEqual(got[0]?.body, {
      topic: "a",
      payload: { order: 7 },
      messageId,
      destination: "billing",
      correlationId: "order-7",
      lane: "l",
      headers: { a: "b" },
      dueAt: "2100-01-01T00:00:00.000Z",
      expiresAfterSeconds: 172800,
      maxAttempts: 3,
      kind: "Command",
      unique: { key: "k", forSeconds: 60, ifTaken: "replace" },
    });
    assert.equal(got[0]?.headers.authorization, `Bearer ${token}`);
    assert.deepEqual(
      [got[1]?.body.dueAfterSeconds, got[2]?.body.headStartSeconds, got[2]?.body.unique],
      [60, 3600, { key: "k", until: "started", ifTaken: "keep" }],
    );
    await assert.rejects(client.enqueue("a", new RawPayload("^XA")), /over HTTP a payload must be JSON/);
  });

  test("it is repeated with the same id after a 503 and after no answer", async (t) => {
    let tries = 0;
    const { url, got } = await scripted(t, (one) => {
      tries += 1;
      if (tries === 1) one.answer(503, { detail: "the database is unavailable", advice: "try again later" });
      else if (tries === 2) one.break();
      else one.answer(200, { messageId: one.body.messageId, duplicate: true });
    });
    const stored = await new Client({ url, token }).enqueue("a", 1);
    assert.deepEqual(
      got.map((one) => one.body.messageId),
      [stored.messageId, stored.messageId, stored.messageId],
    );
    assert.equal(stored.duplicate, false, "it is a duplicate of this very call");
    const own = await new Client({ url, token }).enqueue("a", 1, { messageId: id });
    assert.equal(own.duplicate, true, "the caller may have stored it before");
  });

  test("many are one batch, and as safe to repeat", async (t) => {
    let tries = 0;
    const { url, got } = await scripted(t, (one) => {
      tries += 1;
      if (tries === 1) one.break();
      else
        one.answer(201, {
          messages: one.body.messages.map((message: { messageId: string }) => ({
            messageId: message.messageId,
            duplicate: false,
          })),
        });
    });
    const client = new Client({ url, token });
    const stored = await client.enqueueMany([
      { topic: "a", payload: 1 },
      { topic: "b", payload: 2, lane: "l" },
    ]);
    assert.deepEqual(got[0]?.body, got[1]?.body);
    assert.deepEqual(
      stored.map((one) => one.messageId),
      got[1]?.body.messages.map((one: { messageId: string }) => one.messageId),
    );
    await assert.rejects(client.enqueueMany([]), /the number of messages must be a whole number from 1 to 1000/);
    await assert.rejects(
      client.enqueueMany([
        { topic: "a", payload: 1 },
        { topic: "", payload: 1 },
      ]),
      /messages\[1\]: topic is empty/,
    );
  });

  test("a key takes the place of the id", async (t) => {
    const { url, got } = await scripted(t, (one) => one.answer(201, { messageId: id, duplicate: false }));
    const client = new Client({ url, token });
    await client.enqueue("a", 1, { idempotencyKey: "order-7" });
    assert.deepEqual([got[0]?.headers["idempotency-key"], got[0]?.body.messageId], ["order-7", undefined]);
    await assert.rejects(client.enqueue("a", 1, { idempotencyKey: "order-7", messageId: id }), /give only one/);
    await assert.rejects(client.enqueue("a", 1, { idempotencyKey: "a\nb" }), /idempotencyKey must be/);
  });

  test("it gives up in time", async (t) => {
    const { url } = await scripted(t, (one) =>
      one.answer(503, { detail: "the database is unavailable", advice: "try again later" }),
    );
    await assert.rejects(new Client({ url, token, retryForMs: 300 }).enqueue("a", 1), (error) => {
      assert.ok(error instanceof UnavailableError);
      return error.message === "the database is unavailable (try: try again later)" && error.status === 503;
    });
    await assert.rejects(
      new Client({ url: await closed(), token, retryForMs: 0 }).enqueue("a", 1),
      /no answer from http:.*: ECONNREFUSED/,
    );
    await assert.rejects(
      new Client({ url, token }).enqueue("a", 1, { signal: AbortSignal.abort(new Error("enough")) }),
      /enough/,
    );
  });
});

describe("errors", () => {
  const classes = {
    400: InvalidError,
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    421: NotAllowedError,
    422: InvalidError,
    500: NodeError,
  };

  test("the words of the server, as they are and as they will be", async (t) => {
    let answer: [number, unknown] = [400, {}];
    const { url } = await scripted(t, (one) => one.answer(...answer));
    const call = (): Promise<unknown> => new Client({ url, token }).enqueue("a", "hunter2");
    for (const [code, type] of Object.entries(classes)) {
      answer = [Number(code), { detail: "unknown field `colour`", advice: "the fields are topic, payload" }];
      await assert.rejects(call(), (error) => {
        assert.ok(error instanceof type && error instanceof PostroomError, code);
        assert.deepEqual(
          [error.name, error.message],
          [type.name, "unknown field `colour` (try: the fields are topic, payload)"],
        );
        return (
          error.status === Number(code) &&
          error.advice === "the fields are topic, payload" &&
          !inspect(error).includes("hunter2")
        );
      });
      answer = [
        Number(code),
        {
          type: "about:blank",
          title: "Bad Request",
          detail: "two fields are wrong",
          advice: "see /openapi.json",
          errors: [
            { field: "topic", detail: "must not be empty" },
            { field: "lane", detail: "is too long" },
            { other: 1 },
          ],
        },
      ];
      await assert.rejects(call(), (error) => {
        assert.ok(error instanceof type);
        assert.deepEqual(error.fields, [
          { field: "topic", detail: "must not be empty" },
          { field: "lane", detail: "is too long" },
        ]);
        return (
          error.message === "two fields are wrong: topic must not be empty; lane is too long (try: see /openapi.json)"
        );
      });
    }
    answer = [400, "<html>a proxy</html>"];
    await assert.rejects(call(), /the node answered 400 and gave no reason/);
  });

  test("a key that is refused", async (t) => {
    const { url } = await scripted(t, (one) =>
      one.answer(409, { detail: "another message has the unique key", advice: "look at it", keptOutBy: id }),
    );
    const unique = { key: "k", ifTaken: "refuse" } as const;
    await assert.rejects(
      new Client({ url, token }).enqueue("a", 1, { unique }),
      (error) => error instanceof KeyTakenError && error.keptOutBy === id,
    );
  });

  test("a redirect does not get the token", async (t) => {
    const other = await scripted(t, (one) => one.answer(200, status("done")));
    const { url } = await scripted(t, (one) => one.answer(307, {}, { location: other.url }));
    await assert.rejects(new Client({ url, token }).status(id), /redirects, and a node does not/);
    assert.equal(other.got.length, 0);
  });
});

describe("wait", () => {
  test("it asks the server to wait, and ends with the result", async (t) => {
    const states = [status("ready"), status("leased"), status("done", { hasAnswer: true, answer: { shelf: 7 } })];
    const { url, got } = await scripted(t, (one) => one.answer(200, states[Math.min(got.length - 1, 2)]));
    const result = await new Client({ url, token }).wait<{ shelf: number }>(id, { timeoutMs: 90_000 });
    assert.deepEqual([result.state, result.answer?.shelf], ["done", 7]);
    assert.deepEqual(
      got.map((one) => one.path),
      Array(3).fill(`/v1/messages/${id}?wait=30`),
    );
  });

  test("a command to another service is over when its answer is there", async (t) => {
    const to = { destination: "billing", kind: "Command" };
    const states = [status("done", to), status("done", to), status("done", { ...to, hasAnswer: true, answer: 1 })];
    const { url, got } = await scripted(t, (one) => one.answer(200, states[Math.min(got.length - 1, 2)]));
    const client = new Client({ url, token });
    assert.equal((await client.wait(id)).answer, 1);
    got.length = 0;
    assert.deepEqual(await client.wait(id, { answer: false }).then(({ state, answer }) => [state, answer]), [
      "done",
      null,
    ]);
  });

  test("a message that died, or one of several", async (t) => {
    const dead = status("dead", { lastError: "it answered 422" }) as { messages: object[] };
    let answer: object = dead;
    const { url } = await scripted(t, (one) => one.answer(200, answer));
    const client = new Client({ url, token });
    assert.deepEqual([(await client.wait(id)).state, (await client.wait(id)).lastError], ["dead", "it answered 422"]);
    answer = { messages: [...(status("done") as typeof dead).messages, ...dead.messages] };
    assert.equal((await client.wait(id)).state, "dead");
  });

  test("it survives a node that restarts, and ends in time", async (t) => {
    let tries = 0;
    const { url } = await scripted(t, (one) => {
      tries += 1;
      if (tries === 1) one.break();
      else if (tries === 2) one.answer(503, {});
      else one.answer(200, status(tries < 6 ? "ready" : "done"));
    });
    const client = new Client({ url, token });
    assert.equal((await client.wait(id)).state, "done");
    tries = -1000;
    await assert.rejects(client.wait(id, { timeoutMs: 100 }), (error) => error instanceof TimeoutError);
    await assert.rejects(client.wait(id, { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
    await assert.rejects(client.wait("7"), /messageId must be a UUID/);
  });
});
