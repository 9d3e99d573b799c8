import { setTimeout as sleep } from "node:timers/promises";

const PATIENCE = 30_000;

/** Something that happens, and that a test waits for. */
export class Signal<T = void> {
  readonly seen: T[] = [];
  #waiting: (() => void)[] = [];

  fire(value: T): void {
    this.seen.push(value);
    this.#waiting.splice(0).forEach((wake) => wake());
  }

  /** Waits until it has happened so often. */
  async times(count: number): Promise<T[]> {
    const over = new AbortController();
    const late = sleep(PATIENCE, undefined, { signal: over.signal }).then(() => {
      throw new Error(`it happened ${this.seen.length} times, and not ${count}`);
    });
    late.catch(() => undefined);
    while (this.seen.length < count) await Promise.race([new Promise<void>((wake) => this.#waiting.push(wake)), late]);
    over.abort();
    return this.seen;
  }
}

/** Asks again and again until something holds: for what cannot be waited for. */
export async function eventually<T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> {
  const until = performance.now() + PATIENCE;
  for (;;) {
    const found = await ask();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > until) throw new Error(`not in time: ${what}`);
    await sleep(20);
  }
}
