/**
 * Reliable messages between services, in the database you already have. This is the part for a node's HTTP API: a
 * client, a worker that fetches messages, and a receiver for those that a node posts.
 *
 * @packageDocumentation
 */
export { Client } from "./http/client.js";
export type { CallSignal, Cancelled, ClientOptions, NewMessage, RequestOptions, WaitOptions } from "./http/options.js";
export type { PostroomClient } from "./http/api.js";
export type { ConnectOptions } from "./http/connection.js";
export type { MessageStatus, Result, State } from "./http/status.js";
export type { Kind } from "./message/check.js";
export type { Enqueued, EnqueueOptions, Unique } from "./message/options.js";
export type { Span } from "./message/span.js";
export { newMessageId } from "./message/id.js";
export { Message } from "./message/message.js";
export type { Handler, HandlerContext, MessageFields } from "./message/message.js";
export { RawPayload } from "./message/payload.js";
export { Retry, Terminal } from "./outcome.js";
export { Worker } from "./worker/worker.js";
export type { Queue, WorkerOptions } from "./worker/options.js";
export { Receiver } from "./receive/receiver.js";
export type { PushAnswer, PushRequest, ReceiverOptions } from "./receive/receiver.js";
export type { HeaderOf } from "./receive/verify.js";
export { fetchHandler } from "./receive/fetch.js";
export { nodeListener } from "./receive/node.js";
export {
  CancelledError,
  ConflictError,
  InvalidError,
  KeyTakenError,
  LeaseLostError,
  NodeError,
  NotAllowedError,
  NotFoundError,
  PostroomError,
  StoppedError,
  TimeoutError,
  UnavailableError,
} from "./errors.js";
export type { ErrorDetails, FieldError } from "./errors.js";
