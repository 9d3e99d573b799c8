// The client against a real node.
import assert from "node:assert/strict";
import { inspect } from "node:util";

import {
  Client,
  ConflictError,
  InvalidError,
  KeyTakenError,
  newMessageId,
  NotAllowedError,
  NotFoundError,
} from "postroom";

import { needing, noNode } from "./support/need.js";
import { TestNode, TOKEN } from "./support/node.js";

const PULLED = '[handlers."*"]\npull = true\n';

needing("a node's HTTP API", [noNode], (test) => {
  test("a message is stored once, and its status says everything", async (t) => {
    const client = (await TestNode.start(t, PULLED)).client();
    const messageId = newMessageId();
    const options = {
      messageId,
      correlationId: "order-7",
      lane: "order-7",
      headers: { language: "en" },
      kind: "Command",
      maxAttempts: 3,
      ttl: "1h",
    } as const;
    assert.deepEqual(await client.enqueue("order.placed", { order: 7 }, options), { messageId, duplicate: false });
    assert.deepEqual(await client.enqueue("order.placed", { order: 7 }, options), { messageId, duplicate: true });
    const [message, ...others] = await client.status(messageId);
    assert.equal(others.length, 0);
    assert.deepEqual(
      [
        message?.topic,
        message?.kind,
        message?.state,
        message?.lane,
        message?.correlationId,
        message?.attempts,
        message?.hasAnswer,
      ],
      ["order.placed", "Command", "ready", "order-7", "order-7", 0, false],
    );
    assert.deepEqual(await client.cancel(messageId), { cancelled: 1, askedToStop: 0 });
    assert.equal((await client.wait(messageId)).state, "dismissed");
    await assert.rejects(
      client.cancel(messageId),
      (error) => error instanceof ConflictError && /too late/.test(error.message),
    );
    await assert.rejects(client.status(newMessageId()), NotFoundError);
  });

  test("times", async (t) => {
    const client = (await TestNode.start(t, PULLED)).client();
    const notBefore = async (options: object): Promise<number> => {
      const { messageId } = await client.enqueue("a", 1, options);
      return Date.parse((await client.status(messageId))[0]?.notBefore ?? "");
    };
    const near = (time: number, expected: number): void =>
      assert.ok(Math.abs(time - expected) < 60_000, `${time} and ${expected}`);
    assert.equal(await notBefore({ dueAt: "2100-01-01T00:00:00Z" }), Date.parse("2100-01-01T00:00:00Z"));
    near(await notBefore({ dueAfter: "1h" }), Date.now() + 3_600_000);
    near(await notBefore({ headStart: "1h" }), Date.now() - 3_600_000);
    near(await notBefore({ headStart: 0 }), Date.now());
  });

  test("many messages, in one transaction", async (t) => {
    const client = (await TestNode.start(t, PULLED)).client();
    const stored = await client.enqueueMany([
      { topic: "a", payload: 1 },
      { topic: "b", payload: [2], lane: "l" },
    ]);
    assert.deepEqual(
      stored.map((one) => one.duplicate),
      [false, false],
    );
    assert.equal((await client.status(stored[1]!.messageId))[0]?.lane, "l");
    const keyed = [{ topic: "a", payload: 1 }];
    const [first] = await client.enqueueMany(keyed, { idempotencyKey: "batch-1" });
    const [again] = await client.enqueueMany(keyed, { idempotencyKey: "batch-1" });
    assert.deepEqual(again, { messageId: first?.messageId, duplicate: true });
    await assert.rejects(
      client.enqueueMany([{ topic: "a", payload: 2 }], { idempotencyKey: "batch-1" }),
      (error) => error instanceof InvalidError && error.status === 422,
    );
    assert.deepEqual(await client.cancelLane("l"), { cancelled: 1, askedToStop: 0 });
  });

  test("unique keys", async (t) => {
    const client = (await TestNode.start(t, PULLED)).client();
    const first = await client.enqueue("a", 1, { unique: { key: "page-7" } });
    const kept = await client.enqueue("a", 2, { unique: { key: "page-7" } });
    assert.deepEqual([kept.duplicate, kept.keptOutBy], [true, first.messageId]);
    const second = await client.enqueue("a", 3, { unique: { key: "page-7", until: "done", ifTaken: "replace" } });
    assert.deepEqual([second.duplicate, second.replaced], [false, first.messageId]);
    await assert.rejects(client.enqueue("a", 4, { unique: { key: "page-7", ifTaken: "refuse" } }), KeyTakenError);
    assert.deepEqual(await client.cancelKey("page-7"), { cancelled: 1, askedToStop: 0 });
    await assert.rejects(client.cancelKey("page-8"), NotFoundError);
  });

  test("what a node refuses", async (t) => {
    const node = await TestNode.start(t, PULLED);
    const stranger = new Client({ url: node.url, token: "somebody-elses-token" });
    await assert.rejects(
      stranger.enqueue("a", 1),
      (error) => error instanceof NotAllowedError && error.status === 401 && !inspect(error).includes("somebody"),
    );
    const rotating = new Client({ url: node.url, token: async () => TOKEN });
    const { messageId } = await rotating.enqueue("a", 1);
    await assert.rejects(
      rotating.enqueue("a", "x".repeat(6 * 1024 * 1024)),
      (error) => error instanceof InvalidError && error.status === 413,
    );
    assert.equal((await rotating.status(messageId))[0]?.state, "ready");
  });

  test("an enqueue survives a node that is killed", async (t) => {
    const node = await TestNode.start(t, PULLED);
    const client = node.client();
    await client.enqueue("a", 0);
    await node.kill();
    const pending = client.enqueue("a", 1);
    await node.start();
    const { messageId, duplicate } = await pending;
    assert.equal(duplicate, false);
    assert.equal((await client.status(messageId))[0]?.state, "ready");
  });
});
