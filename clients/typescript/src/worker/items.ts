import type { Connection } from "../http/connection.js";
import { refusal } from "../http/refusal.js";
import type { Queue } from "./options.js";

/** One message of a request that settles or extends. */
export type Item = { lease: string; leaseSeconds?: number; error?: string; delaySeconds?: number | undefined };

/** What became of one. */
export interface ItemResult {
  status: number;
  askedToStop?: boolean;
}

/** Sends items, and returns their results in the same order. `text` is the body if the items are text already. */
export async function itemsOf(
  connection: Connection,
  queue: Queue,
  verb: "ack" | "abandon" | "fail" | "extend",
  items: readonly Item[] | string,
): Promise<ItemResult[]> {
  const body = typeof items === "string" ? items : JSON.stringify({ items });
  const answer = await connection.call("POST", `/v1/${queue}/${verb}`, { body });
  const { results } = (answer.body ?? {}) as { results?: ItemResult[] };
  // The status of the answer is that of the worst item, so only a body without results is a refusal.
  if (!Array.isArray(results)) throw refusal(answer.status, answer.body);
  return results;
}
