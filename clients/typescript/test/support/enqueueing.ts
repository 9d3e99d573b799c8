// What enqueueing must do, whatever the database is.
import assert from "node:assert/strict";

import { KeyTakenError, newMessageId, RawPayload, Worker } from "postroom";

import { atEnd } from "./cleanup.js";
import type { Kind, Shop } from "./databases.js";
import { BIN, needing, noNode, run } from "./need.js";
import { TestNode, TOKEN } from "./node.js";
import { Signal } from "./signal.js";

async function postroom(shop: Shop, ...words: string[]): Promise<any> {
  const { stdout } = await run(BIN, [...words, "--json"], { env: { ...process.env, POSTROOM_DB: shop.url } });
  return JSON.parse(stdout);
}

/** What the node's own program knows of a message. */
async function shown(shop: Shop, id: string): Promise<any[]> {
  return postroom(shop, "show", id, "--show-payload");
}

async function count(shop: Shop): Promise<number> {
  const rows = await shop.transaction((tx) => tx.run(`SELECT count(*) AS n FROM ${shop.outbox}`));
  return Number(rows[0]?.["n"]);
}

const near = (text: string, seconds: number): void =>
  assert.ok(Math.abs(Date.parse(text) - Date.now() - seconds * 1000) < 60_000, `${text} is not ${seconds} s from now`);

export function enqueueing(kind: Kind): void {
  needing(`enqueue on ${kind.name}`, [noNode, kind.missing], (test) => {
    test("the message and the caller's row are stored together, or neither is", async (t) => {
      const shop = await kind.open(t);
      const place = async (fails: boolean): Promise<void> =>
        shop.transaction(async (tx) => {
          await tx.run("INSERT INTO orders (id) VALUES (7)");
          await tx.enqueue("order.placed", { order: 7 });
          if (fails) throw new Error("the caller changed its mind");
        });
      await assert.rejects(place(true), /changed its mind/);
      assert.equal(await count(shop), 0);
      await place(false);
      assert.equal(await count(shop), 1);
      await assert.rejects(
        shop.transaction((tx) => tx.enqueue("", 1)),
        /topic is empty/,
      );
      assert.equal((await shop.transaction((tx) => tx.run("SELECT id FROM orders"))).length, 1);
    });

    test("everything can be said of a message", async (t) => {
      const shop = await kind.open(t);
      const { messageId } = await shop.transaction((tx) =>
        tx.enqueue("invoice.due", new RawPayload('{"order": 7, "note": "größe 😀 \' \\" \\\\ %s $1 ?"}'), {
          destination: "billing",
          correlationId: "größe' \\ ?",
          lane: "order-7",
          headers: { traceparent: "00-1", "a'b": "c\\" },
          dueAt: "2100-01-01T00:00:00.250Z",
          kind: "Command",
          ttl: "36500d",
          maxAttempts: 3,
        }),
      );
      const [message, ...others] = await shown(shop, messageId);
      assert.equal(others.length, 0);
      assert.deepEqual(
        [
          message.id,
          message.topic,
          message.destination,
          message.correlation_id,
          message.lane,
          message.kind,
          message.max_attempts,
          message.state,
        ],
        [messageId, "invoice.due", "billing", "größe' \\ ?", "order-7", "Command", 3, "ready"],
      );
      assert.equal(message.payload, '{"order": 7, "note": "größe 😀 \' \\" \\\\ %s $1 ?"}');
      assert.deepEqual(message.headers, { traceparent: "00-1", "a'b": "c\\" });
      assert.equal(Date.parse(message.due_at), Date.parse("2100-01-01T00:00:00.250Z"));
      near(message.expires_at, 36500 * 86400);
    });

    test("what is not said is as the library has it", async (t) => {
      const shop = await kind.open(t);
      const [plain, away, late, soon] = await shop.transaction(async (tx) => [
        await tx.enqueue("a", null),
        await tx.enqueue("a", [1], { destination: "billing", dueAfter: "1h" }),
        await tx.enqueue("a", 1, { dueAfter: "1d" }),
        await tx.enqueue("a", 1, { headStart: "24h" }),
      ]);
      const one = async (id: string): Promise<any> => (await shown(shop, id))[0];
      const { payload, kind: itsKind, expires_at, due_at, lane, correlation_id, headers } = await one(plain!.messageId);
      assert.deepEqual(
        [payload, itsKind, expires_at, due_at, lane, correlation_id, headers],
        ["null", "Event", null, null, null, null, {}],
      );
      near((await one(away!.messageId)).expires_at, 25 * 3600);
      near((await one(late!.messageId)).due_at, 86400);
      near((await one(soon!.messageId)).visible_at, -86400);
    });

    test("a message is stored once under its id, for each destination", async (t) => {
      const shop = await kind.open(t);
      const messageId = newMessageId();
      const enqueue = (destination?: string): Promise<boolean> =>
        shop.transaction(
          async (tx) =>
            (await tx.enqueue("a", 1, { messageId, ...(destination === undefined ? {} : { destination }) })).duplicate,
        );
      assert.deepEqual(
        [await enqueue(), await enqueue(), await enqueue("billing"), await enqueue("orders"), await enqueue("billing")],
        [false, true, false, false, true],
      );
      const twice = await shop.transaction(async (tx) => {
        const again = newMessageId();
        return [
          await tx.enqueue("a", 1, { messageId: again, lane: "l" }),
          await tx.enqueue("a", 1, { messageId: again, lane: "l" }),
        ];
      });
      assert.deepEqual(
        twice.map((one) => one.duplicate),
        [false, true],
      );
      assert.equal(await count(shop), 4);
      // The library derives the same ids for the rows.
      const sent = await postroom(shop, "send", "a", "1", "--id", messageId, "--to", "billing");
      assert.equal(await count(shop), 4, JSON.stringify(sent));
      assert.deepEqual(
        (await shown(shop, messageId)).map((one) => one.destination).sort(),
        [null, "billing", "orders"].sort(),
      );
    });

    test("unique keys", async (t) => {
      const shop = await kind.open(t);
      const enqueue = (unique: object, more: object = {}) =>
        shop.transaction((tx) => tx.enqueue("page.index", 1, { unique: { key: "page-7", ...unique }, ...more }));
      const first = await enqueue({});
      assert.deepEqual(first.duplicate, false);
      const kept = await enqueue({});
      assert.deepEqual([kept.duplicate, kept.keptOutBy], [true, first.messageId]);
      await assert.rejects(
        enqueue({ ifTaken: "refuse" }),
        (error) => error instanceof KeyTakenError && error.keptOutBy === first.messageId,
      );
      const messageId = newMessageId();
      const second = await enqueue({ ifTaken: "replace", for: "1h" }, { messageId });
      assert.deepEqual(second, { messageId, duplicate: false, replaced: first.messageId });
      assert.deepEqual((await shown(shop, first.messageId))[0].state, "dismissed");
      assert.deepEqual(
        await enqueue({ ifTaken: "refuse" }, { messageId }),
        { messageId, duplicate: true },
        "it is stored already",
      );
      const free = await enqueue({ key: "free", until: "done", ifTaken: "replace" });
      assert.deepEqual(free, { messageId: free.messageId, duplicate: false });
      await assert.rejects(
        shop.transaction(async (tx) => {
          await tx.enqueue("a", 1, { unique: { key: "rolled-back" } });
          throw new Error("the caller changed its mind");
        }),
      );
      assert.equal((await enqueue({ key: "rolled-back" })).duplicate, false);
      assert.equal(await count(shop), 4);
    });

    test("a unique key of a message to another service", async (t) => {
      const shop = await kind.open(t);
      const enqueue = (ifTaken: "keep" | "replace") =>
        shop.transaction((tx) =>
          tx.enqueue("page.index", 1, { destination: "search", unique: { key: "page-7", ifTaken } }),
        );
      const first = await enqueue("keep");
      const kept = await enqueue("keep");
      const [row] = await shown(shop, first.messageId);
      assert.deepEqual([first.duplicate, kept.duplicate, kept.keptOutBy], [false, true, row.work_item_id]);
      assert.equal((await enqueue("replace")).replaced, row.work_item_id);
      assert.equal(await count(shop), 2);
    });

    test("once: the work and the id are stored together, and the answer stays", async (t) => {
      const shop = await kind.open(t);
      const message = { id: newMessageId(), source: "shop" };
      let times = 0;
      const handle = (fails = false, given = message): Promise<unknown> =>
        shop.transaction((tx) =>
          tx.once(given, () => {
            times += 1;
            if (fails) throw new Error("not now");
            return { shelf: times };
          }),
        );
      await assert.rejects(handle(true), /not now/);
      assert.deepEqual([await handle(), await handle(), times], [{ shelf: 2 }, { shelf: 2 }, 2]);
      assert.deepEqual(
        await handle(false, { ...message, source: "other" }),
        { shelf: 3 },
        "ids are unique for each source",
      );
      assert.equal(
        await shop.transaction((tx) => tx.once({ id: "no answer", source: null }, () => undefined)),
        undefined,
      );
      assert.equal(
        await shop.transaction((tx) => tx.once({ id: "no answer", source: null }, () => assert.fail("again"))),
        undefined,
      );
      assert.equal(await shop.forget("1d"), 0);
    });

    test("from the transaction to the answer, with a worker on the same database", async (t) => {
      const shop = await kind.open(t);
      const node = await TestNode.start(t, '[handlers."*"]\npull = true\n', shop.url);
      const handled = new Signal();
      const worker = new Worker({ url: node.url, token: TOKEN }).handle<{ order: number }>("order.placed", (message) =>
        shop.transaction(async (tx) => {
          const answer = await tx.once(message, () => ({ reserved: message.payload.order }));
          await tx.run(`INSERT INTO orders (id) VALUES (${message.payload.order + 1000})`);
          handled.fire();
          return answer;
        }),
      );
      atEnd(t, () => worker.stop());
      void worker.run();
      const { messageId } = await shop.transaction(async (tx) => {
        await tx.run("INSERT INTO orders (id) VALUES (7)");
        return tx.enqueue("order.placed", { order: 7 });
      });
      assert.deepEqual((await node.client().wait(messageId)).answer, { reserved: 7 });
    });
  });
}
