// Draws the samples as they come in.

import { events } from "/admin/session.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600, HEIGHT = 120, KEPT = 600, MINUTE = 60_000;
const LINES = { rate: ["inPerSecond", "outPerSecond"], took: ["medianMs", "slowMs"] };

const samples = [];
let watching;

const readable = (value) => value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(2).replace(/\.0$/, "");
const span = (ms) => ms < 1000 ? `${readable(ms)} ms` : `${readable(ms / 1000)} s`;
const shown = (kind, value) => value == null ? "–" : kind === "took" ? span(value) : readable(value);

function age(seconds) {
  if (seconds == null) return "–";
  const [unit, size] = seconds < 60 ? ["s", 1] : seconds < 3600 ? ["m", 60] : seconds < 86400 ? ["h", 3600] : ["d", 86400];
  return `${Math.floor(seconds / size)}${unit}`;
}

/** Rounds up to 1, 2, 5, 10, 20 and so on. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}

function draw(figure) {
  const [queue, kind] = figure.dataset.chart.split(".");
  const svg = figure.querySelector("svg");
  const end = samples.at(-1)?.at ?? Date.now(), age = end - (samples[0]?.at ?? end);
  const minutes = [1, 2, 5].find((minutes) => age <= minutes * MINUTE) ?? 10;
  const values = (key) => samples.filter((sample) => sample[queue][key] != null)
    .map((sample) => ({ x: WIDTH - (end - sample.at) / (minutes * MINUTE) * WIDTH, y: sample[queue][key] }))
    .filter((point) => point.x >= 0);
  const lines = LINES[kind].map(values);
  const top = roundUp(Math.max(kind === "rate" ? 1 : 0.1, ...lines.flat().map((point) => point.y)));
  const grid = [0.25, 0.5, 0.75].map((part) => element("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part }));
  const paths = lines.map((points, index) => {
    const spots = points.map(({ x, y }) => `${x.toFixed(1)},${(HEIGHT - 1 - y / top * (HEIGHT - 4)).toFixed(1)}`);
    // A single point would not be drawn, so it is a line to itself.
    return element("polyline", { class: `line line${index}`, points: [...spots, ...spots.slice(-1)].join(" ") });
  });
  svg.replaceChildren(...grid, ...paths);
  figure.dataset.points = lines.map((points) => points.length).join(" ");
  LINES[kind].forEach((key, index) => {
    const now = samples.at(-1)?.[queue][key];
    figure.querySelector(`[data-now="${index}"]`).textContent = shown(kind, now);
  });
  figure.querySelector("[data-top]").textContent = samples.length ? `max: ${shown(kind, top)}` : "no data yet";
  figure.querySelector("[data-span]").textContent = minutes === 1 ? "1 minute" : `${minutes} minutes`;
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function show() {
  const newest = samples.at(-1);
  document.querySelectorAll("[data-chart]").forEach(draw);
  if (!newest) return;
  document.querySelectorAll("[data-live]").forEach((place) => {
    const [queue, key] = place.dataset.live.split(".");
    const flow = newest[queue];
    place.textContent = key === "oldest" ? age(flow.oldestSeconds) : flow[key].toLocaleString("en");
  });
  for (const way of newest.destinations) {
    const row = document.querySelector(`[data-way="${CSS.escape(way.name)}"]`);
    if (!row) continue;
    const state = row.querySelector("[data-way-state]");
    state.className = `badge ${way.class}`;
    state.textContent = way.state;
    row.querySelector("[data-way-load]").textContent = way.onTheWay;
  }
}

function say(words, isWell) {
  const place = document.getElementById("live");
  if (!place) return;
  place.textContent = words;
  place.className = isWell ? "live on" : "live";
}

/** Watches until `stop`. Reconnects after a while, unless the token is no longer valid. */
export async function watch(refused) {
  stop();
  const mine = watching = new AbortController();
  let pause = 1000;
  show();
  while (!mine.signal.aborted) {
    try {
      for await (const { name, data } of events("/admin/live", mine.signal)) {
        if (mine.signal.aborted) return;
        if (name === "trouble") { say(data, false); continue; }
        if (name === "history") samples.length = 0;
        samples.push(...[JSON.parse(data)].flat());
        samples.splice(0, samples.length - KEPT);
        say("live", true);
        show();
        pause = 1000;
      }
      say("the connection closed; reconnecting", false);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.status === 401) return refused();
      say(`${error.message}; reconnecting`, false);
    }
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 30_000);
  }
}

export function stop() {
  watching?.abort();
}
