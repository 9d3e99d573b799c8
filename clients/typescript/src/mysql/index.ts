/**
 * MySQL and MariaDB, with `mysql2/promise`: enqueue in your own transaction, and handle a message once.
 *
 * @packageDocumentation
 */
export type { MysqlConnection } from "./connection.js";
export { enqueue, type MysqlEnqueueOptions } from "./enqueue.js";
export { createHandledTable, forgetHandled, handledTable, once } from "./once.js";
export type { OnceOptions } from "../message/handled.js";
