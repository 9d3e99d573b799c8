import { KeyTakenError } from "../errors.js";
import { bytesOf, uuidOf } from "../message/id.js";
import type { Enqueued, EnqueueOptions } from "../message/options.js";
import { prepare, type Prepared, type PreparedUnique } from "../message/prepared.js";
import { tableName } from "../message/table.js";
import { checkConnection, errorNumber, execute, rows, rowsIfAllowed, type MysqlConnection } from "./connection.js";

/**
 * Options of `enqueue` on MySQL and MariaDB.
 *
 * ```ts
 * await enqueue(connection, "order.placed", { order: 7 }, { table: "shop_outbox", lane: "order-7" });
 * ```
 */
export interface MysqlEnqueueOptions extends EnqueueOptions {
  /** The outbox; `infra_outbox` by default. */
  table?: string;
}

const DUPLICATE = 1062;

/**
 * Enqueues a message in your own transaction: it exists if and only if that commits. This never commits. It calls
 * procedures, so the account needs no right on the tables.
 *
 * With a unique key, use READ COMMITTED: in REPEATABLE READ, others who enqueue wait for your commit.
 *
 * ```ts
 * await connection.beginTransaction();
 * await connection.execute("INSERT INTO orders (id) VALUES (?)", [7]);
 * await enqueue(connection, "order.placed", { order: 7 });
 * await connection.commit();
 * ```
 */
export async function enqueue(
  connection: MysqlConnection,
  topic: string,
  payload: unknown,
  options: MysqlEnqueueOptions = {},
): Promise<Enqueued> {
  checkConnection(connection);
  const message = prepare(topic, payload, options, ["table"]);
  const table = tableName("table", options.table, "infra_outbox");
  const { messageId } = message;
  const taken = message.unique === null ? { isOurs: true } : await take(connection, table, message, message.unique);
  if (!taken.isOurs) return { messageId, duplicate: true, ...(taken.keptOutBy && { keptOutBy: taken.keptOutBy }) };
  const duplicate = !(await store(connection, table, message));
  return { messageId, duplicate, ...(taken.replaced && { replaced: taken.replaced }) };
}

/** Whether a row was stored: a new row sets the connection's last number, a duplicate does not. */
async function store(connection: MysqlConnection, table: string, message: Prepared): Promise<boolean> {
  const { due, headers } = message;
  if (message.hasOwnId) await execute(connection, "SELECT LAST_INSERT_ID(0)", []);
  await execute(
    connection,
    `CALL ${table}_enqueue_with(?, ?, ?, ?, ?, ?,
       COALESCE(CAST(? AS DATETIME(6)), DATE_ADD(UTC_TIMESTAMP(6), INTERVAL CAST(? AS SIGNED) SECOND)), ?, ?, ?, ?)`,
    [
      message.topic,
      message.text,
      message.destination,
      message.messageId,
      headers === null ? null : JSON.stringify(headers),
      message.correlationId,
      due !== null && "at" in due ? due.at.toISOString().replace("T", " ").replace("Z", "") : null,
      due !== null && "inSeconds" in due ? String(due.inSeconds) : null,
      message.kind,
      message.ttlSeconds,
      message.maxAttempts,
      message.lane,
    ],
  );
  if (!message.hasOwnId) return true;
  const [last] = await rows(connection, "SELECT LAST_INSERT_ID() AS seq", []);
  return Number(last?.["seq"]) !== 0;
}

interface Taken {
  isOurs: boolean;
  keptOutBy?: string;
  replaced?: string;
}

/** Takes a unique key for a message that is enqueued next. */
async function take(
  connection: MysqlConnection,
  table: string,
  message: Prepared,
  unique: PreparedUnique,
): Promise<Taken> {
  const id = bytesOf(message.rowId);
  try {
    await execute(
      connection,
      `CALL ${table}_take(?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + CAST(? AS SIGNED) * 1000000,
         ?, ?, NULL, NULL)`,
      [
        unique.key,
        id,
        unique.forSeconds === null ? null : String(unique.forSeconds),
        unique.untilDone ? 1 : 0,
        unique.ifTaken === "replace" ? 1 : 0,
      ],
    );
  } catch (error) {
    if (errorNumber(error) !== DUPLICATE) throw error;
    return keptOut(connection, table, message, unique);
  }
  if (unique.ifTaken !== "replace") return { isOurs: true };
  const [row] = await rowsIfAllowed(connection, `SELECT replaced FROM ${table}_unique WHERE name = ? AND id = ?`, [
    unique.key,
    id,
  ]);
  const replaced = row?.["replaced"];
  return { isOurs: true, ...(replaced instanceof Uint8Array && { replaced: uuidOf(replaced) }) };
}

/** Either the message is stored already, or another one has the key. */
async function keptOut(
  connection: MysqlConnection,
  table: string,
  message: Prepared,
  unique: PreparedUnique,
): Promise<Taken> {
  const own = message.hasOwnId
    ? await rowsIfAllowed(connection, `SELECT 1 FROM ${table} WHERE id = ?`, [bytesOf(message.rowId)])
    : [];
  if (own.length > 0) return { isOurs: false };
  const [row] = await rowsIfAllowed(connection, `SELECT id FROM ${table}_unique WHERE name = ?`, [unique.key]);
  const keptOutBy = row?.["id"] instanceof Uint8Array ? uuidOf(row["id"]) : undefined;
  if (unique.ifTaken === "refuse") throw new KeyTakenError("another message has the unique key", { keptOutBy });
  return { isOurs: false, ...(keptOutBy !== undefined && { keptOutBy }) };
}
