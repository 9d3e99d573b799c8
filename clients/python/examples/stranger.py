"""Enqueues in a transaction, handles by pull and by push, and waits for answers: stranger.py DATABASE NODE_URL PORT"""

import os
import sys
import threading
from wsgiref.simple_server import make_server

import postroom

path, node, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = postroom.Client(node, os.environ["NODE_TOKEN"])
worker = postroom.Worker(node, os.environ["NODE_TOKEN"])
receiver = postroom.push.PushReceiver(os.environ["HANDLER_SECRET"])


@worker.handle("order.placed")
@receiver.on("order.paid")
def handled(message: postroom.Message) -> object:
    with postroom.sqlite.transaction(path) as conn:
        if postroom.once(conn, message):
            conn.execute("UPDATE orders SET seen = seen + 1 WHERE id = ?", (message.payload["order"],))
    return {"seen": message.topic}


with postroom.sqlite.transaction(path) as conn:
    postroom.create_once_table(conn)
    conn.execute("CREATE TABLE orders (id INTEGER, seen INTEGER DEFAULT 0)")
    conn.execute("INSERT INTO orders (id) VALUES (7)")
    sent = [postroom.enqueue(conn, topic, {"order": 7}) for topic in ("order.placed", "order.paid")]

server = make_server("127.0.0.1", port, postroom.push.wsgi(receiver))
threading.Thread(target=server.serve_forever, daemon=True).start()
worker.start()
for each in sent:
    print(client.wait(each.message_id, timeout=30).answer)
worker.end()
with postroom.sqlite.transaction(path) as conn:
    print(*conn.execute("SELECT seen FROM orders"))
