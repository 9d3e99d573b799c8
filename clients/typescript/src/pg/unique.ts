import { KeyTakenError } from "../errors.js";
import type { Prepared, PreparedUnique } from "../message/prepared.js";
import type { PgClient } from "./client.js";
import { existing, mayRead } from "./duplicate.js";

/** Whether a message has its unique key now. */
export interface Taken {
  isOurs: boolean;
  keptOutBy?: string;
  replaced?: string;
}

/** Takes a unique key for a message that is enqueued next. It throws if that is refused. */
export async function take(client: PgClient, table: string, message: Prepared, unique: PreparedUnique): Promise<Taken> {
  const { rowCount } = await client.query(
    `INSERT INTO ${table}_take (name, id, until, until_done, replaces)
     VALUES ($1::text, $2::uuid, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3::bigint * 1000000,
             $4::boolean, $5::boolean)`,
    [unique.key, message.rowId, unique.forSeconds, unique.untilDone, unique.ifTaken === "replace"],
  );
  const isOurs = (rowCount ?? 0) > 0;
  if (!isOurs && message.hasOwnId && (await mayRead(client, table)) && (await existing(client, table, message))) {
    return { isOurs };
  }
  const keyed = (await mayRead(client, `${table}_unique`)) ? await row(client, table, unique.key) : {};
  if (isOurs) return { isOurs, ...(keyed.replaced && unique.ifTaken === "replace" && { replaced: keyed.replaced }) };
  if (unique.ifTaken === "refuse") {
    throw new KeyTakenError("another message has the unique key", { keptOutBy: keyed.id });
  }
  return { isOurs, ...(keyed.id && { keptOutBy: keyed.id }) };
}

async function row(client: PgClient, table: string, key: string): Promise<{ id?: string; replaced?: string }> {
  const { rows } = await client.query(`SELECT id::text, replaced::text FROM ${table}_unique WHERE name = $1::text`, [
    key,
  ]);
  return (rows[0] ?? {}) as { id?: string; replaced?: string };
}
