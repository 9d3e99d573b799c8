import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { TestContext } from "node:test";

import Database from "better-sqlite3";
import mysql from "mysql2/promise";
import pg from "pg";
import type { Enqueued, EnqueueOptions, Message } from "postroom";
import * as onMysql from "postroom/mysql";
import * as onPg from "postroom/pg";
import * as onSqlite from "postroom/sqlite";

import { atEnd } from "./cleanup.js";
import { BIN, run, unset } from "./need.js";
import { folder } from "./node.js";

/** A transaction of the caller. */
export interface Tx {
  enqueue(topic: string, payload: unknown, options?: EnqueueOptions & { table?: string }): Promise<Enqueued>;
  once<T>(message: Pick<Message, "id" | "source">, work: () => T): Promise<T>;
  run(sql: string): Promise<Record<string, unknown>[]>;
}

/** A fresh database with Postroom's tables, the caller's `orders`, and the table of `once`. */
export interface Shop {
  /** What `POSTROOM_DB` is. */
  url: string;
  /** The outbox. */
  outbox: string;
  /** Begins a transaction on a connection of its own, and commits it if nothing throws. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  forget(olderThan: "1s" | "1d"): Promise<number>;
}

/** A kind of database. */
export interface Kind {
  name: "SQLite" | "PostgreSQL" | "MySQL";
  /** Why it cannot be tested. */
  missing: string | undefined;
  open(t: TestContext): Promise<Shop>;
}

const ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL)";

async function migrate(url: string): Promise<void> {
  await run(BIN, ["migrate"], { env: { ...process.env, POSTROOM_DB: url } });
}

function freshName(): string {
  return `ts_${randomBytes(6).toString("hex")}`;
}

/** A transaction whose end depends on the work. */
async function within<T>(
  command: (sql: string) => Promise<unknown>,
  begin: string,
  work: () => Promise<T>,
): Promise<T> {
  await command(begin);
  try {
    const result = await work();
    await command("COMMIT");
    return result;
  } catch (error) {
    await command("ROLLBACK");
    throw error;
  }
}

export const sqlite: Kind = {
  name: "SQLite",
  missing: undefined,
  async open(t) {
    const url = join(await folder(t), "shop.db");
    await migrate(url);
    const db = new Database(url);
    atEnd(t, () => db.close());
    onSqlite.protectFile(db);
    db.exec(ORDERS);
    onSqlite.createHandledTable(db);
    const tx: Tx = {
      enqueue: async (topic, payload, options) => onSqlite.enqueue(db, topic, payload, options),
      once: async (message, work) => onSqlite.once(db, message, work),
      run: async (sql) =>
        /^SELECT/i.test(sql) ? (db.prepare(sql).all() as Record<string, unknown>[]) : (db.exec(sql), []),
    };
    return {
      url,
      outbox: "outbox_messages",
      transaction: (work) => within(tx.run, "BEGIN IMMEDIATE", () => work(tx)),
      forget: async (olderThan) => onSqlite.forgetHandled(db, olderThan),
    };
  },
};

/** A connection to a database of this server. */
export async function pgClient(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on("error", () => undefined);
  await client.connect();
  atEnd(t, () => client.end());
  return client;
}

function otherDatabase(url: string, name: string): string {
  return url.replace(/^([a-z]+:\/\/[^/?]*\/)[^?]*/, `$1${name}`);
}

/** A fresh database on the server. */
export async function pgDatabase(t: TestContext): Promise<string> {
  const server = process.env["POSTROOM_TEST_POSTGRES_URL"] ?? "";
  const name = freshName();
  const admin = await pgClient(t, server);
  await admin.query(`CREATE DATABASE ${name}`);
  atEnd(t, () => admin.query(`DROP DATABASE ${name} WITH (FORCE)`));
  return otherDatabase(server, name);
}

export const postgres: Kind = {
  name: "PostgreSQL",
  missing: unset("POSTROOM_TEST_POSTGRES_URL"),
  async open(t) {
    const url = await pgDatabase(t);
    await migrate(url);
    const pool = new pg.Pool({ connectionString: url, max: 5 });
    pool.on("error", () => undefined);
    atEnd(t, () => pool.end());
    await pool.query(ORDERS);
    await onPg.createHandledTable(await pgClient(t, url));
    return {
      url,
      outbox: "infra.outbox",
      async transaction(work) {
        const client = await pool.connect();
        const tx: Tx = {
          enqueue: (topic, payload, options) => onPg.enqueue(client, topic, payload, options),
          once: (message, work) => onPg.once(client, message, work),
          run: async (sql) => (await client.query(sql)).rows as Record<string, unknown>[],
        };
        return within(tx.run, "BEGIN", () => work(tx)).finally(() => client.release());
      },
      forget: async (olderThan) => onPg.forgetHandled(await pgClient(t, url), olderThan),
    };
  },
};

/** A connection to a MySQL or MariaDB server, by a URL as the node takes it. */
export async function mysqlConnection(t: TestContext, url: string, user?: string): Promise<mysql.Connection> {
  const parsed = new URL(url);
  const connection = await mysql.createConnection({
    host: parsed.hostname,
    user: user ?? decodeURIComponent(parsed.username),
    password: user === undefined ? decodeURIComponent(parsed.password) : "",
    database: parsed.pathname.slice(1),
    ...(parsed.port === "" ? {} : { port: Number(parsed.port) }),
    ...(parsed.searchParams.has("socket") ? { socketPath: parsed.searchParams.get("socket")! } : {}),
  });
  atEnd(t, () => connection.end());
  return connection;
}

export const mariadb: Kind = {
  name: "MySQL",
  missing: unset("POSTROOM_TEST_MYSQL_URL"),
  async open(t) {
    const server = process.env["POSTROOM_TEST_MYSQL_URL"] ?? "";
    const name = freshName();
    const admin = await mysqlConnection(t, server);
    await admin.query(`CREATE DATABASE ${name}`);
    atEnd(t, () => admin.query(`DROP DATABASE ${name}`));
    const url = otherDatabase(server, name);
    await migrate(url);
    await admin.query(ORDERS.replace("orders", `${name}.orders`));
    await onMysql.createHandledTable(await mysqlConnection(t, url));
    return {
      url,
      outbox: "infra_outbox",
      async transaction(work) {
        const connection = await mysqlConnection(t, url);
        await connection.query("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
        const tx: Tx = {
          enqueue: (topic, payload, options) => onMysql.enqueue(connection, topic, payload, options),
          once: (message, work) => onMysql.once(connection, message, work),
          run: async (sql) => (await connection.query(sql))[0] as unknown as Record<string, unknown>[],
        };
        return within(tx.run, "START TRANSACTION", () => work(tx));
      },
      forget: async (olderThan) => onMysql.forgetHandled(await mysqlConnection(t, url), olderThan),
    };
  },
};
