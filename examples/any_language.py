"""Sends a message through a node and handles those that the node posts: any_language.py NODE_URL PORT"""
import base64, hashlib, hmac, json, os, sys, time, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

node, port = sys.argv[1], int(sys.argv[2])
token, secret = os.environ["NODE_TOKEN"], os.environ["HANDLER_SECRET"]
handled = set()  # yours is a table, written to in the transaction of the work

def send(topic, payload, key):
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "idempotency-key": key}
    message = json.dumps({"topic": topic, "payload": payload}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{node}/v1/messages", message, headers)) as answer:
        return json.load(answer)["messageId"]

def is_signed(headers, body):
    named, time_said = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not time_said.isdecimal() or abs(time.time() - int(time_said)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{named}.{time_said}.".encode() + body, hashlib.sha256).digest()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(b"v1," + base64.b64encode(mac), each.encode()) for each in given)

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not is_signed(self.headers, body):
            return self.send_error(401)
        if self.headers["webhook-id"] not in handled:
            print(self.headers["postroom-topic"], body.decode(), flush=True)
            handled.add(self.headers["webhook-id"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"reserved": true}')

server = HTTPServer(("127.0.0.1", port), Handler)
print("sent", send("order.placed", {"order": 7}, "order-7"), flush=True)
server.serve_forever()
