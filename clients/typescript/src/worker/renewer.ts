import { CancelledError } from "../errors.js";
import type { Connection } from "../http/connection.js";
import { itemsOf, type Item } from "./items.js";
import type { Held } from "./held.js";
import type { Queue, WorkerSettings } from "./options.js";

const ITEMS_MAX = 1000;

/** Renews the leases of what is in progress, and says when one is lost. */
export class Renewer {
  #timer: NodeJS.Timeout | undefined;
  #isRenewing = false;

  constructor(
    private readonly connection: Connection,
    private readonly settings: WorkerSettings,
    private readonly held: ReadonlySet<Held>,
    private readonly failed: (error: unknown, held?: Held) => void,
  ) {}

  /** Begins to look at the leases, six times in the time of one. */
  start(): void {
    this.#timer = setInterval(() => void this.#renew(), (this.settings.leaseSeconds * 1000) / 6);
  }

  /** Ends. */
  stop(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    this.#loseOverdue();
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    const old = performance.now() - (this.settings.leaseSeconds * 1000) / 3;
    const due = [...this.held].filter((one) => one.renewedAt <= old && !one.isLost);
    try {
      for (const queue of this.settings.queues) {
        const ours = due.filter((one) => one.queue === queue);
        for (let from = 0; from < ours.length; from += ITEMS_MAX)
          await this.#extend(queue, ours.slice(from, from + ITEMS_MAX));
      }
    } catch (error) {
      this.failed(error);
    } finally {
      this.#isRenewing = false;
    }
  }

  async #extend(queue: Queue, held: readonly Held[]): Promise<void> {
    const { leaseSeconds } = this.settings;
    const sent = performance.now();
    const items: Item[] = held.map(({ lease }) => ({ lease, leaseSeconds }));
    const results = await itemsOf(this.connection, queue, "extend", items);
    held.forEach((one, place) => {
      if (results[place]?.status === 200) {
        one.renewedAt = sent;
        one.until = sent + leaseSeconds * 1000;
        if (results[place].askedToStop === true && !one.signal.aborted) one.abort(new CancelledError());
      } else if (results[place]?.status === 409 && !one.isSettling) {
        // A message that is being settled may be settled already; then its lease is gone, too.
        this.#lose(one);
      }
    });
  }

  #lose(held: Held): void {
    held.lose();
    this.failed(held.signal.reason, held);
  }

  /** No renewal came through in time. */
  #loseOverdue(): void {
    const now = performance.now();
    for (const one of this.held) if (one.until < now && !one.isSettling) this.#lose(one);
  }
}
