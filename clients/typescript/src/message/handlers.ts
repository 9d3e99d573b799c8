import { InvalidError } from "../errors.js";
import { name } from "./check.js";
import type { Handler } from "./message.js";

/** The handlers by topic; `*` takes every topic without its own. */
export class Handlers {
  readonly #byTopic = new Map<string, Handler<never>>();

  /** Adds one. */
  add(topic: string, handler: Handler<never>): void {
    name("topic", topic);
    if (typeof handler !== "function") throw new InvalidError(`the handler of ${topic} must be a function`);
    if (this.#byTopic.has(topic)) throw new InvalidError(`${topic} has a handler already; a topic has one`);
    this.#byTopic.set(topic, handler);
  }

  /** The handler of a topic. */
  of(topic: string): Handler | undefined {
    return (this.#byTopic.get(topic) ?? this.#byTopic.get("*")) as Handler | undefined;
  }

  /** The topics, or `undefined` for all. */
  topics(): string[] | undefined {
    return this.#byTopic.has("*") ? undefined : [...this.#byTopic.keys()];
  }

  /** Whether there are none. */
  get isEmpty(): boolean {
    return this.#byTopic.size === 0;
  }
}
