// The token and the requests with it. The token is kept for this tab only, and is never part of a URL that is sent.

const KEY = "postroom-token";
/** The node stops a request after a minute. */
const PATIENCE = 65_000;

/** Takes a token from the fragment of the URL, which is never sent, and removes it from there. */
export function takeFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + "#/overview");
  try {
    keep(decodeURIComponent(found[1]));
  } catch {
    // Not a token: the page asks for one.
    forget();
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

/** Sends a request; an error answer becomes a Refusal. */
export async function ask(path, options = {}) {
  let response;
  try {
    const headers = { authorization: `Bearer ${token() ?? ""}`, ...options.headers };
    const signal = options.signal ?? AbortSignal.timeout(PATIENCE);
    response = await fetch(path, { ...options, signal, headers, credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error.name === "TimeoutError") throw new Refusal(0, "the node did not answer in time", "it may still be working on the request");
    throw new Refusal(0, "the node is unreachable", "check that it is running");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Refusal(response.status, told.detail ?? `the node answered ${response.status}`, told.advice);
  }
  return response;
}

/** Sends JSON, and returns the JSON of the answer. */
export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Reads server-sent events with fetch, because an EventSource cannot send the token. */
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
