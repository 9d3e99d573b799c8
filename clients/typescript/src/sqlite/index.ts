/**
 * SQLite, with `better-sqlite3`: enqueue in your own transaction, and handle a message once.
 *
 * @packageDocumentation
 */
export { protectFile, type SqliteDatabase, type SqliteStatement } from "./database.js";
export { enqueue, type SqliteEnqueueOptions } from "./enqueue.js";
export { createHandledTable, forgetHandled, handledTable, once } from "./once.js";
export type { OnceOptions } from "../message/handled.js";
