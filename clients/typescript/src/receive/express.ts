/**
 * A receiver for Express.
 *
 * @packageDocumentation
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import { InvalidError } from "../errors.js";
import { respond, streamOf } from "./node.js";
import type { Receiver } from "./receiver.js";

/**
 * A handler of Express.
 *
 * ```ts
 * const handler: ExpressHandler = expressHandler(receiver);
 * ```
 */
export type ExpressHandler = (
  request: IncomingMessage & { body?: unknown },
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/**
 * A receiver as a handler of Express. It reads the body itself, because the signature covers its bytes: add it before
 * `express.json()`, or give it the bytes with `express.raw({ type: () => true })`.
 *
 * ```ts
 * const app = express();
 * app.post("/messages", expressHandler(receiver));
 * app.use(express.json());
 * ```
 */
export function expressHandler(receiver: Receiver): ExpressHandler {
  return (request, response, next) => {
    const { body } = request;
    if (request.readableEnded && !Buffer.isBuffer(body)) {
      return next(
        new InvalidError("the body was read before the receiver saw it", {
          advice: "add the receiver before express.json()",
        }),
      );
    }
    respond(receiver, request, response, Buffer.isBuffer(body) ? one(body) : streamOf(request)).catch(next);
  };
}

async function* one(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}
