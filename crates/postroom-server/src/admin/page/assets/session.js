// The token, and requests with it. It is kept for this tab alone, and never stands in an address that is sent.

const KEY = "postroom-token";

/** Takes a token from the part of the address that is never sent, and removes it there at once. */
export function takeFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname + "#/overview");
  }
}

export const token = () => sessionStorage.getItem(KEY);
export const keep = (text) => sessionStorage.setItem(KEY, text);
export const forget = () => sessionStorage.removeItem(KEY);

/** What was wrong, and what to try. */
export class Refusal extends Error {
  constructor(status, error, advice) {
    super(advice ? `${error}: ${advice}` : error);
    this.status = status;
  }
}

/** Asks the node; an answer that is no success becomes a Refusal. */
export async function ask(path, options = {}) {
  let response;
  try {
    const headers = { authorization: `Bearer ${token() ?? ""}`, ...options.headers };
    response = await fetch(path, { ...options, headers, credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the node cannot be reached", "is it running?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Refusal(response.status, told.error ?? `the node answered ${response.status}`, told.advice);
  }
  return response;
}

/** Sends JSON, and gives the JSON of the answer. */
export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Server-sent events, read by hand: an EventSource cannot send the token. */
export async function* events(path, signal) {
  const response = await ask(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const field = (name) => part.split("\n").filter((line) => line.startsWith(name + ":"))
        .map((line) => line.slice(name.length + 1).trimStart()).join("\n");
      if (field("data")) yield { name: field("event"), data: field("data") };
    }
  }
}
