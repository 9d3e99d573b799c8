/**
 * PostgreSQL, with `pg`: enqueue in your own transaction, and handle a message once.
 *
 * @packageDocumentation
 */
export type { PgClient } from "./client.js";
export { enqueue, type PgEnqueueOptions } from "./enqueue.js";
export { createHandledTable, forgetHandled, handledTable, once } from "./once.js";
export type { OnceOptions } from "../message/handled.js";
