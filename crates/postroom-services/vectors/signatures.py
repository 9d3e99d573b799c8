"""An independent reading of guides/wire.md: signs what it is given on standard input, one JSON object a line.

    python3 signatures.py < signatures.jsonl

prints each object again with the signature it should have. Standard library only.
"""

import base64
import hashlib
import hmac
import json
import struct
import sys


HASHES = {"HMAC-SHA256": hashlib.sha256, "HMAC-SHA512": hashlib.sha512}


def mac(v, key, data):
    """By the algorithm of the key; without a word of it by the usual one."""
    return hmac.new(key, data, HASHES[v.get("algorithm", "HMAC-SHA256")]).digest()


def pieces(parts):
    """The number of parts, then each part with its length before it; 64 bits, little-endian."""
    encoded = struct.pack("<Q", len(parts))
    for part in parts:
        encoded += struct.pack("<Q", len(part)) + part
    return encoded


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def request(secret, kid, v):
    names = ["source", "destination", "method", "path", "messageId", "enqueuedAt", "dueAt", "attempt", "timestamp",
             "contentType"]
    parts = [b"rf-sig-v2", b"req", kid.encode()] + [v[name].encode() for name in names]
    parts.append(hashlib.sha256(v["body"].encode()).digest())
    return "v2;kid=%s;%s" % (kid, url64(mac(v, mac(v, secret, b"postroom v2 request"), pieces(parts))))


def receipt(secret, kid, v):
    parts = [b"rf-ack-v2", b"ack", kid.encode()]
    parts += [v[name].encode() for name in ["destination", "messageId", "timestamp", "status"]]
    parts.append(hashlib.sha256(v["body"].encode()).digest())
    parts += [v[name].encode() for name in ["retryAfter", "retention"] if "retention" in v]
    return "v2;kid=%s;%s" % (kid, url64(mac(v, mac(v, secret, b"postroom v2 receipt"), pieces(parts))))


def v1(secret, kid, v):
    digest = hashlib.sha256(v["payload"].encode()).hexdigest()
    data = v["messageId"] + v["sourceServiceId"] + v["endpoint"] + digest
    return base64.b64encode(mac(v, secret, data.encode())).decode()


for line in sys.stdin:
    vector = json.loads(line)
    sign = {"request": request, "receipt": receipt, "v1": v1}[vector["what"]]
    vector["signature"] = sign(vector["secret"].encode(), vector["kid"], vector)
    print(json.dumps(vector, ensure_ascii=False))
