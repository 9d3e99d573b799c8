import type { Prepared } from "../message/prepared.js";
import type { PgClient } from "./client.js";

/** Whether the role may read a table. To try it instead would end the transaction. */
export async function mayRead(client: PgClient, table: string): Promise<boolean> {
  const { rows } = await client.query("SELECT has_table_privilege($1::text, 'SELECT') AS may", [table]);
  return rows[0]?.["may"] === true;
}

/** Whether the message is stored already, as far as this transaction can see. */
export async function existing(client: PgClient, table: string, message: Prepared): Promise<boolean> {
  const { rows } = await client.query(`SELECT 1 FROM ${table} WHERE id = $1::uuid`, [message.rowId]);
  return rows.length > 0;
}

/**
 * Whether this transaction wrote the row of a message. Another one may have written it since `existing` looked; that one
 * has committed then. A row has only the lower half of the number of its transaction, or of its savepoint. The upper half
 * is the one that makes it a neighbour of our own.
 */
export async function wroteIt(client: PgClient, table: string, message: Prepared): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT pg_xact_status((own + (half - (own & 4294967295) + 6442450944) % 4294967296 - 2147483648)::text::xid8)
            = 'in progress' AS ours
     FROM (SELECT xmin::text::bigint AS half, pg_current_xact_id()::text::bigint AS own
           FROM ${table} WHERE id = $1::uuid) AS written`,
    [message.rowId],
  );
  return rows[0]?.["ours"] === true;
}
