/** A signal that is aborted after a time, or with another signal. Call `end` when it is no longer needed. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the time was over. */
  readonly isOver: () => boolean;
  /** Whether the other signal came first. */
  readonly wasGiven: () => boolean;
  readonly end: () => void;
  /** From now on only the time counts. */
  readonly detach: () => void;
}

/** Starts a deadline. */
export function deadline(ms: number, outer?: AbortSignal): Deadline {
  const controller = new AbortController();
  let [isOver, wasGiven] = [false, false];
  const give = (): void => {
    wasGiven = !isOver;
    controller.abort(outer?.reason);
  };
  const timer = setTimeout(() => {
    isOver = !wasGiven;
    controller.abort();
  }, ms);
  if (outer?.aborted) give();
  outer?.addEventListener("abort", give, { once: true });
  const detach = (): void => outer?.removeEventListener("abort", give);
  return {
    signal: controller.signal,
    isOver: () => isOver,
    wasGiven: () => wasGiven,
    end: () => {
      clearTimeout(timer);
      detach();
    },
    detach,
  };
}
