import { inspect } from "node:util";

import { InvalidError, StoppedError } from "../errors.js";
import { pause } from "../http/backoff.js";
import { Connection } from "../http/connection.js";
import { Handlers } from "../message/handlers.js";
import type { Handler, Message } from "../message/message.js";
import { seconds, type Span } from "../message/span.js";
import { claimAll } from "./claims.js";
import type { Held } from "./held.js";
import { workerSettings, type WorkerOptions, type WorkerSettings } from "./options.js";
import { heard } from "../outcome.js";
import { perform, type Verdict } from "./perform.js";
import { Renewer } from "./renewer.js";
import { Settler } from "./settler.js";
import { Slots } from "./slots.js";

/** How long `stop` waits for the node to confirm the last results. */
const CONFIRM_MS = 5_000;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * Fetches messages from a node and handles them in this process. The node's configuration needs `pull = true` in
 * `[handlers."TOPIC"]`, and the token needs `pull`.
 *
 * Delivery is at least once: wrap your work in `once`, so that a message that comes again changes nothing.
 *
 * ```ts
 * const worker = new Worker({ url: "http://127.0.0.1:7411", token: process.env.POSTROOM_TOKEN! });
 * worker.handle<Order>("order.placed", async ({ payload }, { signal }) => {
 *   const shelf = await reserve(payload, signal);
 *   return { shelf };                          // the answer
 * });
 * await worker.run({ signals: true });         // until SIGTERM, SIGINT or worker.stop()
 * ```
 */
export class Worker {
  readonly #connection: Connection;
  readonly #settings: WorkerSettings;
  readonly #handlers = new Handlers();
  readonly #held = new Set<Held>();
  readonly #waiting: Held[] = [];
  readonly #handling = new Set<Promise<void>>();
  readonly #settling = new Set<Promise<void>>();
  readonly #slots: Slots;
  readonly #settler: Settler;
  readonly #stopping = new AbortController();
  #active = 0;
  #graceMs: number;
  #ended: Promise<void> | undefined;
  #lastFailure = "";

  constructor(options: WorkerOptions) {
    this.#settings = workerSettings(options);
    this.#graceMs = this.#settings.graceMs;
    this.#connection = new Connection(options);
    this.#slots = new Slots(this.#settings.concurrency);
    this.#settler = new Settler(this.#connection, (error, held) => this.#failed(error, held?.message));
  }

  /** Sets the handler of a topic; `"*"` handles every topic without its own. */
  handle<T = unknown>(topic: string, handler: Handler<T>): this {
    if (this.#ended !== undefined) throw new InvalidError("the worker runs already; add handlers before run()");
    this.#handlers.add(topic, handler);
    return this;
  }

  /**
   * Handles messages until `stop` is called. It rejects at once if the node refuses the first request: the token, a
   * topic or the configuration is wrong then. Afterwards it survives whatever happens to the node.
   *
   * With `signals`, SIGTERM and SIGINT stop it; a second signal ends the process at once.
   */
  run(options: { signals?: boolean } = {}): Promise<void> {
    if (this.#handlers.isEmpty) throw new InvalidError("the worker has no handler; call handle() before run()");
    if (this.#ended !== undefined) throw new InvalidError("a worker runs once; make another one");
    this.#ended = this.#run(options.signals === true);
    return this.#ended;
  }

  /**
   * Stops: fetches nothing more, lets handlers finish, and gives back what did not finish within the grace. It resolves
   * when the node has confirmed everything, or is out of reach.
   *
   * ```ts
   * await worker.stop({ grace: "30s" });
   * ```
   */
  async stop(options: { grace?: Span } = {}): Promise<void> {
    if (options.grace !== undefined) this.#graceMs = seconds("grace", options.grace, 0, 86_400) * 1000;
    this.#stopping.abort(new StoppedError());
    await this.#ended?.catch(() => undefined);
  }

  async #run(signals: boolean): Promise<void> {
    const { signal: stopping } = this.#stopping;
    const stop = (): void => {
      SIGNALS.forEach((name) => process.removeListener(name, stop));
      void this.stop();
    };
    if (signals) SIGNALS.forEach((name) => process.once(name, stop));
    const renewer = new Renewer(this.#connection, this.#settings, this.#held, (error, held) =>
      this.#failed(error, held?.message),
    );
    renewer.start();
    const parts = {
      connection: this.#connection,
      settings: this.#settings,
      topics: this.#handlers.topics(),
      slots: this.#slots,
      stopping,
      take: (held: Held) => this.#take(held),
      failed: (error: unknown) => this.#failed(error),
    };
    let refused: { error: unknown } | undefined;
    const loops = this.#settings.queues.map((queue) =>
      claimAll(queue, parts).catch((error: unknown) => {
        refused ??= { error };
        this.#stopping.abort(new StoppedError());
      }),
    );
    await Promise.all(loops);
    await this.#finish();
    renewer.stop();
    SIGNALS.forEach((name) => process.removeListener(name, stop));
    if (refused) throw refused.error;
  }

  /** Lets handlers finish, and gives back the rest. */
  async #finish(): Promise<void> {
    this.#waiting.splice(0).forEach((held) => this.#giveBack(held));
    await within(this.#graceMs, this.#handled());
    for (const held of this.#held) {
      if (held.isSettling) continue;
      held.abort(new StoppedError());
      this.#giveBack(held);
    }
    await within(CONFIRM_MS, settled(this.#settling));
    this.#settler.giveUp();
  }

  async #handled(): Promise<void> {
    await settled(this.#handling);
    await settled(this.#settling);
  }

  #take(held: Held): void {
    this.#lastFailure = "";
    this.#held.add(held);
    if (this.#stopping.signal.aborted) return this.#giveBack(held);
    this.#slots.take();
    if (this.#active < this.#settings.concurrency) this.#begin(held);
    else this.#waiting.push(held);
  }

  #begin(held: Held): void {
    this.#active += 1;
    track(
      this.#handling,
      this.#handle(held).finally(() => {
        this.#active -= 1;
        this.#slots.give();
        const next = this.#waiting.shift();
        if (next !== undefined) this.#begin(next);
      }),
    );
  }

  async #handle(held: Held): Promise<void> {
    const { message, signal } = held;
    const handler = this.#handlers.of(message.topic);
    if (signal.aborted || handler === undefined) return this.#settle(held, backAgain);
    // A handler that ends because it was told to has not failed.
    const failed = (error: unknown): void =>
      void ((signal.aborted && error === signal.reason) || this.#failed(error, message));
    const verdict = await perform(handler, message, signal, failed);
    this.#settle(held, verdict);
  }

  #giveBack(held: Held): void {
    this.#settle(held, backAgain);
  }

  /** Settles it, unless the lease is lost or somebody does already. The slot is free meanwhile. */
  #settle(held: Held, verdict: Verdict): void {
    if (held.isSettling) return void this.#held.delete(held);
    held.isSettling = true;
    track(
      this.#settling,
      this.#settler.settle(held, verdict).finally(() => this.#held.delete(held)),
    );
  }

  /** Reports a failure of the connection once, until messages come again. */
  #failed(error: unknown, message?: Message): void {
    const words = error instanceof Error ? error.message : String(error);
    if (message === undefined && words === this.#lastFailure) return;
    if (message === undefined) this.#lastFailure = words;
    heard(() => this.#settings.onError(error, message));
  }

  /** Never the token. */
  [inspect.custom](): string {
    return `Worker(${this.#connection.origin})`;
  }
}

const backAgain: Verdict = { verb: "abandon", error: "the worker stopped before it was done", delaySeconds: 0 };

function track(all: Set<Promise<void>>, work: Promise<void>): void {
  all.add(work);
  void work.finally(() => all.delete(work));
}

/** Waits until nothing is left, also of what comes meanwhile. */
async function settled(all: Set<Promise<void>>): Promise<void> {
  while (all.size > 0) await Promise.all(all);
}

/** Waits for something, but no longer than that. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, pause(ms, over.signal).catch(() => undefined)]);
  over.abort();
}
