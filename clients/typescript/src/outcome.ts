import { seconds, type Span } from "./message/span.js";

const DELAY_MAX = 365 * 24 * 3600;

/**
 * Throw it in a handler to have the message retried, after a time of your choice. Any other error means a retry after
 * the usual delay: 2 s, 4 s … 60 s.
 *
 * ```ts
 * worker.handle("invoice.print", async () => {
 *   if (printerIsBusy()) throw new Retry({ after: "30s", why: "the printer is busy" });
 * });
 * ```
 */
export class Retry extends Error {
  /** Seconds until the next attempt; `undefined` for the usual delay. */
  readonly afterSeconds: number | undefined;

  constructor(options: { after?: Span; why?: string } = {}) {
    super(options.why ?? "the handler asked for a retry");
    this.name = "Retry";
    this.afterSeconds = options.after === undefined ? undefined : seconds("after", options.after, 0, DELAY_MAX);
  }
}

/**
 * Throw it in a handler when no retry can help: the message is dead, and an operator sees why.
 *
 * ```ts
 * worker.handle<Order>("order.placed", async ({ payload }) => {
 *   if (payload.items.length === 0) throw new Terminal("an order needs items");
 * });
 * ```
 */
export class Terminal extends Error {
  constructor(why: string) {
    super(why);
    this.name = "Terminal";
  }
}

/** The words of an error, as an operator should see them beside the message. They are stored and never logged. */
export function reason(error: unknown): string {
  if (error instanceof Retry || error instanceof Terminal) return error.message;
  if (error instanceof Error) return `${error.name}: ${error.message}`;
  return typeof error === "string" ? error : "the handler threw something that is no Error";
}

/** Calls a listener. If it throws, that must not change what becomes of the message. */
export function heard(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    console.error(`postroom: onError threw: ${error instanceof Error ? error.name : "something that is no Error"}`);
  }
}
