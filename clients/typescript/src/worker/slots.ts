/** Counts how many messages are in progress, and how many more there may be. */
export class Slots {
  #taken = 0;
  #waiting: (() => void)[] = [];

  constructor(private readonly size: number) {}

  /** Takes one, even beyond the size: two queues may have asked for the same one. */
  take(): void {
    this.#taken += 1;
  }

  /** Gives one back. */
  give(): void {
    this.#taken -= 1;
    if (this.#taken >= this.size) return;
    this.#waiting.splice(0).forEach((wake) => wake());
  }

  /** Waits until at least one is free, and returns how many are; 0 if the signal is aborted. */
  async free(signal: AbortSignal): Promise<number> {
    while (this.#taken >= this.size && !signal.aborted) {
      await new Promise<void>((wake) => {
        const end = (): void => {
          signal.removeEventListener("abort", end);
          wake();
        };
        this.#waiting.push(end);
        signal.addEventListener("abort", end);
      });
    }
    return signal.aborted ? 0 : this.size - this.#taken;
  }
}
