/**
 * The state of a message.
 *
 * ```ts
 * const isOver = (state: State) => state !== "ready" && state !== "leased";
 * ```
 */
export type State = "ready" | "leased" | "done" | "dead" | "expired" | "dismissed";

/**
 * A message for one of its destinations, as the node reports it.
 *
 * ```ts
 * for (const { destination, state } of await client.status(messageId)) console.log(destination, state);
 * ```
 */
export interface MessageStatus {
  topic: string | null;
  kind: string | null;
  destination: string | null;
  correlationId: string | null;
  lane: string | null;
  /** `done` means handled here, or delivered to the destination. */
  state: State;
  attempts: number;
  createdAt: string | null;
  notBefore: string | null;
  expiresAt: string | null;
  finishedAt: string | null;
  lastError: string | null;
  hasAnswer: boolean;
  /** The answer of the handler; `null` as long as there is none, and for tokens that may not see payloads. */
  answer: unknown;
}

/**
 * What a message came to.
 *
 * ```ts
 * const { state, answer }: Result<{ shelf: number }> = await client.wait(messageId);
 * ```
 */
export interface Result<Answer = unknown> {
  /** `done`, or the first other state among its destinations. */
  state: State;
  /** The answer of its handler. */
  answer: Answer | null;
  /** Why it failed, if it did. */
  lastError: string | null;
  /** The message, once for each of its destinations. */
  messages: MessageStatus[];
}

const ENDED: readonly string[] = ["done", "dead", "expired", "dismissed"] satisfies State[];

/** Whether nothing more becomes of the message by itself. */
export function hasEnded(message: MessageStatus): boolean {
  return ENDED.includes(message.state);
}

/**
 * Whether the answer may still come: a command that was delivered to another service is answered later, unless that
 * service answered at once.
 */
export function awaitsAnswer(message: MessageStatus, isWanted: boolean | undefined): boolean {
  if (message.state !== "done" || message.hasAnswer) return false;
  return isWanted ?? (message.destination !== null && (message.kind === "Command" || message.kind === "PushCall"));
}

/** The result of a message, from its status for each destination. */
export function resultOf<Answer>(messages: MessageStatus[]): Result<Answer> {
  const notDone = messages.find((message) => message.state !== "done");
  const told = notDone ?? messages.find((message) => message.hasAnswer) ?? messages[0];
  return {
    state: told?.state ?? "ready",
    answer: (told?.answer ?? null) as Answer | null,
    lastError: told?.lastError ?? null,
    messages,
  };
}
