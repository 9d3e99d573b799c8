import { InvalidError } from "../errors.js";

/**
 * A connection of `pg`: a `Client`, or the client that a `Pool` gave you.
 *
 * ```ts
 * const client: PgClient = await pool.connect();
 * ```
 */
export interface PgClient {
  query(text: string, values: unknown[]): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
}

/** Refuses what is no connection. A pool would run each statement on another one, outside your transaction. */
export function checkClient(client: PgClient): PgClient {
  if (typeof client?.query !== "function") throw new InvalidError("the first argument must be a client of pg");
  if ("totalCount" in client && "idleCount" in client) {
    throw new InvalidError("this is a pool, and your transaction is on one of its clients", {
      advice: "the client from pool.connect() that ran BEGIN",
    });
  }
  return client;
}
