import { setTimeout as sleep } from "node:timers/promises";

/** Growing pauses with jitter, so that many clients do not come back in the same moment. */
export class Backoff {
  #failures = 0;

  constructor(
    private readonly firstMs = 100,
    private readonly longestMs = 5_000,
  ) {}

  /** The next pause, in milliseconds. */
  next(): number {
    const full = Math.min(this.longestMs, this.firstMs * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 30);
    return full / 2 + (Math.random() * full) / 2;
  }

  /** Begins anew, after a success. */
  reset(): void {
    this.#failures = 0;
  }
}

/** Waits for a while. It rejects with the signal's reason if that is aborted. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}
