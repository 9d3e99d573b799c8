// Navigation and views. The node renders the HTML; this script inserts it.

import { ask, forget, keep, Refusal, takeFromAddress, token } from "/admin/session.js";
import { stop, watch } from "/admin/charts.js";
import { open } from "/admin/actions.js";

const VIEWS = ["overview", "failed", "dismissed", "audit", "message", "find"];
const place = (id) => document.getElementById(id);
const view = place("view"), said = place("said"), login = place("login");

let turn = 0, isEntered = false;

/** `#/failed?queue=inbox` is the view `failed` with a query. */
function here() {
  const [name, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { name: VIEWS.includes(name) ? name : "overview", query };
}

async function show({ keepPlace = false } = {}) {
  const mine = ++turn, { name, query } = here();
  const isIn = token() !== null;
  for (const id of ["nav", "finder", "leave"]) place(id).hidden = !isIn;
  login.hidden = isIn;
  if (!isIn) {
    stop();
    view.replaceChildren();
    view.setAttribute("aria-busy", "false");
    document.title = "Sign in · Postroom";
    place("token").focus();
    return;
  }
  view.setAttribute("aria-busy", "true");
  for (const link of place("nav").querySelectorAll("a")) {
    link.setAttribute("aria-current", link.hash === `#/${name}` ? "page" : "false");
  }
  if (name !== "overview") stop();
  try {
    const html = await (await ask(`/admin/view/${name}?${query}`)).text();
    if (mine !== turn) return;
    view.innerHTML = html;
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) return refused();
    view.replaceChildren(problem(error));
  }
  watchIfSeen();
  view.querySelectorAll("time").forEach(tellAge);
  view.setAttribute("aria-busy", "false");
  view.dataset.shown = name;
  document.title = `${view.querySelector("h1")?.textContent ?? "Postroom"} · Postroom`;
  if (!keepPlace) scrollTo(0, 0);
  // On the first load the focus stays before the link that skips to the content.
  if (isEntered) place("main").focus({ preventScroll: true });
  isEntered = true;
}

function problem(error) {
  const box = document.createElement("div");
  box.className = "trouble";
  box.setAttribute("role", "alert");
  const title = document.createElement("h1");
  title.textContent = error.status === 404 ? "Not found" : "Cannot show this page";
  const words = document.createElement("p");
  words.textContent = error.message;
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => show());
  box.append(title, words, again);
  return box;
}

/** The time in the local time zone, and how long ago it was. */
function tellAge(time) {
  const at = new Date(time.dateTime);
  const seconds = Math.round((Date.now() - at) / 1000), away = Math.abs(seconds);
  const [size, unit] = away < 60 ? [1, "s"] : away < 3600 ? [60, "m"] : away < 86400 ? [3600, "h"] : [86400, "d"];
  const told = `${Math.floor(away / size)} ${unit}`;
  time.title = time.textContent;
  time.textContent = `${at.toLocaleString("sv")} (${seconds < 0 ? `in ${told}` : `${told} ago`})`;
}

function tell(words) {
  said.textContent = words;
}

/** A hidden tab keeps no connection open, because a browser has only six for all tabs. */
function watchIfSeen() {
  if (document.hidden) stop();
  else if (token() !== null && here().name === "overview" && view.querySelector("[data-chart]")) watch(refused);
}

/** After a restart, the token may no longer be valid. */
function refused() {
  signOut("This token is not valid here.");
}

function signOut(words = "") {
  forget();
  stop();
  place("refused").textContent = words;
  show();
}

login.addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = place("token");
  keep(field.value.trim());
  field.value = "";
  try {
    await ask("/admin/view/overview");
    place("refused").textContent = "";
    show();
  } catch (error) {
    signOut(error instanceof Refusal && error.status === 401 ? "This token is not valid here." : error.message);
  }
});

document.addEventListener("submit", (event) => {
  const go = event.target.dataset.go;
  if (!go) return;
  event.preventDefault();
  const query = new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value));
  location.hash = `#/${go}?${query}`;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) open(button, (told) => { tell(told); show({ keepPlace: true }); }, refused);
  const skip = event.target.closest(".skip");
  if (skip) {
    event.preventDefault();
    place("main").focus();
  }
});

document.addEventListener("visibilitychange", watchIfSeen);
place("leave").addEventListener("click", () => signOut());
addEventListener("hashchange", () => {
  takeFromAddress();
  tell("");
  show();
});

takeFromAddress();
show();
