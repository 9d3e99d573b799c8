import { InvalidError } from "../errors.js";
import { answerOf, HANDLED, keyOf, storedAnswer, type OnceOptions } from "../message/handled.js";
import type { Message } from "../message/message.js";
import { seconds, type Span } from "../message/span.js";
import { tableName } from "../message/table.js";
import { checkDatabase, protectFile, statement, type SqliteDatabase } from "./database.js";

/**
 * The SQL of the table that `once` writes to, for your own migrations.
 *
 * ```ts
 * db.exec(handledTable({ table: "shop_handled" }));
 * ```
 */
export function handledTable(options: OnceOptions = {}): string {
  return `CREATE TABLE IF NOT EXISTS ${tableName("table", options.table, HANDLED)} (
    source     TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    answer     TEXT,
    handled_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)),
    PRIMARY KEY (source, message_id)
) WITHOUT ROWID`;
}

/**
 * Creates the table that `once` writes to, if it is missing. Run it when you open the database.
 *
 * ```ts
 * createHandledTable(db);
 * ```
 */
export function createHandledTable(db: SqliteDatabase, options: OnceOptions = {}): void {
  protectFile(checkDatabase(db));
  db.prepare(handledTable(options)).run();
}

/**
 * Does the work for a message once, however often the message comes. It writes the message's id in your transaction, so
 * the id and your work are stored together. When the message comes again, it returns the stored answer.
 *
 * ```ts
 * worker.handle<Order>("order.placed", (message) =>
 *   db.transaction(() => once(db, message, () => {
 *     db.prepare("INSERT INTO reserved (order_id) VALUES (?)").run(message.payload.order);
 *     return { reserved: true };
 *   })).immediate());
 * ```
 */
export function once<Answer>(
  db: SqliteDatabase,
  message: Pick<Message, "id" | "source">,
  work: () => Answer,
  options: OnceOptions = {},
): Answer {
  protectFile(checkDatabase(db));
  if (!db.inTransaction) {
    throw new InvalidError("once needs a transaction: the id is stored together with the work", {
      advice: "db.transaction(() => once(…)).immediate()",
    });
  }
  const table = tableName("table", options.table, HANDLED);
  const key = keyOf(message);
  const { changes } = statement(
    db,
    `INSERT INTO ${table} (source, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING`,
  ).run(...key);
  if (changes === 0) {
    const row = statement(db, `SELECT answer FROM ${table} WHERE source = ? AND message_id = ?`).get(...key);
    return answerOf((row as { answer: unknown } | undefined)?.answer) as Answer;
  }
  const answer = work();
  if (answer instanceof Promise) {
    answer.catch(() => undefined);
    throw new InvalidError("the work must not be asynchronous: better-sqlite3 commits when the function returns");
  }
  const text = storedAnswer(answer);
  if (text !== null)
    statement(db, `UPDATE ${table} SET answer = ? WHERE source = ? AND message_id = ?`).run(text, ...key);
  return answer;
}

/**
 * Deletes what was handled longer ago than this, and returns how many rows that were. Nodes remember for 30 days.
 *
 * ```ts
 * forgetHandled(db, "40d");
 * ```
 */
export function forgetHandled(db: SqliteDatabase, olderThan: Span, options: OnceOptions = {}): number {
  protectFile(checkDatabase(db));
  const table = tableName("table", options.table, HANDLED);
  const age = seconds("olderThan", olderThan, 1, 3_153_600_000);
  const before = BigInt(Math.floor(Date.now() / 1000) - age);
  return statement(db, `DELETE FROM ${table} WHERE handled_at < ?`).run(before).changes;
}
