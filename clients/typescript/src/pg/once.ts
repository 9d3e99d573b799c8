import { answerOf, HANDLED, keyOf, storedAnswer, type OnceOptions } from "../message/handled.js";
import type { Message } from "../message/message.js";
import { seconds, type Span } from "../message/span.js";
import { tableName } from "../message/table.js";
import { checkClient, type PgClient } from "./client.js";

/**
 * The SQL of the table that `once` writes to, for your own migrations.
 *
 * ```ts
 * console.log(handledTable({ table: "shop.handled" }));
 * ```
 */
export function handledTable(options: OnceOptions = {}): string {
  return `CREATE TABLE IF NOT EXISTS ${tableName("table", options.table, HANDLED)} (
    source     text        NOT NULL COLLATE "C",
    message_id text        NOT NULL COLLATE "C",
    answer     text,
    handled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, message_id)
)`;
}

/**
 * Creates the table that `once` writes to, if it is missing. Run it when you deploy.
 *
 * ```ts
 * await createHandledTable(client);
 * ```
 */
export async function createHandledTable(client: PgClient, options: OnceOptions = {}): Promise<void> {
  await client.query(handledTable(options), []);
}

/**
 * Does the work for a message once, however often the message comes. It writes the message's id in your transaction, so
 * the id and your work are stored together. When the message comes again, it returns the stored answer.
 *
 * ```ts
 * worker.handle<Order>("order.placed", (message) => inTransaction(pool, (client) =>
 *   once(client, message, async () => {
 *     await client.query("INSERT INTO reserved (order_id) VALUES ($1)", [message.payload.order]);
 *     return { reserved: true };
 *   })));
 * ```
 */
export async function once<Answer>(
  client: PgClient,
  message: Pick<Message, "id" | "source">,
  work: () => Promise<Answer> | Answer,
  options: OnceOptions = {},
): Promise<Answer> {
  checkClient(client);
  const table = tableName("table", options.table, HANDLED);
  const key = keyOf(message);
  const { rowCount } = await client.query(
    `INSERT INTO ${table} (source, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
    key,
  );
  if (rowCount === 0) {
    const { rows } = await client.query(`SELECT answer FROM ${table} WHERE source = $1 AND message_id = $2`, key);
    return answerOf(rows[0]?.["answer"]) as Answer;
  }
  const answer = await work();
  const text = storedAnswer(answer);
  if (text !== null) {
    await client.query(`UPDATE ${table} SET answer = $3 WHERE source = $1 AND message_id = $2`, [...key, text]);
  }
  return answer;
}

/**
 * Deletes what was handled longer ago than this, and returns how many rows that were. Nodes remember for 30 days.
 *
 * ```ts
 * await forgetHandled(client, "40d");
 * ```
 */
export async function forgetHandled(client: PgClient, olderThan: Span, options: OnceOptions = {}): Promise<number> {
  const table = tableName("table", options.table, HANDLED);
  const age = seconds("olderThan", olderThan, 1, 3_153_600_000);
  const { rowCount } = await client.query(
    `DELETE FROM ${table} WHERE handled_at < now() - make_interval(secs => $1::double precision)`,
    [age],
  );
  return rowCount ?? 0;
}
