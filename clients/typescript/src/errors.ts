/**
 * A field of a message or a request that is wrong.
 *
 * ```ts
 * if (error instanceof InvalidError) for (const { field, detail } of error.fields) console.error(field, detail);
 * ```
 */
export interface FieldError {
  /** Its name, such as `topic` or `messages[2].headers.a`. */
  readonly field: string;
  /** What is wrong with it. */
  readonly detail: string;
}

/**
 * What an error can say beside its message.
 *
 * ```ts
 * throw new UnavailableError("the printer is busy", { advice: "again in a minute" });
 * ```
 */
export interface ErrorDetails {
  /** What to try. */
  readonly advice?: string | undefined;
  /** The HTTP status, if a node answered. */
  readonly status?: number | undefined;
  /** Which fields are wrong. */
  readonly fields?: readonly FieldError[] | undefined;
}

/**
 * The base of all errors in this package. The message says what was wrong and what to try. It never quotes a payload,
 * a token or a secret.
 *
 * ```ts
 * try {
 *   await client.enqueue("order.placed", { order: 7 });
 * } catch (error) {
 *   if (error instanceof PostroomError) console.error(error.message, error.status);
 * }
 * ```
 */
export class PostroomError extends Error {
  /** What to try. */
  readonly advice: string | undefined;
  /** The HTTP status, if a node answered. */
  readonly status: number | undefined;
  /** Which fields are wrong. */
  readonly fields: readonly FieldError[];

  constructor(what: string, details: ErrorDetails = {}) {
    super(details.advice === undefined ? what : `${what} (try: ${details.advice})`);
    this.name = new.target.name;
    this.advice = details.advice;
    this.status = details.status;
    this.fields = details.fields ?? [];
  }
}

/**
 * An argument or a request is wrong. The same call fails again.
 *
 * ```ts
 * await client.enqueue("", 7).catch((error) => console.error(error.message)); // topic is empty; allowed are …
 * ```
 */
export class InvalidError extends PostroomError {}

/**
 * The token is missing, expired or has not this right; or the node does not serve this host name.
 *
 * ```ts
 * if (error instanceof NotAllowedError) console.error("get another token", error.advice);
 * ```
 */
export class NotAllowedError extends PostroomError {}

/**
 * Nothing has this id.
 *
 * ```ts
 * if (error instanceof NotFoundError) console.log("it was deleted after its retention time");
 * ```
 */
export class NotFoundError extends PostroomError {}

/**
 * The request contradicts what is stored, such as a cancellation that comes too late.
 *
 * ```ts
 * if (error instanceof ConflictError) console.log("it was done before we could cancel it");
 * ```
 */
export class ConflictError extends PostroomError {}

/**
 * Another message has the unique key, and `ifTaken` is `"refuse"`.
 *
 * ```ts
 * try {
 *   await client.enqueue("report.run", {}, { unique: { key: "report", ifTaken: "refuse" } });
 * } catch (error) {
 *   if (error instanceof KeyTakenError) console.log("the report runs already");
 *   else throw error;
 * }
 * ```
 */
export class KeyTakenError extends ConflictError {
  /** The message that has the key, if the database says so. */
  readonly keptOutBy: string | undefined;

  constructor(what: string, details: ErrorDetails & { keptOutBy?: string | undefined } = {}) {
    super(what, details);
    this.keptOutBy = details.keptOutBy;
  }
}

/**
 * The node or its database is unavailable, or no answer came. Try again.
 *
 * ```ts
 * if (error instanceof UnavailableError) setTimeout(() => void tryAgain(), 5_000);
 * ```
 */
export class UnavailableError extends PostroomError {}

/**
 * The node failed. Its log says why.
 *
 * ```ts
 * if (error instanceof NodeError) console.error("look at the log of the node", error.status);
 * ```
 */
export class NodeError extends PostroomError {}

/**
 * What was waited for did not happen in time. The message is still on its way.
 *
 * ```ts
 * if (error instanceof TimeoutError) await client.wait(messageId, { timeoutMs: 60_000 });
 * ```
 */
export class TimeoutError extends PostroomError {}

/**
 * The reason of a handler's `signal`: the lease is lost, so another worker has the message or will get it.
 *
 * ```ts
 * if (signal.reason instanceof LeaseLostError) console.log("another worker has the message");
 * ```
 */
export class LeaseLostError extends PostroomError {
  constructor() {
    super("the lease of this message is lost; stop working on it");
  }
}

/**
 * The reason of a handler's `signal`: somebody cancelled the message. If the handler ends with an error, it is not tried
 * again.
 *
 * ```ts
 * if (signal.reason instanceof CancelledError) console.log("nobody needs this message any more");
 * ```
 */
export class CancelledError extends PostroomError {
  constructor() {
    super("this message was cancelled; stop working on it");
  }
}

/**
 * The reason of a handler's `signal`: the worker stops, and its grace is over.
 *
 * ```ts
 * if (signal.reason instanceof StoppedError) console.log("the message comes again, perhaps elsewhere");
 * ```
 */
export class StoppedError extends PostroomError {
  constructor() {
    super("the worker stops, and its grace is over");
  }
}
