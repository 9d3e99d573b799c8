import { KeyTakenError, type PostroomError } from "../errors.js";
import type { Enqueued } from "../message/options.js";
import type { Prepared } from "../message/prepared.js";
import { InvalidError } from "../errors.js";
import { jsonValue } from "../message/payload.js";
import type { Answer } from "./connection.js";
import { refusal } from "./refusal.js";

/** A message as the body of a request. The payload's text goes in as it is, so its bytes are kept. */
export function requestText(message: Prepared, withId: boolean): string {
  if (jsonValue(message.text) === undefined) {
    throw new InvalidError("over HTTP a payload must be JSON", {
      advice: "a JSON string, or enqueue in your database",
    });
  }
  const { due, unique } = message;
  const rest = JSON.stringify({
    topic: message.topic,
    messageId: withId ? message.messageId : undefined,
    destination: message.destination ?? undefined,
    kind: message.kind ?? undefined,
    correlationId: message.correlationId ?? undefined,
    lane: message.lane ?? undefined,
    headers: message.headers ?? undefined,
    dueAt: due !== null && "at" in due ? due.at.toISOString() : undefined,
    dueAfterSeconds: due !== null && "inSeconds" in due && !isHeadStart(due) ? due.inSeconds : undefined,
    headStartSeconds: due !== null && "inSeconds" in due && isHeadStart(due) ? -due.inSeconds : undefined,
    expiresAfterSeconds: message.ttlSeconds ?? undefined,
    maxAttempts: message.maxAttempts ?? undefined,
    unique:
      unique === null
        ? undefined
        : {
            key: unique.key,
            until: unique.forSeconds !== null ? undefined : unique.untilDone ? "done" : "started",
            forSeconds: unique.forSeconds ?? undefined,
            ifTaken: unique.ifTaken,
          },
  });
  return `${rest.slice(0, -1)},"payload":${message.text}}`;
}

function isHeadStart(due: { inSeconds: number }): boolean {
  return due.inSeconds < 0 || Object.is(due.inSeconds, -0);
}

/** What the node says became of a message. */
export function enqueuedOf(body: unknown): Enqueued {
  const said = (typeof body === "object" && body !== null ? body : {}) as Partial<Enqueued>;
  return {
    messageId: String(said.messageId),
    duplicate: said.duplicate === true,
    ...(typeof said.replaced === "string" ? { replaced: said.replaced } : {}),
    ...(typeof said.keptOutBy === "string" ? { keptOutBy: said.keptOutBy } : {}),
  };
}

/** The error for a message that was refused. */
export function enqueueError(answer: Answer, messages: readonly Prepared[]): PostroomError {
  const error = refusal(answer.status, answer.body);
  if (answer.status !== 409 || !messages.some((message) => message.unique?.ifTaken === "refuse")) return error;
  const { keptOutBy } = (answer.body ?? {}) as { keptOutBy?: unknown };
  return new KeyTakenError(error.message, {
    status: 409,
    keptOutBy: typeof keptOutBy === "string" ? keptOutBy : undefined,
  });
}
