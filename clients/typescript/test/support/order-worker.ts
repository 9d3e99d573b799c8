// A worker that writes each order to a table of its own, once: order-worker URL DATABASE
import { writeSync } from "node:fs";

import Database from "better-sqlite3";
import { Worker, type Message } from "postroom";
import { once } from "postroom/sqlite";

const [, , url = "", file = ""] = process.argv;
const db = new Database(file);
const reserve = db.transaction((message: Message<{ order: number }>) =>
  once(db, message, () => {
    db.prepare("INSERT INTO reserved (order_id) VALUES (?)").run(message.payload.order);
    return { reserved: message.payload.order };
  }),
);

const worker = new Worker({ url, token: process.env["TOKEN"] ?? "", lease: 2, concurrency: 20 });
worker.handle<{ order: number }>("order.placed", async (message) => {
  await new Promise((turn) => setImmediate(turn));
  const answer = reserve.immediate(message);
  writeSync(1, `${message.id}\n`);
  return answer;
});
await worker.run();
