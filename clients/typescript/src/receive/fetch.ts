import { readBody } from "./body.js";
import type { Receiver } from "./receiver.js";

/**
 * A receiver as a function from `Request` to `Response`, for servers that speak fetch.
 *
 * ```ts
 * const handler = fetchHandler(receiver);
 * const POST = (request: Request) => handler(request);
 * ```
 */
export function fetchHandler(receiver: Receiver): (request: Request) => Promise<Response> {
  return async (request) => {
    const body = await readBody(chunksOf(request), receiver.bodyMax);
    if (body === undefined) return new Response("the body is too large", { status: 413 });
    const {
      status,
      headers,
      body: text,
    } = await receiver.receive({
      method: request.method,
      header: (name) => request.headers.get(name) ?? undefined,
      body,
      signal: request.signal,
    });
    return new Response(status === 204 ? null : text, { status, headers });
  };
}

async function* chunksOf(request: Request): AsyncGenerator<Uint8Array> {
  if (request.body !== null) yield* request.body as unknown as AsyncIterable<Uint8Array>;
}
