// What changes something: counted first, told with its number, and done only after a yes.

import { post } from "/admin/session.js";

const dialog = document.getElementById("dialog");
const form = document.getElementById("act");
const preview = document.getElementById("preview");
const yes = document.getElementById("yes");

const TITLES = {
  revive: ["Retry messages", "They go back in line as if they were new."],
  expire: ["Expire what is past its time", "Waiting messages whose time to live is over will not be sent any more."],
  purge: ["Delete what was done", "Nothing else is ever deleted."],
};
const FORGETS = "What the inbox has forgotten it handles again when it is sent again: keep it for longer than any sender retries.";
const RETENTION = { outbox: "7d", inbox: "30d" };

let asked, whenDone, asking = 0;

/** Opens the dialog for a button with `data-act`. */
export function open(button, done) {
  const { act, queue, row, group, q } = button.dataset;
  asked = { act, body: { queue } };
  whenDone = done;
  if (act === "revive") {
    if (row) asked.body.row = Number(row);
    else if (group) asked.body.group = group;
    else if (q) asked.body.q = q;
    else asked.body.all = true;
  }
  form.reset();
  document.getElementById("older").value = RETENTION[queue];
  const [title, words] = TITLES[act];
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-words").textContent = act === "purge" && queue === "inbox" ? FORGETS : words;
  for (const fields of form.querySelectorAll("[data-fields]")) {
    fields.hidden = fields.dataset.fields !== act;
    for (const input of fields.querySelectorAll("input")) input.disabled = fields.hidden;
  }
  dialog.showModal();
  count();
}

function body(dryRun) {
  const filled = {};
  for (const [name, value] of new FormData(form)) {
    if (value.trim()) filled[name] = name === "perSecond" ? Number(value) : value.trim();
  }
  return { ...asked.body, ...filled, dryRun };
}

/** Says what would be done. Only then can it be. */
async function count() {
  const mine = ++asking;
  yes.disabled = true;
  yes.textContent = "Do it";
  preview.className = "";
  preview.textContent = "counting…";
  try {
    const would = await post(`/admin/act/${asked.act}`, body(true));
    if (mine !== asking) return;
    preview.textContent = would.told;
    yes.disabled = would.messages === 0;
    yes.textContent = would.messages === 0 ? "Nothing to do" : `Do it: ${would.messages.toLocaleString("en")}`;
  } catch (error) {
    if (mine !== asking) return;
    preview.className = "bad";
    preview.textContent = error.message;
  }
}

form.addEventListener("input", () => {
  ++asking;
  yes.disabled = true;
  preview.className = "";
  preview.textContent = "Changed: count again first.";
});
form.addEventListener("change", count);
document.getElementById("count").addEventListener("click", count);
document.getElementById("cancel").addEventListener("click", () => dialog.close());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (yes.disabled) return count();
  yes.disabled = true;
  preview.textContent = "working…";
  try {
    const done = await post(`/admin/act/${asked.act}`, body(false));
    dialog.close();
    whenDone(done.told);
  } catch (error) {
    preview.className = "bad";
    preview.textContent = error.message;
  }
});
