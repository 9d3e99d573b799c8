import { InvalidError, KeyTakenError } from "../errors.js";
import { bytesOf, uuidOf } from "../message/id.js";
import type { Enqueued, EnqueueOptions } from "../message/options.js";
import { prepare, type Prepared, type PreparedUnique } from "../message/prepared.js";
import { tableName } from "../message/table.js";
import { checkDatabase, protectFile, statement, type SqliteDatabase } from "./database.js";

/**
 * Options of `enqueue` on SQLite.
 *
 * ```ts
 * enqueue(db, "order.placed", { order: 7 }, { table: "shop_outbox", lane: "order-7" });
 * ```
 */
export interface SqliteEnqueueOptions extends EnqueueOptions {
  /** The outbox; `outbox_messages` by default. */
  table?: string;
}

const NOTHING = { isOurs: true } as const;

/**
 * Enqueues a message in your own transaction: it exists if and only if that commits. This never commits, and it is not
 * asynchronous, like everything in `better-sqlite3`.
 *
 * ```ts
 * const place = db.transaction((order: number) => {
 *   db.prepare("INSERT INTO orders (id) VALUES (?)").run(order);
 *   return enqueue(db, "order.placed", { order });
 * });
 * place.immediate(7);
 * ```
 */
export function enqueue(
  db: SqliteDatabase,
  topic: string,
  payload: unknown,
  options: SqliteEnqueueOptions = {},
): Enqueued {
  protectFile(checkDatabase(db));
  const message = prepare(topic, payload, options, ["table"]);
  const table = tableName("table", options.table, "outbox_messages");
  const { messageId } = message;
  const taken = message.unique === null ? NOTHING : take(db, table, message, message.unique);
  if (!taken.isOurs) return { messageId, duplicate: true, ...("keptOutBy" in taken && { keptOutBy: taken.keptOutBy }) };
  const duplicate = !store(db, table, message);
  return { messageId, duplicate, ...("replaced" in taken && { replaced: taken.replaced }) };
}

/** Whether a row was stored. Times are microseconds since 1970. */
function store(db: SqliteDatabase, table: string, message: Prepared): boolean {
  const { due, destination, headers } = message;
  const { changes } = statement(
    db,
    `
    INSERT INTO ${table} (id, message_id, topic, payload, destination, headers, correlation_id, due_at, kind,
                          expires_at, max_attempts, lane)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, 'Event'), ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  ).run(
    bytesOf(message.rowId),
    destination === null ? null : bytesOf(message.messageId),
    message.topic,
    message.text,
    destination,
    headers === null ? null : JSON.stringify(headers),
    message.correlationId,
    due === null ? null : "at" in due ? BigInt(due.at.getTime()) * 1000n : micros(due.inSeconds),
    message.kind,
    message.ttlSeconds === null ? null : micros(message.ttlSeconds),
    message.maxAttempts === null ? null : BigInt(message.maxAttempts),
    message.lane,
  );
  return changes > 0;
}

/** The time so many seconds from now. */
function micros(inSeconds: number): bigint {
  return BigInt(Date.now() + inSeconds * 1000) * 1000n;
}

type Taken = { isOurs: boolean; keptOutBy?: string; replaced?: string };

/** Takes a unique key for a message that is inserted next. */
function take(db: SqliteDatabase, table: string, message: Prepared, unique: PreparedUnique): Taken {
  if (!db.inTransaction) {
    throw new InvalidError("a unique key needs a transaction: it is taken together with the message", {
      advice: "db.transaction(() => enqueue(…)).immediate()",
    });
  }
  const id = bytesOf(message.rowId);
  const { changes } = statement(
    db,
    `
    INSERT INTO ${table}_unique (name, id, until, until_done, replaces) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET id = excluded.id, until = excluded.until, until_done = excluded.until_done,
        replaces = excluded.replaces, at = excluded.at, look_at = excluded.look_at`,
  ).run(
    unique.key,
    id,
    unique.forSeconds === null ? null : micros(unique.forSeconds),
    unique.untilDone ? 1n : 0n,
    unique.ifTaken === "replace" ? 1n : 0n,
  );
  const row = statement(db, `SELECT id, replaced FROM ${table}_unique WHERE name = ?`).get(unique.key) as
    { id: Buffer; replaced: Buffer | null } | undefined;
  if (changes > 0) {
    return row?.replaced && unique.ifTaken === "replace" ? { isOurs: true, replaced: uuidOf(row.replaced) } : NOTHING;
  }
  if (statement(db, `SELECT 1 FROM ${table} WHERE id = ?`).get(id) !== undefined) return { isOurs: false };
  const keptOutBy = row === undefined ? undefined : uuidOf(row.id);
  if (unique.ifTaken === "refuse") throw new KeyTakenError("another message has the unique key", { keptOutBy });
  return { isOurs: false, ...(keptOutBy !== undefined && { keptOutBy }) };
}
