import { Backoff, pause } from "../http/backoff.js";
import type { Connection } from "../http/connection.js";
import { UnavailableError } from "../errors.js";
import { refusal } from "../http/refusal.js";
import type { Held } from "./held.js";
import { itemsOf, type ItemResult } from "./items.js";
import type { Verdict } from "./perform.js";

const ITEMS_MAX = 1000;
const BYTES_MAX = 2 * 1024 * 1024;
/** How often the node may fail over one message, before the message is left to run out of its lease. */
const FAILURES_MAX = 5;

interface Pending {
  held: Held;
  text: string;
  settled: () => void;
  /** How often the node failed over it. */
  failures: number;
}

/**
 * Settles messages in batches: what comes while one request is on its way goes with the next. It repeats what got no
 * answer; to repeat an ack changes nothing.
 */
export class Settler {
  readonly #waiting = new Map<string, Pending[]>();
  readonly #busy = new Set<string>();
  readonly #given = new AbortController();

  constructor(
    private readonly connection: Connection,
    private readonly failed: (error: unknown, held?: Held) => void,
  ) {}

  /** Settles one. It ends when the node has confirmed that, when the lease is lost, or after `giveUp`. */
  settle(held: Held, verdict: Verdict): Promise<void> {
    const route = `${held.queue} ${verdict.verb}`;
    return new Promise((settled) => {
      const pending = { held, text: textOf(held.lease, verdict), settled, failures: 0 };
      const waiting = this.#waiting.get(route);
      if (waiting === undefined) this.#waiting.set(route, [pending]);
      else waiting.push(pending);
      if (!this.#busy.has(route)) void this.#run(route, held.queue, verdict.verb);
    });
  }

  /** Stops trying: the leases run out, and the messages come again. */
  giveUp(): void {
    this.#given.abort();
  }

  async #run(route: string, queue: Held["queue"], verb: Verdict["verb"]): Promise<void> {
    this.#busy.add(route);
    const backoff = new Backoff();
    for (let batch = this.#next(route); batch.length > 0; batch = this.#next(route)) {
      let again: Pending[];
      try {
        const body = `{"items":[${batch.map((one) => one.text).join(",")}]}`;
        again = this.#judge(batch, await itemsOf(this.connection, queue, verb, body));
        if (again.length === 0) backoff.reset();
      } catch (error) {
        this.failed(error);
        again = batch;
      }
      if (again.length === 0) continue;
      this.#waiting.set(route, [...again, ...(this.#waiting.get(route) ?? [])]);
      await pause(backoff.next(), this.#given.signal).catch(() => undefined);
    }
    this.#busy.delete(route);
  }

  /** The next batch. */
  #next(route: string): Pending[] {
    const waiting = this.#waiting.get(route) ?? [];
    if (this.#given.signal.aborted) {
      this.#waiting.delete(route);
      waiting.forEach((one) => one.settled());
      return [];
    }
    let [count, bytes] = [0, 0];
    while (count < Math.min(waiting.length, ITEMS_MAX) && (count === 0 || bytes < BYTES_MAX)) {
      bytes += waiting[count]?.text.length ?? 0;
      count += 1;
    }
    this.#waiting.set(route, waiting.slice(count));
    return waiting.slice(0, count);
  }

  /** Ends what is settled or lost, and returns what must be tried again. */
  #judge(batch: Pending[], results: ItemResult[]): Pending[] {
    return batch.filter((one, place) => {
      const result = results[place] ?? { status: 503 };
      if (result.status !== 200) {
        const error = refusal(result.status, result);
        this.failed(error, one.held);
        one.failures += result.status === 500 ? 1 : 0;
        if (error instanceof UnavailableError || (result.status === 500 && one.failures < FAILURES_MAX)) return true;
      }
      one.settled();
      return false;
    });
  }
}

/** The answer goes in as it is. */
function textOf(lease: string, verdict: Verdict): string {
  if (verdict.verb === "ack") {
    const answer = verdict.answer === undefined ? "" : `,"answer":${verdict.answer}`;
    return `{"lease":${JSON.stringify(lease)}${answer}}`;
  }
  const { error } = verdict;
  return JSON.stringify({ lease, error, delaySeconds: verdict.verb === "abandon" ? verdict.delaySeconds : undefined });
}
