// Places an order, and waits for what others make of it: place-order ORDER
// SHOP_DB is the node's SQLite file, NODE_URL and NODE_TOKEN are its HTTP API.
import Database from "better-sqlite3";
import { Client } from "postroom";
import { enqueue, protectFile } from "postroom/sqlite";

const order = Number(process.argv[2]);
const db = new Database(process.env["SHOP_DB"] ?? "postroom.db");
protectFile(db);
db.exec("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)");

// The order and the messages about it, in one transaction: all of them are stored, or nothing is.
const place = db.transaction(() => {
  db.prepare("INSERT INTO orders (id) VALUES (?)").run(order);
  return [enqueue(db, "stock.reserve", { order }), enqueue(db, "invoice.print", { order }, { lane: `order-${order}` })];
});

const client = new Client({
  url: process.env["NODE_URL"] ?? "http://127.0.0.1:7411",
  token: process.env["NODE_TOKEN"] ?? "",
});
for (const { messageId } of place.immediate()) {
  const { state, answer, messages } = await client.wait(messageId, { timeoutMs: 20_000 });
  console.log(messages[0]?.topic, state, JSON.stringify(answer));
}
db.close();
