import type { IncomingMessage, ServerResponse } from "node:http";

import { readBody } from "./body.js";
import type { PushAnswer, Receiver } from "./receiver.js";

/**
 * A receiver as a listener of `node:http`.
 *
 * ```ts
 * createServer(nodeListener(receiver)).listen(8080, "127.0.0.1");
 * ```
 */
export function nodeListener(receiver: Receiver): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    // Only a connection that breaks ends here, and then nobody hears an answer.
    respond(receiver, request, response, streamOf(request)).catch(() => response.destroy());
  };
}

/** The body of a request. If it is not read to its end, the connection stays open for the answer. */
export function streamOf(request: IncomingMessage): AsyncIterable<Uint8Array> {
  return request.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
}

/** Answers a request whose body comes from there. */
export async function respond(
  receiver: Receiver,
  request: IncomingMessage,
  response: ServerResponse,
  chunks: AsyncIterable<Uint8Array>,
): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) gone.abort(new Error("the node no longer waits for the answer"));
  });
  const isLong = Number(request.headers["content-length"] ?? 0) > receiver.bodyMax;
  const body = isLong ? undefined : await readBody(chunks, receiver.bodyMax);
  const answer: PushAnswer =
    body === undefined
      ? { status: 413, headers: { connection: "close" }, body: "the body is too large" }
      : await receiver.receive({
          method: request.method ?? "",
          header: (name) => single(request, name),
          body,
          signal: gone.signal,
        });
  if (response.destroyed) return;
  response.writeHead(answer.status, answer.headers).end(answer.body);
}

/** A header that is there once. */
function single(request: IncomingMessage, name: string): string | undefined {
  const values = request.headersDistinct[name];
  return values?.length === 1 ? values[0] : undefined;
}
