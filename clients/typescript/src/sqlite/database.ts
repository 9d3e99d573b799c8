import { InvalidError } from "../errors.js";

/**
 * A prepared statement of `better-sqlite3`.
 *
 * ```ts
 * const statement: SqliteStatement = db.prepare("SELECT 1");
 * ```
 */
export interface SqliteStatement {
  run(...values: unknown[]): { changes: number };
  get(...values: unknown[]): unknown;
}

/**
 * A database of `better-sqlite3`.
 *
 * ```ts
 * const shop: SqliteDatabase = new Database("shop.db");
 * ```
 */
export interface SqliteDatabase {
  readonly inTransaction: boolean;
  prepare(sql: string): SqliteStatement;
  pragma(source: string, options?: { simple?: boolean }): unknown;
}

/** The first version whose checkpoints are safe beside another program. */
const SAFE = [3, 51, 3] as const;

const statements = new WeakMap<SqliteDatabase, Map<string, SqliteStatement>>();
const guarded = new WeakSet<SqliteDatabase>();

/** Refuses what is no database. */
export function checkDatabase(db: SqliteDatabase): SqliteDatabase {
  if (typeof db?.prepare !== "function" || typeof db.pragma !== "function") {
    throw new InvalidError("the first argument must be a database of better-sqlite3");
  }
  return db;
}

/** A statement, prepared once for each database. */
export function statement(db: SqliteDatabase, sql: string): SqliteStatement {
  const known = statements.get(db) ?? new Map<string, SqliteStatement>();
  statements.set(db, known);
  const found = known.get(sql) ?? db.prepare(sql);
  known.set(sql, found);
  return found;
}

/**
 * Leaves the checkpoints to the node if the SQLite of this program is older than 3.51.3: older ones can, very rarely,
 * corrupt a file that another program writes to. Call it right after you opened the database, before the first write. It
 * returns whether it changed anything.
 *
 * If no node runs for a long time, the file beside the database (`-wal`) grows then.
 *
 * ```ts
 * const db = new Database("shop.db");
 * protectFile(db);
 * ```
 */
export function protectFile(db: SqliteDatabase): boolean {
  checkDatabase(db);
  if (guarded.has(db)) return false;
  guarded.add(db);
  const { version } = statement(db, "SELECT sqlite_version() AS version").get() as { version: string };
  if (!isOld(version)) return false;
  db.pragma("wal_autocheckpoint = 0");
  return true;
}

/** Whether a version of SQLite is older than the first safe one. */
export function isOld(version: string): boolean {
  const parts = version.split(".").map(Number);
  const place = SAFE.findIndex((part, at) => (parts[at] ?? 0) !== part);
  return place >= 0 && !((parts[place] ?? 0) > SAFE[place]!);
}
