import { request as httpRequest, type Agent, type IncomingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";

/** An answer, with its bytes as they came. */
export interface RawAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

const BODY_MAX = 4 * 1024 * 1024;

/**
 * Posts a body. Not with `fetch`: that would decompress the answer, and the receipt covers its bytes. Redirects are not
 * followed.
 */
export function post(
  url: URL,
  headers: Record<string, string>,
  body: Uint8Array,
  signal: AbortSignal,
  agent: Agent | undefined,
): Promise<RawAnswer> {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const outgoing = send(url, {
      method: "POST",
      headers: { ...headers, "content-length": body.byteLength },
      signal,
      ...(agent === undefined ? {} : { agent }),
    });
    outgoing.on("error", reject);
    outgoing.on("response", (answer) => {
      const parts: Buffer[] = [];
      let length = 0;
      answer.on("error", reject);
      answer.on("data", (part: Buffer) => {
        length += part.length;
        if (length > BODY_MAX) outgoing.destroy(new Error("the answer is too long"));
        else parts.push(part);
      });
      answer.on("end", () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }),
      );
    });
    outgoing.end(body);
  });
}
