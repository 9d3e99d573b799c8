// The fake does what the node does, without a node.
import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  ConflictError,
  KeyTakenError,
  newMessageId,
  NotFoundError,
  Retry,
  Terminal,
  TimeoutError,
  UnavailableError,
  type PostroomClient,
} from "postroom";
import { FakePostroom } from "postroom/testing";

/** Somebody's code. */
async function placeOrder(postroom: PostroomClient, order: number): Promise<string> {
  return (await postroom.enqueue("order.placed", { order }, { lane: `order-${order}` })).messageId;
}

describe("the fake", () => {
  test("it records what is enqueued", async () => {
    const postroom = new FakePostroom();
    const id = await placeOrder(postroom, 7);
    postroom.enqueueSync("a database", "b", [1], { destination: "billing" });
    await postroom.enqueueIn("a connection", "c", null);
    assert.deepEqual(
      postroom.enqueued().map((one) => [one.topic, one.payload, one.destination, one.state]),
      [
        ["order.placed", { order: 7 }, null, "ready"],
        ["b", [1], "billing", "ready"],
        ["c", null, null, "ready"],
      ],
    );
    const [placed] = postroom.enqueued("order.placed");
    assert.deepEqual([placed?.messageId, placed?.lane, placed?.kind], [id, "order-7", "Event"]);
    postroom.clear();
    assert.equal(postroom.enqueued().length, 0);
  });

  test("it runs handlers, and settles as a worker does", async () => {
    const postroom = new FakePostroom()
      .handle<{ order: number }>("order.placed", ({ payload }) => ({ shelf: payload.order * 2 }))
      .handle("never", () => {
        throw new Terminal("no");
      })
      .handle("later", ({ attempt }) => {
        if (attempt < 3) throw new Retry({ after: "1h" });
      })
      .handle("broken", () => {
        throw new Error("x");
      });
    const id = await placeOrder(postroom, 7);
    assert.deepEqual((await postroom.wait(id)).answer, { shelf: 14 });
    const ids = await postroom.enqueueMany(
      ["never", "later", "broken", "unknown"].map((topic) => ({ topic, payload: 1 })),
    );
    await postroom.drain();
    const states = () =>
      postroom
        .enqueued()
        .slice(1)
        .map((one) => [one.state, one.attempts]);
    assert.deepEqual(states(), [
      ["dead", 1],
      ["ready", 1],
      ["ready", 1],
      ["ready", 0],
    ]);
    await assert.rejects(postroom.wait(ids[1]!.messageId), TimeoutError);
    for (let hours = 0; hours < 12; hours += 1) {
      postroom.advance("1h");
      await postroom.drain();
    }
    assert.deepEqual(states(), [
      ["dead", 1],
      ["done", 2],
      ["dead", 10],
      ["ready", 0],
    ]);
    assert.equal(postroom.enqueued("never")[0]?.lastError, "no");
  });

  test("messages to other services, due times, lanes and expiry", async () => {
    const seen: unknown[] = [];
    const postroom = new FakePostroom()
      .handle("a", ({ payload }) => void seen.push(payload))
      .handleAt("billing", "a", ({ payload }) => ({ billed: payload }));
    await postroom.enqueue("a", "later", { dueAfter: "1h" });
    await postroom.enqueue("a", "first", { lane: "l", dueAfter: "2h" });
    await postroom.enqueue("a", "second", { lane: "l" });
    await postroom.enqueue("a", "urgent", { headStart: "1h" });
    await postroom.enqueue("a", "short", { dueAfter: "2h", ttl: "1h" });
    const { messageId } = await postroom.enqueue("a", 7, { destination: "billing", kind: "Command" });
    assert.equal(await postroom.drain(), 2);
    assert.deepEqual([seen, (await postroom.wait(messageId)).answer], [["urgent"], { billed: 7 }]);
    postroom.advance("3h");
    await postroom.drain();
    assert.deepEqual(seen, ["urgent", "later", "first", "second"]);
    assert.equal(postroom.enqueued().find((one) => one.payload === "short")?.state, "expired");
  });

  test("ids, unique keys, cancelling and transactions", async () => {
    const postroom = new FakePostroom();
    const messageId = newMessageId();
    assert.deepEqual(
      [
        (await postroom.enqueue("a", 1, { messageId })).duplicate,
        (await postroom.enqueue("a", 1, { messageId })).duplicate,
      ],
      [false, true],
    );
    const unique = { key: "k" };
    const first = await postroom.enqueue("a", 1, { unique });
    assert.equal((await postroom.enqueue("a", 2, { unique })).keptOutBy, first.messageId);
    await assert.rejects(postroom.enqueue("a", 2, { unique: { ...unique, ifTaken: "refuse" } }), KeyTakenError);
    assert.equal(
      (await postroom.enqueue("a", 2, { unique: { ...unique, ifTaken: "replace", for: "1h" } })).replaced,
      first.messageId,
    );
    assert.deepEqual(await postroom.cancelKey("k"), { cancelled: 1, askedToStop: 0 });
    await postroom.enqueue("a", 3, { lane: "l" });
    assert.equal((await postroom.cancelLane("l")).cancelled, 1);
    assert.deepEqual(await postroom.cancel(messageId), { cancelled: 1, askedToStop: 0 });
    await assert.rejects(postroom.cancel(messageId), ConflictError);
    await assert.rejects(postroom.status(newMessageId()), NotFoundError);
    const before = postroom.enqueued().length;
    await assert.rejects(
      postroom.transaction(async () => {
        await postroom.enqueueIn(undefined, "a", 4);
        throw new Error("rolled back");
      }),
      /rolled back/,
    );
    assert.equal(postroom.enqueued().length, before);
  });

  test("it throws like the real one", async () => {
    const postroom = new FakePostroom();
    postroom.failNext(new UnavailableError("the database is unavailable"));
    await assert.rejects(placeOrder(postroom, 7), UnavailableError);
    await placeOrder(postroom, 7);
    await assert.rejects(postroom.enqueue("", 1), /topic is empty/);
  });
});
