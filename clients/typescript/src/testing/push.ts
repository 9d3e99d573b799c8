import { newMessageId } from "../message/id.js";
import { payloadText } from "../message/payload.js";
import { WebhookKeys } from "../receive/secret.js";

/**
 * What to say of a message that is posted to a receiver.
 *
 * ```ts
 * const options: PushOptions = { secret, topic: "order.placed", payload: { order: 7 }, attempt: 2 };
 * ```
 */
export interface PushOptions {
  topic: string;
  payload: unknown;
  /** The secret of the receiver. */
  secret: string;
  url?: string;
  messageId?: string;
  attempt?: number;
  source?: string;
  correlationId?: string;
  lane?: string;
  /** When it is signed; now by default. */
  at?: Date;
}

/**
 * A request as a node would post it, to test a receiver without a node.
 *
 * ```ts
 * const response = await fetchHandler(receiver)(pushRequest({ secret, topic: "order.placed", payload: { order: 7 } }));
 * assert.equal(response.status, 200);
 * ```
 */
export function pushRequest(options: PushOptions): Request {
  const { url = "http://127.0.0.1:8080/messages", messageId = newMessageId(), at = new Date() } = options;
  const body = Buffer.from(payloadText(options.payload));
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const named = {
    "postroom-source": options.source,
    "postroom-correlation-id": options.correlationId,
    "postroom-lane": options.lane,
  };
  const known = Object.entries(named).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const headers = {
    "content-type": "application/json",
    "postroom-message-id": messageId,
    "postroom-topic": latin1(options.topic),
    "postroom-attempt": String(options.attempt ?? 1),
    ...Object.fromEntries(known.map(([name, value]) => [name, latin1(value)])),
    "webhook-id": messageId,
    "webhook-timestamp": timestamp,
    "webhook-signature": new WebhookKeys([options.secret]).sign(messageId, timestamp, body),
  };
  return new Request(url, { method: "POST", headers, body });
}

/** A header carries the bytes of UTF-8. */
function latin1(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
