import type { Enqueued, EnqueueOptions } from "../message/options.js";
import type { CallSignal, Cancelled, NewMessage, RequestOptions, WaitOptions } from "./options.js";
import type { MessageStatus, Result } from "./status.js";

/**
 * What a `Client` can do. Name this type where your code takes a client, so that a test can give it a `FakePostroom`.
 *
 * ```ts
 * async function placeOrder(postroom: PostroomClient, order: number) {
 *   await postroom.enqueue("order.placed", { order });
 * }
 * ```
 */
export interface PostroomClient {
  enqueue(topic: string, payload: unknown, options?: EnqueueOptions & RequestOptions): Promise<Enqueued>;
  enqueueMany(messages: readonly NewMessage[], options?: RequestOptions): Promise<Enqueued[]>;
  status(id: string, options?: CallSignal): Promise<MessageStatus[]>;
  wait<Answer = unknown>(id: string, options?: WaitOptions): Promise<Result<Answer>>;
  cancel(id: string, options?: CallSignal): Promise<Cancelled>;
  cancelLane(lane: string, options?: CallSignal): Promise<Cancelled>;
  cancelKey(key: string, options?: CallSignal): Promise<Cancelled>;
}
