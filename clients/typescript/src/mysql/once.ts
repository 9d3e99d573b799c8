import { answerOf, HANDLED, keyOf, storedAnswer, type OnceOptions } from "../message/handled.js";
import type { Message } from "../message/message.js";
import { seconds, type Span } from "../message/span.js";
import { tableName } from "../message/table.js";
import { checkConnection, execute, rows, type MysqlConnection } from "./connection.js";

/**
 * The SQL of the table that `once` writes to, for your own migrations.
 *
 * ```ts
 * console.log(handledTable({ table: "shop_handled" }));
 * ```
 */
export function handledTable(options: OnceOptions = {}): string {
  return `CREATE TABLE IF NOT EXISTS ${tableName("table", options.table, HANDLED)} (
    source     VARBINARY(1020) NOT NULL,
    message_id VARBINARY(1020) NOT NULL,
    answer     LONGTEXT,
    handled_at DATETIME(6)     NOT NULL,
    PRIMARY KEY (source, message_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4`;
}

/**
 * Creates the table that `once` writes to, if it is missing. Run it when you deploy: on MySQL it ends a transaction.
 *
 * ```ts
 * await createHandledTable(connection);
 * ```
 */
export async function createHandledTable(connection: MysqlConnection, options: OnceOptions = {}): Promise<void> {
  await execute(checkConnection(connection), handledTable(options), []);
}

/**
 * Does the work for a message once, however often the message comes. It writes the message's id in your transaction, so
 * the id and your work are stored together. When the message comes again, it returns the stored answer.
 *
 * ```ts
 * worker.handle<Order>("order.placed", (message) => inTransaction(pool, (connection) =>
 *   once(connection, message, async () => {
 *     await connection.execute("INSERT INTO reserved (order_id) VALUES (?)", [message.payload.order]);
 *     return { reserved: true };
 *   })));
 * ```
 */
export async function once<Answer>(
  connection: MysqlConnection,
  message: Pick<Message, "id" | "source">,
  work: () => Promise<Answer> | Answer,
  options: OnceOptions = {},
): Promise<Answer> {
  checkConnection(connection);
  const table = tableName("table", options.table, HANDLED);
  const key = keyOf(message).map((part) => Buffer.from(part));
  const inserted = await execute(
    connection,
    `INSERT IGNORE INTO ${table} (source, message_id, handled_at) VALUES (?, ?, UTC_TIMESTAMP(6))`,
    key,
  );
  if ((inserted as { affectedRows: number }).affectedRows === 0) {
    // With a lock it reads what is committed now, and not what the transaction saw at first.
    const [row] = await rows(
      connection,
      `SELECT answer FROM ${table} WHERE source = ? AND message_id = ? LOCK IN SHARE MODE`,
      key,
    );
    return answerOf(row?.["answer"]) as Answer;
  }
  const answer = await work();
  const text = storedAnswer(answer);
  if (text !== null) {
    await execute(connection, `UPDATE ${table} SET answer = ? WHERE source = ? AND message_id = ?`, [text, ...key]);
  }
  return answer;
}

/**
 * Deletes what was handled longer ago than this, and returns how many rows that were. Nodes remember for 30 days.
 *
 * ```ts
 * await forgetHandled(connection, "40d");
 * ```
 */
export async function forgetHandled(
  connection: MysqlConnection,
  olderThan: Span,
  options: OnceOptions = {},
): Promise<number> {
  const table = tableName("table", options.table, HANDLED);
  const age = seconds("olderThan", olderThan, 1, 3_153_600_000);
  const deleted = await execute(
    checkConnection(connection),
    `DELETE FROM ${table} WHERE handled_at < DATE_SUB(UTC_TIMESTAMP(6), INTERVAL CAST(? AS SIGNED) SECOND)`,
    [String(age)],
  );
  return (deleted as { affectedRows: number }).affectedRows;
}
