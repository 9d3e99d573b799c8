import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";

import callbacks from "mysql2";
import mysql from "mysql2/promise";
import { newMessageId } from "postroom";
import { createHandledTable, enqueue, once } from "postroom/mysql";

import { atEnd } from "./support/cleanup.js";
import { mariadb, mysqlConnection } from "./support/databases.js";
import { enqueueing } from "./support/enqueueing.js";
import { needing, noNode } from "./support/need.js";
import { eventually } from "./support/signal.js";

enqueueing(mariadb);

needing("MySQL and MariaDB alone", [noNode, mariadb.missing], (test) => {
  test("a pool is refused, because the transaction is on a connection", async (t) => {
    const pool = mysql.createPool("mysql://nobody@localhost/nothing");
    atEnd(t, () => pool.end());
    await assert.rejects(enqueue(pool, "a", 1), /this is a pool.*\(try: the connection from pool.getConnection\(\)/);
    const old = callbacks.createPool("mysql://nobody@localhost/nothing");
    atEnd(t, () => old.end());
    await assert.rejects(enqueue(old as never, "a", 1), /this is a pool/);
    await assert.rejects(enqueue({} as never, "a", 1), /must be a connection of mysql2\/promise/);
    await assert.rejects(
      enqueue({ execute: () => undefined, promise: () => undefined } as never, "a", 1),
      /connection.promise\(\)/,
    );
  });

  test("the right to call the procedures is enough, whatever the SQL mode is", async (t) => {
    const { url } = await mariadb.open(t);
    const owner = await mysqlConnection(t, url);
    const user = `ts_${randomBytes(6).toString("hex")}`;
    await owner.query(`CREATE USER ${user}@localhost`);
    atEnd(t, () => owner.query(`DROP USER ${user}@localhost`));
    for (const name of ["enqueue_with", "take"])
      await owner.query(`GRANT EXECUTE ON PROCEDURE infra_outbox_${name} TO ${user}@localhost`);
    const connection = await mysqlConnection(t, url, user);
    await connection.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'");
    await connection.beginTransaction();
    const [messageId, unique] = [newMessageId(), { key: "it's \\' \" 7" }];
    assert.deepEqual(await enqueue(connection, "a", "\\' OR 1", { messageId, unique }), {
      messageId,
      duplicate: false,
    });
    assert.deepEqual((await enqueue(connection, "a", 1, { unique })).duplicate, true);
    assert.deepEqual(await enqueue(connection, "b", 1, { messageId }), { messageId, duplicate: true });
    await connection.commit();
    await assert.rejects(connection.query("SELECT payload FROM infra_outbox"), /denied/);
    const [rows] = await owner.query("SELECT payload FROM infra_outbox");
    assert.deepEqual(rows, [{ payload: '"\\\\\' OR 1"' }]);
  });

  test("two transactions that handle the same message: the second waits, and gets the answer", async (t) => {
    const { url } = await mariadb.open(t);
    const [one, other, watcher] = [
      await mysqlConnection(t, url),
      await mysqlConnection(t, url),
      await mysqlConnection(t, url),
    ];
    await createHandledTable(watcher, { table: "done_here" });
    const options = { table: "done_here" };
    const message = { id: "m", source: null };
    for (const each of [one, other]) await each.beginTransaction();
    await other.query("SELECT * FROM done_here"); // what it sees is older than the answer
    await once(one, message, () => ({ shelf: 7 }), options);
    const waiting = once(other, message, () => assert.fail("it runs twice"), options);
    await eventually("it waits", async () => {
      const [rows] = await watcher.query("SHOW ENGINE INNODB STATUS");
      const transactions = String((rows as { Status: string }[])[0]?.Status).split("---TRANSACTION");
      return transactions.some((text) => text.includes("LOCK WAIT") && text.includes(`thread id ${other.threadId},`));
    });
    await one.commit();
    // MariaDB may refuse to go on with an old snapshot; then the transaction runs again.
    const answer = await waiting.catch((error: { errno?: number }) => error.errno);
    assert.ok(answer === 1020 || (answer as unknown as { shelf: number }).shelf === 7, JSON.stringify(answer));
  });
});
