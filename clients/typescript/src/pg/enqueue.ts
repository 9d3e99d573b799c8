import type { Enqueued, EnqueueOptions } from "../message/options.js";
import { prepare, type Prepared } from "../message/prepared.js";
import { tableName } from "../message/table.js";
import { checkClient, type PgClient } from "./client.js";
import { existing, mayRead, wroteIt } from "./duplicate.js";
import { take } from "./unique.js";

/**
 * Options of `enqueue` on PostgreSQL.
 *
 * ```ts
 * await enqueue(client, "order.placed", { order: 7 }, { table: "shop.outbox", notify: false });
 * ```
 */
export interface PgEnqueueOptions extends EnqueueOptions {
  /** The outbox; `infra.outbox` by default. */
  table?: string;
  /**
   * Whether the commit wakes the workers; they look twice a second anyway. Commits that notify wait for each other, so
   * switch it off where many connections enqueue thousands of messages a second.
   */
  notify?: boolean;
}

/**
 * Enqueues a message in your own transaction: it exists if and only if that commits. This never commits.
 *
 * If you choose the `messageId`, a repeated call stores nothing and says `duplicate: true`. That needs SELECT on the
 * outbox; without that right the message is stored once all the same, but `duplicate` is always false.
 *
 * ```ts
 * await client.query("BEGIN");
 * await client.query("INSERT INTO orders (id) VALUES ($1)", [7]);
 * await enqueue(client, "order.placed", { order: 7 });
 * await client.query("COMMIT");
 * ```
 */
export async function enqueue(
  client: PgClient,
  topic: string,
  payload: unknown,
  options: PgEnqueueOptions = {},
): Promise<Enqueued> {
  checkClient(client);
  const message = prepare(topic, payload, options, ["table", "notify"]);
  const table = tableName("table", options.table, "infra.outbox");
  const { messageId } = message;
  let replaced: string | undefined;
  // An id that was made here is new, so nobody need ask.
  const canTell = message.hasOwnId && (await mayRead(client, table));
  if (canTell && (await existing(client, table, message))) return { messageId, duplicate: true };
  if (message.unique !== null) {
    const taken = await take(client, table, message, message.unique);
    if (!taken.isOurs) return { messageId, duplicate: true, ...(taken.keptOutBy && { keptOutBy: taken.keptOutBy }) };
    replaced = taken.replaced;
  }
  await store(client, table, message, options.notify ?? true);
  const duplicate = canTell && !(await wroteIt(client, table, message));
  return { messageId, duplicate, ...(replaced === undefined ? {} : { replaced }) };
}

async function store(client: PgClient, table: string, message: Prepared, notify: boolean): Promise<void> {
  const { due } = message;
  await client.query(
    `SELECT ${table}_enqueue(
       topic => $1::text, payload => $2::text, destination => $3::text, message_id => $4::uuid, headers => $5::text,
       correlation_id => $6::text,
       due_at => coalesce($7::timestamptz, clock_timestamp() + make_interval(secs => $8::double precision)),
       kind => coalesce($9::text, 'Event'), ttl => make_interval(secs => $10::double precision),
       max_attempts => $11::integer, notify => $12::boolean, lane => $13::text)`,
    [
      message.topic,
      message.text,
      message.destination,
      message.messageId,
      message.headers === null ? null : JSON.stringify(message.headers),
      message.correlationId,
      due !== null && "at" in due ? due.at.toISOString() : null,
      due !== null && "inSeconds" in due ? due.inSeconds : null,
      message.kind,
      message.ttlSeconds,
      message.maxAttempts,
      notify,
      message.lane,
    ],
  );
}
