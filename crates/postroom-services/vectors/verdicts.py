"""An independent reading of guides/wire.md: judges what it is given on standard input, one JSON object a line.

    python3 verdicts.py < verdicts.jsonl

prints each case on which it disagrees, and then fails. Standard library only.
"""

import base64
import hashlib
import hmac
import json
import re
import struct
import sys

SERVICE = r"[a-z0-9][a-z0-9._-]{0,63}"
UUID = r"(?!0{8}-0{4}-0{4}-0{4}-0{12})[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NUMBER = r"0|[1-9][0-9]*"
TIME = r"0|-?[1-9][0-9]*"
GRAMMAR = {
    "rf-version": "2", "rf-source": SERVICE, "rf-destination": SERVICE, "rf-message-id": UUID, "rf-enqueued-at": TIME,
    "rf-attempt": NUMBER, "rf-timestamp": TIME, "rf-content-sha256": "[0-9a-f]{64}", "content-type": r"[\t -~]*",
    "rf-signature": r"[\t -~]*",
}
FIELDS = {"messageId", "correlationId", "sourceServiceId", "messageType", "endpoint", "payload", "headers"}
TOLERANCE, WINDOW = 300 * 10**6, 29 * 24 * 3600 * 10**6
HASHES = {"HMAC-SHA256": hashlib.sha256, "HMAC-SHA512": hashlib.sha512}
ATTEMPTS, TIMES = range(2**32), range(-2**63, 2**63)


def mac(vector, key, data):
    """By the algorithm of the key, whatever the signature looks like; without a word of it by the usual one."""
    return hmac.new(key, data, HASHES[vector.get("algorithm", "HMAC-SHA256")]).digest()


def pieces(parts):
    encoded = struct.pack("<Q", len(parts))
    for part in parts:
        part = part if isinstance(part, bytes) else part.encode()
        encoded += struct.pack("<Q", len(part)) + part
    return encoded


def has_signature(header, vector, purpose, parts):
    """Whether one of the first eight signatures is by the key; the id of the key is the third piece."""
    key = mac(vector, vector["secret"].encode(), purpose)
    made = mac(vector, key, pieces(parts[:2] + [vector["kid"]] + parts[2:]))
    made = base64.urlsafe_b64encode(made).rstrip(b"=").decode()
    expected = "v2;kid=%s;%s" % (vector["kid"], made)
    # To compare the text is as strict as to decode it: every MAC has one text only.
    return any(hmac.compare_digest(each.strip(), expected) for each in header.split(",")[:8])


class Fields(dict):
    """An object, and whether a field of it appears twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.is_ambiguous = len(self) < len(pairs)


def is_envelope(body):
    try:
        sent = json.loads(body, object_pairs_hook=Fields)
        assert isinstance(sent, Fields) and not sent.is_ambiguous and set(sent) <= FIELDS and "payload" in sent
        assert re.fullmatch(UUID, sent["messageId"]) and re.fullmatch(SERVICE, sent["sourceServiceId"])
        assert sent["messageType"] in ("Signal", "Command", "PushCall", "Response")
        assert re.fullmatch(r"[^\s\x00-\x1f\x7f-\x9f]{1,255}", sent["endpoint"])
        assert all(isinstance(value, str) for value in sent.get("headers", {}).values())
        return True
    except (ValueError, AssertionError, AttributeError, KeyError, TypeError):
        return False


def is_name(text):
    return re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]{1,255}", text) and not text.endswith(" ")


def is_message(sent):
    headers = {name: value for name, value in sent.get("headers", {}).items() if not name.startswith("rf-")}
    correlation_id = sent.get("correlationId") or None
    if not all(map(is_name, headers)) or "\0" in "".join(headers.values()):
        return False
    if correlation_id is not None and not is_name(correlation_id):
        return False
    kind = headers.get("content-type", "application/json").split(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    return len(headers) <= 64 and (is_json or isinstance(sent["payload"], str))


def may_send(vector, sent):
    """A response has the topic of the receiver's own request."""
    def fits(allowed):
        return sent["endpoint"].startswith(allowed[:-1]) if allowed.endswith("*") else sent["endpoint"] == allowed
    return "topics" not in vector or sent["messageType"] == "Response" or any(map(fits, vector["topics"]))


def answer(vector):
    """What a receiver answers, and whether with a receipt."""
    if vector["method"] != "POST":
        return "405", False
    given = {}
    for name, value in vector["headers"]:
        given.setdefault(name, []).append(value)
    if "rf-signature" not in given:
        return "401", False
    grammar = dict(GRAMMAR, **({"rf-due-at": TIME} if "rf-due-at" in given else {}))
    for name, form in grammar.items():
        if len(given.get(name, [])) != 1 or not re.fullmatch(form, given[name][0]):
            return "400", False
    head = {name: values[0] for name, values in given.items()}
    enqueued, timestamp, now = int(head["rf-enqueued-at"]), int(head["rf-timestamp"]), int(vector["now"])
    due = int(head.get("rf-due-at", enqueued))
    if int(head["rf-attempt"]) not in ATTEMPTS or not all(time in TIMES for time in [enqueued, timestamp, due]):
        return "400", False
    parts = ["rf-sig-v2", "req", head["rf-source"], head["rf-destination"], vector["method"], vector["path"],
             head["rf-message-id"], head["rf-enqueued-at"], head.get("rf-due-at", ""), head["rf-attempt"],
             head["rf-timestamp"], head["content-type"], bytes.fromhex(head["rf-content-sha256"])]
    is_known = head["rf-source"] == vector["knows"]
    is_signed = has_signature(head["rf-signature"], vector, b"postroom v2 request", parts)
    is_ours = head["rf-destination"] == vector["receiver"]
    is_timely = abs(timestamp - now) <= TOLERANCE and enqueued <= timestamp + TOLERANCE
    is_whole = hashlib.sha256(vector["body"].encode()).hexdigest() == head["rf-content-sha256"]
    if not (is_known and is_signed and is_ours and is_timely and is_whole):
        return "401", False
    if not is_envelope(vector["body"]):
        return "400", True
    sent = json.loads(vector["body"])
    if (sent["messageId"], sent["sourceServiceId"]) != (head["rf-message-id"], head["rf-source"]):
        return "401", False
    if not is_message(sent):
        return "400", True
    if max(enqueued, due) < now - WINDOW:
        return "410", True
    return ("200" if may_send(vector, sent) else "403"), True


def is_receipt(vector):
    parts = ["rf-ack-v2", "ack"] + [vector[name] for name in ["destination", "messageId", "timestamp", "status"]]
    parts.append(hashlib.sha256(vector["body"].encode()).digest())
    parts += [vector[name] for name in ["retryAfter", "retention"] if "retention" in vector]
    return has_signature(vector["signature"], vector, b"postroom v2 receipt", parts)


def is_v1(vector):
    signed = "".join(vector[name] for name in ["messageId", "sourceServiceId", "endpoint"])
    signed += hashlib.sha256(vector["payload"].encode()).hexdigest()
    expected = base64.b64encode(mac(vector, vector["secret"].encode(), signed.encode())).decode()
    return hmac.compare_digest(vector["signature"], expected)


disagreed = 0
for line in sys.stdin:
    vector = json.loads(line)
    if vector["what"] == "request":
        verdict, expected = answer(vector), (vector["answer"], vector["receipt"])
    else:
        verdict, expected = {"receipt": is_receipt, "v1": is_v1}[vector["what"]](vector), vector["genuine"]
    if verdict != expected:
        disagreed += 1
        print("%s: %s, and not %s" % (vector["case"], verdict, expected))
sys.exit(1 if disagreed else 0)
