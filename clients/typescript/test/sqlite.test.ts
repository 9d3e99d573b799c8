import assert from "node:assert/strict";
import { describe, test } from "node:test";

import Database from "better-sqlite3";
import { InvalidError } from "postroom";
import { createHandledTable, enqueue, once, protectFile } from "postroom/sqlite";

import { atEnd } from "./support/cleanup.js";
import { sqlite } from "./support/databases.js";
import { enqueueing } from "./support/enqueueing.js";
import { needing, noNode } from "./support/need.js";

enqueueing(sqlite);

describe("SQLite alone", () => {
  test("an old library leaves the checkpoints to the node", () => {
    const asked: string[] = [];
    const fake = (version: string) => ({
      inTransaction: false,
      prepare: () => ({ run: () => ({ changes: 0 }), get: () => ({ version }) }),
      pragma: (text: string) => void asked.push(text),
    });
    for (const old of ["3.40.1", "3.51.2", "3.9.0", "2.8.17"]) assert.equal(protectFile(fake(old)), true, old);
    for (const safe of ["3.51.3", "3.52.0", "4.0.0"]) assert.equal(protectFile(fake(safe)), false, safe);
    assert.deepEqual(asked, Array(4).fill("wal_autocheckpoint = 0"));
    const twice = fake("3.40.1");
    assert.deepEqual([protectFile(twice), protectFile(twice)], [true, false]);
  });

  test("what needs a transaction says so", (t) => {
    const db = new Database(":memory:");
    atEnd(t, () => db.close());
    createHandledTable(db);
    const message = { id: "m", source: null };
    assert.throws(() => once(db, message, () => 1), /once needs a transaction/);
    assert.throws(() => enqueue(db, "a", 1, { unique: { key: "k" } }), /a unique key needs a transaction/);
    assert.throws(
      () => db.transaction(() => once(db, message, async () => 1)).immediate(),
      /the work must not be asynchronous/,
    );
    assert.equal(db.transaction(() => once(db, message, () => 2)).immediate(), 2, "the first one was rolled back");
    assert.throws(() => enqueue({} as never, "a", 1), InvalidError);
    assert.throws(() => enqueue(db, "a", 1, { table: "a; DROP TABLE orders" }), /table must be NAME or SCHEMA.NAME/);
    assert.throws(
      () => db.transaction(() => once(db, { id: "", source: null }, () => 1))(),
      /once needs a message with an id/,
    );
  });
});

needing("SQLite's table", [noNode], (test) => {
  test("what it refuses, the caller hears", async (t) => {
    const shop = await sqlite.open(t);
    const db = new Database(shop.url);
    atEnd(t, () => db.close());
    // The package checks the same things before; here a statement of the caller breaks the rule.
    assert.throws(
      () => db.prepare("INSERT INTO outbox_messages (topic, payload) VALUES ('a ', '1')").run(),
      /trailing blank/,
    );
    assert.equal(enqueue(db, "a", 1).duplicate, false);
  });
});
