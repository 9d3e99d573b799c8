// Prints an invoice for each message that a node posts here: receive-messages PORT
// The node's configuration has `url` and `secret` in [handlers."invoice.print"].
import { createServer } from "node:http";
import { nodeListener, Receiver, Retry } from "postroom";

interface Order {
  order: number;
}

const receiver = new Receiver({ secrets: [process.env["HANDLER_SECRET"] ?? ""] });
receiver.handle<Order>("invoice.print", ({ payload, attempt, lane }) => {
  if (attempt === 1) throw new Retry({ after: "1s", why: "the printer warms up" });
  return { invoice: `invoice-${payload.order}`, lane };
});

const port = Number(process.argv[2] ?? 8080);
createServer(nodeListener(receiver)).listen(port, "127.0.0.1", () => console.log("listening"));
