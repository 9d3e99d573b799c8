import { LeaseLostError } from "../errors.js";
import type { Message } from "../message/message.js";
import type { Queue } from "./options.js";

/** A message that this worker has under a lease. */
export class Held {
  readonly #controller = new AbortController();
  /** When the lease ends, by this process's clock. */
  until: number;
  /** When it was renewed last. */
  renewedAt: number;
  /** Whether its result is on the way, or it was given back: nothing else may settle it. */
  isSettling = false;
  /** Whether somebody else has the message or will get it. */
  isLost = false;

  constructor(
    readonly queue: Queue,
    readonly lease: string,
    readonly message: Message,
    leaseMs: number,
  ) {
    this.renewedAt = performance.now();
    this.until = this.renewedAt + leaseMs;
  }

  /** What the handler sees. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Tells the handler that its work is in vain. */
  abort(why: Error): void {
    this.#controller.abort(why);
  }

  /** Somebody else has the message or will get it. */
  lose(): void {
    this.isLost = this.isSettling = true;
    this.abort(new LeaseLostError());
  }
}
