// Services that send to each other: a client of the wire and a node, and two nodes.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { newMessageId, nodeListener, Receiver, Retry, Terminal, TimeoutError, Worker } from "postroom";
import { Key, WireClient } from "postroom/wire";

import { atEnd } from "./support/cleanup.js";
import { needing, noNode } from "./support/need.js";
import { folder, TestNode, TOKEN } from "./support/node.js";
import { freePort } from "./support/server.js";

const secret = `base64:${Buffer.alloc(32, 3).toString("base64")}`;
const kid = "2026-11";

async function keyFile(t: TestContext): Promise<string> {
  const file = join(await folder(t), "shop.key");
  await writeFile(file, secret, { mode: 0o600 });
  return file;
}

needing("services", [noNode], (test) => {
  test("a client of the wire sends to a node, and the node proves what it answers", async (t) => {
    const file = await keyFile(t);
    const node = await TestNode.start(
      t,
      `[node]\nname = "inventory"
[receiver]\nlisten = ["http://127.0.0.1:0"]
[sources.orders]\nkeys = { "${kid}" = { file = "${file}" }, "512" = { file = "${file}", algorithm = "HMAC-SHA512" } }
[handlers."*"]\npull = true\n`,
    );
    const { receiverUrl: url } = node;
    const client = (more: object = {}) =>
      new WireClient({ url, source: "orders", destination: "inventory", keys: [new Key({ kid, secret })], ...more });
    const sent = await client().send(
      "stock.reserve",
      { order: 7 },
      { kind: "Command", correlationId: "größe-7", headers: { language: "en" } },
    );
    assert.deepEqual([sent.outcome, sent.status, sent.hasReceipt, sent.duplicate], ["done", 202, true, false]);
    const { messageId, enqueuedAt } = sent;
    const again = await client({ keys: [new Key({ kid: "512", secret, algorithm: "HMAC-SHA512" })] }).send(
      "stock.reserve",
      { order: 7 },
      { kind: "Command", correlationId: "größe-7", headers: { language: "en" }, messageId, enqueuedAt, attempt: 2 },
    );
    assert.deepEqual([again.outcome, again.hasReceipt, again.duplicate], ["done", true, true]);
    const other = await client().send("stock.reserve", { order: 8 }, { kind: "Command", messageId, enqueuedAt });
    assert.deepEqual(
      [other.outcome, other.status, other.hasReceipt],
      ["dead", 422, true],
      "the same id with another payload",
    );
    const old = await client().send("a", 1, { enqueuedAt: 1n });
    assert.deepEqual([old.outcome, old.status], ["dead", 410]);
    const forged = await client({ keys: [new Key({ kid, secret: "another secret, long enough to be one" })] }).send(
      "a",
      1,
    );
    assert.deepEqual([forged.outcome, forged.status, forged.hasReceipt], ["unavailable", 401, false]);
    const misdirected = await client({ destination: "billing" }).send("a", 1);
    assert.deepEqual([misdirected.outcome, misdirected.status], ["unavailable", 401]);

    const got = new Promise<unknown[]>((done) => {
      const worker = new Worker({ url: node.url, token: TOKEN }).handle("stock.reserve", (message) =>
        done([message.id, message.source, message.correlationId, message.headers, message.payload, message.kind]),
      );
      atEnd(t, () => worker.stop());
      void worker.run();
    });
    assert.deepEqual(await got, [messageId, "orders", "größe-7", { language: "en" }, { order: 7 }, "Command"]);
  });

  test("a node that handles at once answers at once", async (t) => {
    const file = await keyFile(t);
    const receiver = new Receiver({ allowUnsigned: true, onError: () => undefined })
      .handle<{ order: number }>("stock.reserve", ({ payload, source }) => ({ shelf: payload.order * 2, source }))
      .handle("stock.refuse", () => {
        throw new Terminal("sold out");
      })
      .handle("stock.later", () => {
        throw new Retry({ after: "30s" });
      });
    const server = createServer(nodeListener(receiver)).listen(0, "127.0.0.1");
    atEnd(t, () => server.close());
    atEnd(t, () => server.closeAllConnections());
    await new Promise((up) => server.once("listening", up));
    const handler = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const node = await TestNode.start(
      t,
      `[node]\nname = "inventory"\n[receiver]\nlisten = ["http://127.0.0.1:0"]\nqueued = false
[sources.orders]\nkeys = { "${kid}" = { file = "${file}" } }\n[handlers."*"]\nurl = "${handler}"\n`,
    );
    const keys = [new Key({ kid, secret })];
    const client = new WireClient({ url: node.receiverUrl, source: "orders", destination: "inventory", keys });
    const sent = await client.send("stock.reserve", { order: 7 }, { kind: "Command" });
    assert.deepEqual([sent.outcome, sent.status, sent.answer], ["done", 200, { shelf: 14, source: "orders" }]);
    const { messageId, enqueuedAt } = sent;
    const again = await client.send("stock.reserve", { order: 7 }, { kind: "Command", messageId, enqueuedAt });
    assert.deepEqual([again.outcome, again.duplicate, again.answer], ["done", true, sent.answer]);
    const refused = await client.send("stock.refuse", 1);
    assert.deepEqual([refused.outcome, refused.status, refused.hasReceipt], ["dead", 422, true]);
    const later = await client.send("stock.later", 1);
    assert.deepEqual([later.outcome, later.hasReceipt, later.retryAfter], ["retry", true, 30]);
  });

  test("a command goes to another service, and its answer comes back", async (t) => {
    const file = await keyFile(t);
    const ports = { orders: await freePort(), inventory: await freePort() };
    const keys = `keys = { "${kid}" = { file = "${file}" } }`;
    const start = (name: "orders" | "inventory", peer: "orders" | "inventory") =>
      TestNode.start(
        t,
        `[node]\nname = "${name}"
[receiver]\nlisten = ["http://127.0.0.1:${ports[name]}"]
[services.${peer}]\nurl = "http://127.0.0.1:${ports[peer]}"\n${keys}
[sources.${peer}]\n${keys}
[handlers."*"]\npull = true\n`,
      );
    const [orders, inventory] = [await start("orders", "inventory"), await start("inventory", "orders")];
    const worker = new Worker({ url: inventory.url, token: TOKEN, onError: () => undefined })
      .handle<{ order: number }>("stock.reserve", ({ payload, source }) => ({ shelf: payload.order * 2, source }))
      .handle("stock.refuse", () => {
        throw new Terminal("sold out");
      });
    atEnd(t, () => worker.stop());
    void worker.run();
    const client = orders.client();
    const to = { destination: "inventory", kind: "Command" } as const;
    const { messageId } = await client.enqueue("stock.reserve", { order: 7 }, { ...to, messageId: newMessageId() });
    const result = await client.wait(messageId);
    assert.deepEqual([result.state, result.answer], ["done", { shelf: 14, source: "orders" }]);
    const refused = await client.enqueue("stock.refuse", null, to);
    assert.equal((await client.wait(refused.messageId, { answer: false })).state, "done", "delivered");
    await assert.rejects(
      client.wait(refused.messageId, { timeoutMs: 200 }),
      TimeoutError,
      "a dead message is not answered",
    );
  });
});
