import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";

import { Client, InvalidError, newMessageId, RawPayload, Retry, Terminal, type EnqueueOptions } from "postroom";
import { FakePostroom } from "postroom/testing";

const postroom = new FakePostroom();
const check =
  (topic: string, payload: unknown, options: object): (() => unknown) =>
  () =>
    postroom.enqueueSync(undefined, topic, payload, options as EnqueueOptions);

describe("arguments", () => {
  const long = "é".repeat(256);
  const wrong: [RegExp, string, unknown, object][] = [
    [/topic is empty; allowed are 1 to 255/, "", 1, {}],
    [/topic has 256 characters/, long, 1, {}],
    [/topic ends with a blank/, "a ", 1, {}],
    [/topic has a control character/, "a\n", 1, {}],
    [/topic is not valid Unicode/, "\ud800", 1, {}],
    [/topic must be a text/, 7 as never, 1, {}],
    [/the payload cannot be written as JSON; null is allowed/, "a", undefined, {}],
    [/no cycles and no bigint/, "a", 1n, {}],
    [/destination must be 1 to 64 of a-z 0-9/, "a", 1, { destination: "Billing" }],
    [/correlationId has a control character/, "a", 1, { correlationId: "\u0085" }],
    [/lane has 256 characters/, "a", 1, { lane: long }],
    [/headers must be an object of strings/, "a", 1, { headers: ["a"] }],
    [/the header a must be a string/, "a", 1, { headers: { a: 1 } }],
    [/the name of a header is empty/, "a", 1, { headers: { "": "a" } }],
    [
      /there are 65 headers; at most 64/,
      "a",
      1,
      { headers: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`h${n}`, ""])) },
    ],
    [/the headers have 16385 bytes; at most 16384/, "a", 1, { headers: { a: "x".repeat(16384) } }],
    [/dueAt must be a Date, or a text like 2026-11-15T12:00:00Z/, "a", 1, { dueAt: "tomorrow" }],
    [/dueAt must be a Date/, "a", 1, { dueAt: "2026-11-15T12:00:00" }],
    [/dueAt must be a Date/, "a", 1, { dueAt: new Date(NaN) }],
    [/dueAt and dueAfter are given; give only one/, "a", 1, { dueAt: new Date(), dueAfter: 1 }],
    [/dueAfter must be whole seconds, or a text like "90s"/, "a", 1, { dueAfter: 1.5 }],
    [/dueAfter must be whole seconds/, "a", 1, { dueAfter: "1w" }],
    [/headStart is 86401 seconds; allowed are 0 to 86400/, "a", 1, { headStart: 86401 }],
    [/ttl is 0 seconds; allowed are 1 to/, "a", 1, { ttl: 0 }],
    [/maxAttempts must be a whole number from 1 to 2147483647/, "a", 1, { maxAttempts: 0 }],
    [/kind must be one of Event, Signal, Command, PushCall, Response/, "a", 1, { kind: "event" }],
    [/messageId must be a UUID with hyphens, and not all zeros/, "a", 1, { messageId: "7" }],
    [/messageId must be a UUID/, "a", 1, { messageId: "00000000-0000-0000-0000-000000000000" }],
    [/enqueue has no option dueIn; the options are destination, correlationId/, "a", 1, { dueIn: 5 }],
    [/unique.key is empty/, "a", 1, { unique: { key: "" } }],
    [/unique.until and unique.for are given/, "a", 1, { unique: { key: "k", until: "done", for: 5 } }],
    [/unique.until must be "started" or "done"/, "a", 1, { unique: { key: "k", until: "never" } }],
    [/unique.ifTaken must be "keep", "replace" or "refuse"/, "a", 1, { unique: { key: "k", ifTaken: "fail" } }],
    [/unique has no option ttl/, "a", 1, { unique: { key: "k", ttl: 1 } }],
  ];
  for (const [said, topic, payload, options] of wrong) {
    test(said.source, () =>
      assert.throws(
        check(topic, payload, options),
        (error) => error instanceof InvalidError && said.test(error.message),
      ),
    );
  }

  test("what is allowed at the edge", () => {
    check("é".repeat(255), null, {})();
    check("😀".repeat(255), "", { correlationId: "", lane: "", headers: {} })();
    check("a", 0, {
      messageId: newMessageId().toUpperCase(),
      dueAt: "2026-11-15T12:00:00.123+02:00",
      ttl: "36500d",
      headStart: undefined,
    })();
  });

  test("no error quotes a payload", () => {
    const cyclic: Record<string, unknown> = { password: "hunter2" };
    cyclic["self"] = cyclic;
    assert.throws(check("a", cyclic, {}), (error) => !inspect(error).includes("hunter2"));
    assert.throws(
      () => new RawPayload("hunter2\0"),
      (error) => !inspect(error).includes("hunter2"),
    );
    assert.equal(inspect(new RawPayload("hunter2")).includes("hunter2"), false);
  });

  test("ids sort by time and are of version 7", () => {
    const ids = Array.from({ length: 50 }, () => newMessageId());
    assert.ok(ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)));
    assert.deepEqual(
      ids.map((id) => id.slice(0, 13)),
      ids.map((id) => id.slice(0, 13)).sort(),
    );
    assert.equal(new Set(ids).size, 50);
  });

  test("outcomes", () => {
    assert.equal(new Retry({ after: "5m" }).afterSeconds, 300);
    assert.equal(new Retry().afterSeconds, undefined);
    assert.throws(() => new Retry({ after: -1 }), /after is -1 seconds/);
    assert.equal(new Terminal("no").message, "no");
  });
});

describe("where a client connects to", () => {
  const secret = "hunter2-hunter2";
  const make = (options: object) => () =>
    new Client({ url: "http://127.0.0.1:7411", token: secret, ...options } as never);

  test("only with encryption, or on this machine", () => {
    for (const url of ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://node.example.com"])
      make({ url })();
    assert.throws(make({ url: "http://node.example.com" }), /anyone on the way can read/);
    assert.throws(make({ url: "http://localhost.example.com" }), /anyone on the way can read/);
    assert.throws(make({ url: "http://127.0.0.1.example.com" }), /anyone on the way can read/);
    make({ url: "http://node.example.com", allowUnencrypted: true })();
    assert.throws(make({ url: "ftp://127.0.0.1" }), /must begin with http/);
    assert.throws(make({ url: `http://a:${secret}@127.0.0.1` }), (error) => !inspect(error).includes(secret));
    assert.throws(make({ url: `http://127.0.0.1:99999/${secret}` }), (error) => !inspect(error).includes(secret));
    assert.throws(make({ tokens: "a" }), /Client has no option tokens/);
  });

  test("a token that cannot be sent is refused and not quoted", () => {
    for (const token of [`${secret}\n`, `${secret} `, `ä${secret}`, "", undefined, 7]) {
      assert.throws(make({ token }), (error) => error instanceof InvalidError && !inspect(error).includes(secret));
    }
  });

  test("a client prints its address and not its token", () => {
    const client = make({})();
    assert.equal(inspect(client), "Client(http://127.0.0.1:7411)");
    assert.ok(!inspect(client, { showHidden: true, depth: 9, customInspect: false }).includes(secret));
    assert.ok(!JSON.stringify(client).includes(secret));
  });
});
