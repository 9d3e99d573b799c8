// A real node posts to a receiver.
import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";

import express from "express";
import { nodeListener, Receiver, Retry, Terminal } from "postroom";
import { expressHandler } from "postroom/express";

import { atEnd } from "./support/cleanup.js";
import { needing, noNode } from "./support/need.js";
import { folder, TestNode } from "./support/node.js";
import { eventually } from "./support/signal.js";

const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;

/** A node that posts everything to this receiver. */
async function pushing(t: TestContext, listener: RequestListener): Promise<TestNode> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  atEnd(t, () => server.close());
  atEnd(t, () => server.closeAllConnections());
  await new Promise((up) => server.once("listening", up));
  const file = join(await folder(t), "handler.key");
  await writeFile(file, secret);
  await chmod(file, 0o600);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/messages`;
  return TestNode.start(t, `[handlers."*"]\nurl = "${url}"\nsecret = { file = "${file}" }\n`);
}

needing("a node posts to a receiver", [noNode], (test) => {
  test("it answers, retries in its time, and refuses", async (t) => {
    const receiver = new Receiver({ secrets: [secret], onError: () => undefined })
      .handle<{ order: number }>("order.placed", (message) => ({
        order: message.payload.order,
        lane: message.lane,
        correlation: message.correlationId,
      }))
      .handle("later", () => {
        throw new Retry({ after: "30m", why: "the printer is busy" });
      })
      .handle("bad", () => {
        throw new Terminal("an order needs items");
      });
    const node = await pushing(t, nodeListener(receiver));
    const client = node.client();
    const placed = await client.enqueue("order.placed", { order: 7 }, { lane: "größe", correlationId: "order-7" });
    assert.deepEqual((await client.wait(placed.messageId)).answer, { order: 7, lane: "größe", correlation: "order-7" });
    const later = await client.enqueue("later", null);
    const bad = await client.enqueue("bad", null);
    const refused = await client.wait(bad.messageId);
    assert.deepEqual([refused.state, /an order needs items/.test(refused.lastError ?? "")], ["dead", true]);
    const waiting = await eventually("it was tried", async () =>
      (await client.status(later.messageId)).find((message) => message.attempts === 1),
    );
    assert.match(waiting.lastError ?? "", /the printer is busy/);
    assert.ok(Date.parse(waiting.notBefore ?? "") - Date.now() > 20 * 60_000, "and not after the usual 2 s");
  });

  test("Express", async (t) => {
    const receiver = new Receiver({ secrets: [secret] }).handle("*", ({ payload }) => payload);
    const node = await pushing(t, express().post("/messages", expressHandler(receiver)) as RequestListener);
    const client = node.client();
    const { messageId } = await client.enqueue("a", { order: 7 });
    assert.deepEqual((await client.wait(messageId)).answer, { order: 7 });
  });
});
