// The worker against a real node, which is killed on the way.
import assert from "node:assert/strict";
import { join } from "node:path";

import Database from "better-sqlite3";
import { Retry, Terminal, Worker } from "postroom";
import { createHandledTable } from "postroom/sqlite";

import { atEnd } from "./support/cleanup.js";
import { ChildWorker } from "./support/child.js";
import { needing, noNode } from "./support/need.js";
import { TestNode, TOKEN } from "./support/node.js";
import { Signal } from "./support/signal.js";

const PULLED = '[handlers."*"]\npull = true\n';

needing("a worker at a node", [noNode], (test) => {
  test("it answers, retries and refuses", async (t) => {
    const node = await TestNode.start(t, PULLED);
    const client = node.client();
    const worker = new Worker({ url: node.url, token: TOKEN, onError: () => undefined });
    atEnd(t, () => worker.stop({ grace: 0 }));
    worker
      .handle<{ order: number }>("order.placed", ({ payload }) => ({ shelf: payload.order * 2 }))
      .handle("flaky", ({ attempt }) => {
        if (attempt < 3) throw new Retry({ after: 0 });
        return attempt;
      })
      .handle("bad", () => {
        throw new Terminal("an order needs items");
      });
    void worker.run();
    const [placed, flaky, bad] = await client.enqueueMany([
      { topic: "order.placed", payload: { order: 7 } },
      { topic: "flaky", payload: null },
      { topic: "bad", payload: null },
    ]);
    assert.deepEqual((await client.wait(placed!.messageId)).answer, { shelf: 14 });
    assert.deepEqual((await client.wait(flaky!.messageId)).answer, 3);
    const refused = await client.wait(bad!.messageId);
    assert.equal(refused.state, "dead");
    assert.match(refused.lastError ?? "", /an order needs items/);
  });

  test("it keeps the order of a lane, and its limit", async (t) => {
    const node = await TestNode.start(t, PULLED);
    const client = node.client();
    const stored = await client.enqueueMany(
      Array.from({ length: 12 }, (_, n) => ({ topic: "a", payload: n, lane: `lane-${n % 2}` })),
    );
    const order: number[][] = [[], []];
    let [running, most] = [0, 0];
    const worker = new Worker({ url: node.url, token: TOKEN, concurrency: 2 }).handle<number>(
      "a",
      async ({ payload }) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((turn) => setImmediate(turn));
        order[payload % 2]?.push(payload);
        running -= 1;
      },
    );
    atEnd(t, () => worker.stop());
    void worker.run();
    for (const { messageId } of stored) assert.equal((await client.wait(messageId)).state, "done");
    assert.deepEqual(order, [
      [0, 2, 4, 6, 8, 10],
      [1, 3, 5, 7, 9, 11],
    ]);
    assert.ok(most <= 2);
  });

  test("what a stopped worker gives back, another one gets at once", async (t) => {
    const node = await TestNode.start(t, PULLED);
    const client = node.client();
    const { messageId } = await client.enqueue("a", 1);
    const begun = new Signal();
    const first = new Worker({ url: node.url, token: TOKEN, lease: "1h" });
    first.handle("a", (_, { signal }) => {
      begun.fire();
      return new Promise((_done, broken) => signal.addEventListener("abort", () => broken(signal.reason)));
    });
    const ended = first.run();
    await begun.times(1);
    await first.stop({ grace: 0 });
    await ended;
    const second = new Worker({ url: node.url, token: TOKEN }).handle("a", ({ attempt }) => attempt);
    atEnd(t, () => second.stop());
    void second.run();
    assert.equal((await client.wait(messageId)).state, "done");
  });

  test("a wrong topic is told at once", async (t) => {
    const node = await TestNode.start(t, '[handlers."order.placed"]\npull = true\n');
    const worker = new Worker({ url: node.url, token: TOKEN }).handle("order.shipped", () => undefined);
    await assert.rejects(worker.run(), /the topic "order.shipped" cannot be fetched/);
  });

  test("nodes and workers that are killed again and again lose nothing, and double nothing", async (t) => {
    const count = 400;
    const node = await TestNode.start(t, PULLED);
    const client = node.client();
    const orders = Array.from({ length: count }, (_, order) => ({ topic: "order.placed", payload: { order } }));
    const stored = await client.enqueueMany(orders);
    const db = new Database(join(node.folder, "caller.db"));
    atEnd(t, () => db.close());
    db.pragma("journal_mode = WAL");
    db.exec("CREATE TABLE reserved (order_id INTEGER)"); // nothing in it prevents a double
    createHandledTable(db);

    const handled = new Signal<string>();
    let worker = await ChildWorker.start(t, node.url, db.name, handled);
    for (const [next, victim] of [
      [40, "node"],
      [100, "worker"],
      [160, "node"],
      [220, "worker"],
      [280, "both"],
    ] as const) {
      await handled.times(next);
      if (victim !== "worker") await node.kill();
      if (victim !== "node") await worker.kill();
      if (victim !== "worker") await node.start();
      if (victim !== "node") worker = await ChildWorker.start(t, node.url, db.name, handled);
    }
    for (const { messageId } of stored) assert.equal((await client.wait(messageId)).state, "done");
    const found = db.prepare("SELECT count(*) AS n, count(DISTINCT order_id) AS orders FROM reserved").get();
    assert.deepEqual(found, { n: count, orders: count });
    assert.deepEqual((await client.status(stored[7]!.messageId))[0]?.answer, { reserved: 7 });
    t.diagnostic(`${handled.seen.length} attempts for ${count} messages, 3 kills of the node and 3 of the worker`);
  });
});
