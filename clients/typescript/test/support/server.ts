import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { atEnd } from "./cleanup.js";

/** A request that a scripted server got. */
export interface Got {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: any;
  /** Answers with JSON. */
  answer: (status: number, body: unknown, headers?: Record<string, string>) => void;
  /** Breaks the connection without an answer. */
  break: () => void;
  response: ServerResponse;
}

/** A server that does with each request what `script` says. */
export async function scripted(t: TestContext, script: (got: Got) => void): Promise<{ url: string; got: Got[] }> {
  const got: Got[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const text = Buffer.concat(parts).toString();
      const one: Got = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: text === "" ? undefined : JSON.parse(text),
        answer: (status, body, headers) => {
          response.writeHead(status, { "content-type": "application/json", ...headers });
          response.end(JSON.stringify(body));
        },
        break: () => request.socket.destroy(),
        response,
      };
      got.push(one);
      script(one);
    });
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  atEnd(t, () => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
}

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((up) => server.once("listening", up));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** The address of a server that is gone. */
export async function closed(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}
