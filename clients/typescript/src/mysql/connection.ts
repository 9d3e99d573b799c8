import { InvalidError } from "../errors.js";

/**
 * A connection of `mysql2/promise`, or one that its pool gave you.
 *
 * ```ts
 * const connection: MysqlConnection = await mysql.createConnection("mysql://shop@localhost/shop");
 * ```
 */
export interface MysqlConnection {
  execute(sql: string, values: never[]): Promise<[unknown, unknown]>;
}

/** Refuses what is no connection. A pool would run each statement on another one, outside your transaction. */
export function checkConnection(connection: MysqlConnection): MysqlConnection {
  if (typeof connection?.execute !== "function") {
    throw new InvalidError("the first argument must be a connection of mysql2/promise");
  }
  if ("getConnection" in connection) {
    throw new InvalidError("this is a pool, and your transaction is on one of its connections", {
      advice: "the connection from pool.getConnection() that began the transaction",
    });
  }
  if ("promise" in connection && typeof connection.promise === "function") {
    throw new InvalidError("this connection works with callbacks", { advice: "connection.promise()" });
  }
  return connection;
}

/** Runs a statement with bound values. They are sent apart from the text, whatever the server's SQL mode is. */
export async function execute(connection: MysqlConnection, sql: string, values: readonly unknown[]): Promise<unknown> {
  const [result] = await connection.execute(sql, values as never[]);
  return result;
}

/** The rows of a query. */
export async function rows(
  connection: MysqlConnection,
  sql: string,
  values: readonly unknown[],
): Promise<Record<string, unknown>[]> {
  return (await execute(connection, sql, values)) as Record<string, unknown>[];
}

/** The number of an error of the server. */
export function errorNumber(error: unknown): number | undefined {
  const { errno } = (error ?? {}) as { errno?: unknown };
  return typeof errno === "number" ? errno : undefined;
}

const DENIED = [1142, 1143, 1370];

/** The rows of a query, or none if the account may not read the table. That ends no transaction on MySQL. */
export async function rowsIfAllowed(
  connection: MysqlConnection,
  sql: string,
  values: readonly unknown[],
): Promise<Record<string, unknown>[]> {
  try {
    return await rows(connection, sql, values);
  } catch (error) {
    if (DENIED.includes(errorNumber(error) ?? 0)) return [];
    throw error;
  }
}
