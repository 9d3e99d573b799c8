// Actions: the dialog counts the messages first, and changes them only after a confirmation.

import { post } from "/admin/session.js";

const dialog = document.getElementById("dialog");
const form = document.getElementById("act");
const preview = document.getElementById("preview");
const yes = document.getElementById("yes");

const TITLES = {
  revive: ["Retry messages", "The messages are requeued as if they were new."],
  dismiss: ["Dismiss messages", "The messages no longer count as failed. They are kept with your name and reason until their retention time ends."],
  cancel: ["Cancel the message", "If it waits, it is dismissed. If it is in progress, it is asked to stop, and is not tried again."],
  expire: ["Expire overdue messages", "Ready messages past their time to live are marked as expired and are not delivered."],
  purge: ["Delete done messages", "Messages in other states stay."],
};
const CANCEL_LANE = ["Cancel the lane", "Messages that wait are dismissed. One in progress is asked to stop, and is not tried again. Dead messages stay."];
const FORGETS = "The inbox cannot recognise duplicates of deleted messages. Keep messages for longer than any sender retries.";
const RETENTION = { outbox: "7d", inbox: "30d" };

/** The action of the open dialog: a new object each time, so that late answers to an old one can be told apart. */
let current;

/** Opens the dialog for a button with `data-act`. */
export function open(button, whenDone, whenRefused) {
  const { act, queue, row, lane, group, q, dismissed } = button.dataset;
  const which = lane !== undefined ? { lane } : ["revive", "dismiss", "cancel"].includes(act) ? chosen(row, group, q) : {};
  if (dismissed !== undefined) which.dismissed = true;
  current = { act, body: { queue, ...which }, whenDone, whenRefused, asking: 0, isBusy: false };
  form.reset();
  document.getElementById("older").value = RETENTION[queue];
  const [title, words] = lane !== undefined ? CANCEL_LANE : TITLES[act];
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

/** Shows the error in the dialog, or on the page if the dialog is closed. */
function fail(mine, error) {
  if (error.status === 401) {
    dialog.close();
    return mine.whenRefused();
  }
  if (mine !== current || !dialog.open) return mine.whenDone(error.message);
  preview.className = "bad";
  preview.textContent = error.message;
}

/** Counts the messages, and enables the button. */
async function count() {
  const mine = current;
  if (mine.isBusy) return;
  const nth = ++mine.asking;
  const isOver = () => mine !== current || nth !== mine.asking;
  yes.disabled = true;
  yes.textContent = "Confirm";
  preview.className = "";
  preview.textContent = "counting…";
  try {
    const would = await post(`/admin/act/${mine.act}`, body(mine, true));
    if (isOver()) return;
    preview.textContent = would.told;
    yes.disabled = would.messages === 0;
    yes.textContent = would.messages === 0 ? "Nothing to do" : `Confirm: ${would.messages.toLocaleString("en")}`;
  } catch (error) {
    if (!isOver() && dialog.open) fail(mine, error);
  }
}

/** The name and the reason do not change the number of messages. */
const isUncounted = (event) => event.target.closest("[data-uncounted]") !== null;

form.addEventListener("input", (event) => {
  if (current.isBusy || isUncounted(event)) return;
  ++current.asking;
  yes.disabled = true;
  preview.className = "";
  preview.textContent = "The settings changed. Count again first.";
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
    // Show the result even if the dialog was closed or is open for another action.
    if (mine === current) dialog.close();
    mine.whenDone(done.told);
  } catch (error) {
    fail(mine, error);
  } finally {
    mine.isBusy = false;
  }
});
