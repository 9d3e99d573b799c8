// The worker against a server that misbehaves as the test says.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { inspect } from "node:util";

import {
  CancelledError,
  InvalidError,
  LeaseLostError,
  Message,
  NotAllowedError,
  Retry,
  Terminal,
  Worker,
  type WorkerOptions,
} from "postroom";

import { atEnd } from "./support/cleanup.js";
import { scripted, type Got } from "./support/server.js";
import { Signal } from "./support/signal.js";

const token = "hunter2-hunter2";
let made = 0;

function message(topic = "a", more: object = {}): object {
  made += 1;
  return {
    lease: `${made}.1.ab`,
    messageId: `m-${made}`,
    topic,
    kind: "Event",
    attempt: 1,
    source: null,
    correlationId: null,
    lane: null,
    headers: {},
    createdAt: "2026-11-15T12:00:00Z",
    payload: { n: made },
    ...more,
  };
}

/** A queue in a server: hands out what it has, and settles as `settle` says. */
async function queue(
  t: TestContext,
  messages: object[],
  settle: (got: Got, count: number) => void = ok,
): Promise<{ url: string; got: Got[]; settled: Signal<Got> }> {
  const settled = new Signal<Got>();
  let count = 0;
  const { url, got } = await scripted(t, (one) => {
    if (one.path.endsWith("/claim")) {
      const given = one.path.includes("outbox") ? messages.splice(0, one.body.limit) : [];
      // A claim without messages waits, as at a node.
      if (given.length > 0) one.answer(200, { messages: given });
      return;
    }
    count += 1;
    settle(one, count);
    settled.fire(one);
  });
  return { url, got, settled };
}

function ok(got: Got): void {
  got.answer(200, {
    results: got.body.items.map(({ lease }: { lease: string }) => ({ lease, status: 200, state: "done" })),
  });
}

function start(
  t: TestContext,
  url: string,
  options: Partial<WorkerOptions> = {},
): { worker: Worker; errors: unknown[]; run: () => Promise<void> } {
  const errors: unknown[] = [];
  const worker = new Worker({ url, token, onError: (error) => errors.push(error), ...options });
  atEnd(t, () => worker.stop({ grace: 0 }));
  return { worker, errors, run: () => worker.run() };
}

const items = (got: Got[], verb: string): any[] =>
  got.filter((one) => one.path.endsWith(verb)).flatMap((one) => one.body.items);

describe("a worker", () => {
  test("each outcome of a handler", async (t) => {
    const topics = ["plain", "nothing", "later", "soon", "never", "broken", "odd", "long", "cyclic"];
    const { url, got, settled } = await queue(
      t,
      topics.map((topic) => message(topic)),
    );
    const { worker, run } = start(t, url);
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    worker
      .handle("plain", () => ({ shelf: 7 }))
      .handle("nothing", async () => undefined)
      .handle("later", () => {
        throw new Retry({ after: "5m", why: "the printer is busy" });
      })
      .handle("soon", () => {
        throw new Retry();
      })
      .handle("never", () => {
        throw new Terminal("an order needs items");
      })
      .handle("broken", () => {
        throw new TypeError("x is not a function");
      })
      .handle("odd", () => {
        throw { some: "thing" };
      })
      .handle("long", () => "x".repeat(65_536))
      .handle("*", () => cycle);
    void run();
    while (["/ack", "/abandon", "/fail"].flatMap((verb) => items(got, verb)).length < topics.length)
      await settled.times(settled.seen.length + 1);
    assert.deepEqual(
      items(got, "/ack").map((item) => item.answer),
      [{ shelf: 7 }, undefined],
    );
    assert.deepEqual(
      items(got, "/abandon").map((item) => [item.error, item.delaySeconds]),
      [
        ["the printer is busy", 300],
        ["the handler asked for a retry", undefined],
        ["TypeError: x is not a function", undefined],
        ["the handler threw something that is no Error", undefined],
      ],
    );
    assert.deepEqual(
      items(got, "/fail").map((item) => item.error),
      [
        "an order needs items",
        "the answer has 65538 bytes; at most 65536 are allowed",
        "the answer cannot be written as JSON; it must have no cycles and no bigint",
      ],
    );
  });

  test("what a handler gets", async (t) => {
    const { url } = await queue(t, [
      message("a", {
        source: "shop",
        correlationId: "c",
        lane: "l",
        headers: { language: "en" },
        attempt: 3,
        kind: "Command",
      }),
      message("b", { payload: undefined, payloadText: "^XA" }),
    ]);
    const given = new Signal<Message<unknown>>();
    const { worker, run } = start(t, url);
    worker.handle("*", (one) => given.fire(one));
    void run();
    const [first, second] = await given.times(2);
    assert.deepEqual(
      [
        first?.source,
        first?.correlationId,
        first?.lane,
        first?.headers,
        first?.attempt,
        first?.kind,
        first?.createdAt?.getTime(),
        first?.isJson,
      ],
      ["shop", "c", "l", { language: "en" }, 3, "Command", Date.parse("2026-11-15T12:00:00Z"), true],
    );
    assert.deepEqual([second?.payload, second?.isJson], ["^XA", false]);
    assert.equal(
      inspect(new Message({ id: "m", topic: "a", payload: { password: "hunter2" } })),
      "Message(a m, attempt 1)",
    );
  });

  test("acks go in batches", async (t) => {
    const held: Got[] = [];
    const { url, got, settled } = await queue(
      t,
      Array.from({ length: 50 }, () => message()),
      (one, count) => (count === 1 ? held.push(one) : ok(one)),
    );
    const handled = new Signal();
    const { worker, run } = start(t, url, { concurrency: 50 });
    worker.handle("a", () => handled.fire());
    void run();
    await handled.times(50);
    await settled.times(1);
    ok(held[0]!);
    await settled.times(2);
    assert.equal(items(got, "/ack").length, 50);
    assert.ok(settled.seen.length <= 3, `${settled.seen.length} requests`);
  });

  test("an ack is repeated until there is an answer", async (t) => {
    const { url, got, settled } = await queue(t, [message(), message()], (one, count) => {
      if (count === 1) one.break();
      else if (count === 2) one.answer(503, { detail: "the database is unavailable", advice: "try again later" });
      else if (count === 3)
        one.answer(503, {
          results: one.body.items.map(({ lease }: { lease: string }) => ({ lease, status: 503, error: "busy" })),
        });
      else ok(one);
    });
    const { worker, run } = start(t, url);
    worker.handle("a", ({ payload }) => payload);
    void run();
    await settled.times(4);
    await worker.stop();
    const last = new Map(items(got, "/ack").map((item) => [item.lease, item.answer]));
    assert.equal(last.size, 2);
  });

  test("a lost lease aborts the handler, and nothing is settled", async (t) => {
    const { url, got, settled } = await queue(t, [message()], (one) =>
      one.answer(409, {
        results: one.body.items.map(({ lease }: { lease: string }) => ({
          lease,
          status: 409,
          error: "the lease is lost",
        })),
      }),
    );
    const reasons = new Signal<unknown>();
    const { worker, errors, run } = start(t, url, { lease: 1 });
    worker.handle(
      "a",
      (_, { signal }) =>
        new Promise((done) => {
          signal.addEventListener("abort", () => {
            reasons.fire(signal.reason);
            done({ too: "late" });
          });
        }),
    );
    void run();
    const [reason] = await reasons.times(1);
    assert.ok(reason instanceof LeaseLostError);
    assert.ok(settled.seen[0]?.path.endsWith("/outbox/extend"));
    await worker.stop();
    assert.deepEqual([items(got, "/ack"), items(got, "/abandon")], [[], []]);
    assert.ok(errors.some((error) => error instanceof LeaseLostError));
  });

  test("a lease that cannot be renewed in time is lost, too", async (t) => {
    const { url } = await queue(t, [message()], (one) => one.break());
    const reasons = new Signal<unknown>();
    const { worker, run } = start(t, url, { lease: 1 });
    worker.handle(
      "a",
      (_, { signal }) =>
        new Promise<void>((done) =>
          signal.addEventListener("abort", () => {
            reasons.fire(signal.reason);
            done();
          }),
        ),
    );
    void run();
    assert.ok((await reasons.times(1))[0] instanceof LeaseLostError);
  });

  test("a lease is renewed while the handler works", async (t) => {
    const { url, got, settled } = await queue(t, [message()]);
    const end = new Signal();
    const { worker, run } = start(t, url, { lease: 1 });
    worker.handle("a", async () => {
      await end.times(1);
      return "done";
    });
    void run();
    await settled.times(4);
    assert.ok(items(got, "/extend").every((item) => item.leaseSeconds === 1));
    end.fire();
    await worker.stop();
    assert.deepEqual(
      items(got, "/ack").map((item) => item.answer),
      ["done"],
    );
  });

  test("a handler is told that its message was cancelled, and keeps the lease until it ends", async (t) => {
    const { url, got, settled } = await queue(t, [message()], (one) =>
      one.answer(200, {
        results: one.body.items.map(({ lease }: { lease: string }) => ({
          lease,
          status: 200,
          state: "leased",
          askedToStop: true,
        })),
      }),
    );
    const [reasons, end] = [new Signal<unknown>(), new Signal()];
    const { worker, errors, run } = start(t, url, { lease: 1 });
    worker.handle("a", async (_, { signal }) => {
      await new Promise((told) => signal.addEventListener("abort", told));
      reasons.fire(signal.reason);
      await end.times(1);
      signal.throwIfAborted();
    });
    void run();
    assert.ok((await reasons.times(1))[0] instanceof CancelledError);
    await settled.times(3);
    end.fire();
    await worker.stop();
    assert.ok(items(got, "/extend").length > 1);
    assert.equal(items(got, "/abandon").length, 1);
    assert.deepEqual(errors, []);
  });

  test("stop lets handlers finish, and gives back the rest", async (t) => {
    const { url, got } = await queue(t, [message("quick"), message("slow"), message("waiting"), message("waiting")]);
    const [begun, end, aborted] = [new Signal<string>(), new Signal(), new Signal<unknown>()];
    const { worker, run } = start(t, url, { concurrency: 2 });
    worker.handle("quick", async () => {
      begun.fire("quick");
      await end.times(1);
      return "done";
    });
    worker.handle("slow", (_, { signal }) => {
      begun.fire("slow");
      signal.addEventListener("abort", () => aborted.fire(signal.reason));
      return new Promise(() => undefined);
    });
    worker.handle("waiting", () => assert.fail("it begins after the stop"));
    const ended = run();
    await begun.times(2);
    const stopped = worker.stop({ grace: 1 });
    end.fire();
    await stopped;
    await ended;
    assert.equal((aborted.seen[0] as Error).name, "StoppedError");
    assert.deepEqual(
      items(got, "/ack").map((item) => item.answer),
      ["done"],
    );
    assert.deepEqual(
      items(got, "/abandon").map((item) => item.delaySeconds),
      [0],
    );
    assert.equal(items(got, "/fail").length, 0);
  });

  test("stop ends a long poll at once, and a node out of reach does not hold it", async (t) => {
    const { url, got } = await queue(t, []);
    const { worker, run } = start(t, url);
    worker.handle("a", () => undefined);
    const ended = run();
    while (got.length < 2) await new Promise((turn) => setImmediate(turn));
    await worker.stop();
    await ended;
    assert.deepEqual(got[0]?.body, { topics: ["a"], limit: 10, leaseSeconds: 30, waitSeconds: 20 });
    assert.deepEqual(got.map((one) => one.path).sort(), ["/v1/inbox/claim", "/v1/outbox/claim"]);
  });

  test("a mistake ends it at once", async (t) => {
    const { url } = await scripted(t, (one) =>
      one.answer(401, { detail: "this request needs a valid token", advice: "send one" }),
    );
    const { worker, run } = start(t, url);
    assert.throws(run, /the worker has no handler/);
    worker.handle("a", () => undefined);
    assert.throws(() => worker.handle("a", () => undefined), /a has a handler already/);
    assert.throws(() => worker.handle("b", 7 as never), /must be a function/);
    await assert.rejects(run(), (error) => error instanceof NotAllowedError && !inspect(error).includes(token));
    assert.throws(run, /a worker runs once/);
    assert.throws(() => worker.handle("c", () => undefined), /runs already/);
    for (const wrong of [
      { concurrency: 0 },
      { queues: [] },
      { queues: ["a"] },
      { lease: 0 },
      { longPoll: 31 },
      { leese: 1 },
    ]) {
      assert.throws(() => new Worker({ url, token, ...wrong } as never), InvalidError);
    }
  });

  test("later it goes on, whatever the node answers", async (t) => {
    let claims = 0;
    const handled = new Signal();
    const { url } = await scripted(t, (one) => {
      if (!one.path.endsWith("/outbox/claim")) return one.path.endsWith("/claim") ? undefined : ok(one);
      claims += 1;
      if (claims === 2) one.answer(401, { detail: "this request needs a valid token" });
      else if (claims === 3) one.answer(200, "no claim at all");
      else if (claims === 4) one.break();
      else one.answer(200, { messages: [message()] });
    });
    const { worker, errors, run } = start(t, url, { concurrency: 1 });
    worker.handle("a", () => handled.fire());
    void run();
    await handled.times(3);
    assert.ok(errors.length >= 2);
    assert.ok(!inspect(errors).includes(token) && !inspect(worker, { showHidden: true }).includes(token));
  });

  test("a listener that throws changes nothing", async (t) => {
    t.mock.method(console, "error", () => undefined);
    const { url, got, settled } = await queue(t, [message()]);
    const { worker, run } = start(t, url, {
      onError: () => {
        throw new Error("the log is full");
      },
    });
    worker.handle("a", () => {
      throw new Error("x");
    });
    void run();
    await settled.times(1);
    assert.equal(items(got, "/abandon").length, 1);
  });

  test("what it logs by itself quotes no payload", async (t) => {
    const lines: string[] = [];
    t.mock.method(console, "error", (...words: unknown[]) => lines.push(words.join(" ")));
    const { url, settled } = await queue(t, [message()]);
    const worker = new Worker({ url, token }).handle("a", () => {
      throw new Error("bad card 4111");
    });
    atEnd(t, () => worker.stop());
    void worker.run();
    await settled.times(1);
    assert.match(lines.join("\n"), /^postroom worker: a m-\d+ failed at attempt 1: Error$/);
  });
});
