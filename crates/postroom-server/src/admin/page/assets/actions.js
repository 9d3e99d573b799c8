// What changes something: counted first, told with its number, and done only after a yes.

import { post } from "/admin/session.js";

const dialog = document.getElementById("dialog");
const form = document.getElementById("act");
const preview = document.getElementById("preview");
const yes = document.getElementById("yes");

const TITLES = {
  revive: ["Retry messages", "They go back in line as if they were new."],
  dismiss: ["Dismiss messages", "They no longer count as failed. They are kept for a while with your name and reason, and then deleted."],
  expire: ["Expire what is past its time", "Waiting messages whose time to live is over will not be sent any more."],
  purge: ["Delete what was done", "Messages in other states stay."],
};
const FORGETS = "What the inbox has forgotten it handles again when it is sent again: keep it for longer than any sender retries.";
const RETENTION = { outbox: "7d", inbox: "30d" };

/** What the dialog is open for: each time another one, so that what is answered late does not mix with it. */
let current;

/** Opens the dialog for a button with `data-act`. */
export function open(button, whenDone, whenRefused) {
  const { act, queue, row, group, q, dismissed } = button.dataset;
  const which = act === "revive" || act === "dismiss" ? chosen(row, group, q) : {};
  if (dismissed !== undefined) which.dismissed = true;
  current = { act, body: { queue, ...which }, whenDone, whenRefused, asking: 0, isBusy: false };
  form.reset();
  document.getElementById("older").value = RETENTION[queue];
  const [title, words] = TITLES[act];
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-words").textContent = act === "purge" && queue === "inbox" ? FORGETS : words;
  for (const fields of form.querySelectorAll("[data-fields]")) {
    fields.hidden = !fields.dataset.fields.split(" ").includes(act);
    for (const input of fields.querySelectorAll("input")) input.disabled = fields.hidden;
  }
  dialog.showModal();
  count();
}

function chosen(row, group, q) {
  if (row) return { row: Number(row) };
  return group || q ? { ...(group && { group }), ...(q && { q }) } : { all: true };
}

function body(mine, dryRun) {
  const filled = {};
  for (const [name, value] of new FormData(form)) {
    if (value.trim()) filled[name] = name === "perSecond" ? Number(value) : value.trim();
  }
  return { ...mine.body, ...filled, dryRun };
}

/** Says what went wrong: here, or on the page if the dialog is not open for it any more. */
function fail(mine, error) {
  if (error.status === 401) {
    dialog.close();
    return mine.whenRefused();
  }
  if (mine !== current || !dialog.open) return mine.whenDone(error.message);
  preview.className = "bad";
  preview.textContent = error.message;
}

/** Says what would be done. Only then can it be. */
async function count() {
  const mine = current;
  if (mine.isBusy) return;
  const nth = ++mine.asking;
  const isOver = () => mine !== current || nth !== mine.asking;
  yes.disabled = true;
  yes.textContent = "Do it";
  preview.className = "";
  preview.textContent = "counting…";
  try {
    const would = await post(`/admin/act/${mine.act}`, body(mine, true));
    if (isOver()) return;
    preview.textContent = would.told;
    yes.disabled = would.messages === 0;
    yes.textContent = would.messages === 0 ? "Nothing to do" : `Do it: ${would.messages.toLocaleString("en")}`;
  } catch (error) {
    if (!isOver() && dialog.open) fail(mine, error);
  }
}

/** Who does something and why does not change how many messages it is done to. */
const isUncounted = (event) => event.target.closest("[data-uncounted]") !== null;

form.addEventListener("input", (event) => {
  if (current.isBusy || isUncounted(event)) return;
  ++current.asking;
  yes.disabled = true;
  preview.className = "";
  preview.textContent = "Changed: count again first.";
});
form.addEventListener("change", (event) => isUncounted(event) || count());
document.getElementById("count").addEventListener("click", count);
document.getElementById("cancel").addEventListener("click", () => dialog.close());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const mine = current;
  if (mine.isBusy) return;
  if (yes.disabled) return count();
  mine.isBusy = true;
  ++mine.asking;
  yes.disabled = true;
  preview.textContent = "working…";
  try {
    const done = await post(`/admin/act/${mine.act}`, body(mine, false));
    // It is told even if the dialog was closed, or is open for something else by now.
    if (mine === current) dialog.close();
    mine.whenDone(done.told);
  } catch (error) {
    fail(mine, error);
  } finally {
    mine.isBusy = false;
  }
});
