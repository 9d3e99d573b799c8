import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";

import pg from "pg";
import { newMessageId } from "postroom";
import { createHandledTable, enqueue, once } from "postroom/pg";

import { atEnd } from "./support/cleanup.js";
import { pgClient, pgDatabase, postgres } from "./support/databases.js";
import { enqueueing } from "./support/enqueueing.js";
import { BIN, needing, noNode, run } from "./support/need.js";
import { eventually } from "./support/signal.js";

enqueueing(postgres);

/** Waits until a query of this connection waits for a lock. */
async function waits(watcher: pg.Client, pid: number): Promise<void> {
  await eventually("it waits", async () => {
    const { rows } = await watcher.query("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $1", [pid]);
    return rows[0]?.wait_event_type === "Lock";
  });
}

function processOf(client: pg.Client): number {
  return (client as unknown as { processID: number }).processID;
}

needing("PostgreSQL alone", [noNode, postgres.missing], (test) => {
  test("a pool is refused, because the transaction is on a client", async (t) => {
    const pool = new pg.Pool();
    atEnd(t, () => pool.end());
    await assert.rejects(
      enqueue(pool as never, "a", 1),
      /this is a pool.*\(try: the client from pool.connect\(\) that ran BEGIN\)/,
    );
    await assert.rejects(enqueue({} as never, "a", 1), /must be a client of pg/);
  });

  test("the right to enqueue is enough", async (t) => {
    const { url } = await postgres.open(t);
    const owner = await pgClient(t, url);
    const role = `ts_${randomBytes(6).toString("hex")}`;
    await owner.query(
      `CREATE ROLE ${role}; GRANT USAGE ON SCHEMA infra TO ${role}; GRANT INSERT ON infra.outbox, infra.outbox_take TO ${role}`,
    );
    atEnd(t, () => owner.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
    const client = await pgClient(t, url);
    await client.query(`SET ROLE ${role}`);
    await client.query("BEGIN");
    const messageId = newMessageId();
    const unique = { key: "page-7" };
    assert.equal(
      (await enqueue(client, "a", 1, { messageId, unique, destination: "billing", notify: false })).duplicate,
      false,
    );
    const { duplicate, keptOutBy } = await enqueue(client, "a", 1, { unique });
    assert.deepEqual([duplicate, keptOutBy], [true, undefined], "it may not read which message has the key");
    await client.query("COMMIT");
    await assert.rejects(client.query("SELECT payload FROM infra.outbox"), /permission denied/);
    assert.equal((await owner.query("SELECT 1 FROM infra.outbox")).rowCount, 1);
  });

  test("a savepoint, and another transaction that writes the same message", async (t) => {
    const { url } = await postgres.open(t);
    const [one, other, watcher] = [await pgClient(t, url), await pgClient(t, url), await pgClient(t, url)];
    const messageId = newMessageId();
    await one.query("BEGIN; SAVEPOINT a");
    assert.equal(
      (await enqueue(one, "a", 1, { messageId })).duplicate,
      false,
      "a savepoint is a transaction of its own",
    );
    await one.query("RELEASE SAVEPOINT a");
    assert.equal((await enqueue(one, "a", 1, { messageId })).duplicate, true);
    await other.query("BEGIN");
    const waiting = enqueue(other, "a", 1, { messageId });
    await waits(watcher, processOf(other));
    await one.query("COMMIT");
    assert.equal((await waiting).duplicate, true, "the other one was first");
    await other.query("COMMIT");
  });

  test("two transactions that handle the same message: the second waits, and gets the answer", async (t) => {
    const url = await pgDatabase(t);
    const [one, other, watcher] = [await pgClient(t, url), await pgClient(t, url), await pgClient(t, url)];
    await createHandledTable(one, { table: "public.done_here" });
    const message = { id: "m", source: null };
    const options = { table: "public.done_here" };
    await one.query("BEGIN");
    await other.query("BEGIN");
    await once(one, message, () => ({ shelf: 7 }), options);
    const waiting = once(other, message, () => assert.fail("it runs twice"), options);
    await waits(watcher, processOf(other));
    await one.query("COMMIT");
    assert.deepEqual(await waiting, { shelf: 7 });
    await other.query("COMMIT");
  });

  test("tables in another schema", async (t) => {
    const client = await pgClient(t, await pgDatabase(t));
    const { stdout } = await run(BIN, ["migrate", "--print", "--for", "postgres"], { maxBuffer: 1e8 });
    await client.query(
      stdout
        .replaceAll("infra", "messaging")
        .replaceAll("messaging.outbox", "messaging.sent")
        .replaceAll("outbox_", "sent_"),
    );
    const messageId = newMessageId();
    const options = { table: "messaging.sent", messageId, unique: { key: "k" } };
    assert.equal((await client.query("BEGIN").then(() => enqueue(client, "a", 1, options))).duplicate, false);
    await client.query("COMMIT");
    assert.equal((await client.query("SELECT 1 FROM messaging.sent WHERE id = $1", [messageId])).rowCount, 1);
    await assert.rejects(enqueue(client, "a", 1, { table: "a.b.c" }), /table must be NAME or SCHEMA.NAME/);
    await assert.rejects(enqueue(client, "a", 1, { table: "sent; DROP TABLE orders" }), /table must be/);
  });
});
