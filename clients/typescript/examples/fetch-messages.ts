// Fetches the messages about orders from a node, and reserves stock for each of them once.
// The node's configuration has `pull = true` in [handlers."stock.reserve"].
import Database from "better-sqlite3";
import { Terminal, Worker, type Message } from "postroom";
import { createHandledTable, once } from "postroom/sqlite";

interface Order {
  order: number;
}

const db = new Database(process.env["STOCK_DB"] ?? "stock.db");
db.exec("CREATE TABLE IF NOT EXISTS reserved (order_id INTEGER NOT NULL, shelf INTEGER NOT NULL)");
createHandledTable(db);

// The work and the id of the message, in one transaction: a message that comes again gets the stored answer.
const reserve = db.transaction((message: Message<Order>) =>
  once(db, message, () => {
    const { order } = message.payload;
    if (!Number.isSafeInteger(order)) throw new Terminal("an order has a number");
    db.prepare("INSERT INTO reserved (order_id, shelf) VALUES (?, ?)").run(order, order * 2);
    return { shelf: order * 2 };
  }),
);

const worker = new Worker({
  url: process.env["NODE_URL"] ?? "http://127.0.0.1:7411",
  token: process.env["NODE_TOKEN"] ?? "",
});
worker.handle<Order>("stock.reserve", (message) => reserve.immediate(message));
await worker.run({ signals: true });
db.close();
