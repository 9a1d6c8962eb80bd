// SPDX-License-Identifier: MIT OR Apache-2.0
// The page comes alive: plots are drawn when they come near the window, the picker chooses the
// metric, the button the theme.
"use strict";

const data = load();
const root = document.documentElement;
const plots = [];
let metric = data.lead;

/** The streams of all cells that have values of a metric, for the pictures that stand them side by side: stream by stream. */
const lines = (name) => {
  const several = data.cells.some((cell) => cell.streams.length > 1);
  const named = [...new Set(data.cells.flatMap((cell) => cell.streams.map((stream) => stream.name)))];
  const all = named.flatMap((of) => data.cells.flatMap((cell) => cell.streams.filter((stream) => stream.name === of)));
  // A colour each for as long as there are enough, whatever is not drawn.
  return all.filter((stream) => stream.metrics[name]?.count > 0).map((stream, i) => {
    const { cell } = stream;
    const { at } = stream.metrics[name];
    // Where rx_kernel was taken, where the streams differ in that: their lines are of two points.
    const title = [cell.title, ...(several ? [stream.name] : []), ...(at ? [`rx_kernel at ${at}`] : [])].join(", ");
    return { title, metric: stream.metrics[name], valid: cell.valid, series: i % SERIES, colour: () => seriesColour(i), hidden: hidden.has(title) };
  });
};
/** The titles of those that are switched off. */
const hidden = new Set();

/** By `data-kind`: what is drawn of a stream, or of all of them; nothing where there is nothing to draw. */
const KINDS = {
  histogram: (stream) => has(stream) && histogram(metric, stream.metrics[metric], stream),
  ccdf: (stream) =>
    has(stream) && ccdf(metric, [{ title: "", metric: stream.metrics[metric], valid: stream.cell.valid, colour: () => seriesColour(0) }]),
  time: (stream) => stream.trials.some((trial) => trial.metrics[metric]?.envelope.length) && overTime(metric, stream),
  heat: (stream) => stream.trials.some((trial) => trial.metrics[metric]?.heat) && heatMap(metric, stream),
  trials: (stream) => stream.trials.some((trial) => trial.metrics[metric]?.count) && trialStrips(metric, stream),
  stages: (stream) => stream.stages.length > 0 && stageBars(stream),
  gates: (stream) => stream.cell.gates && gateRows(stream.cell),
  threads: (stream) => stream.trials.some((trial) => trial.copy) && threadRows(stream),
  "at-once": (stream) => stream.trials.some((trial) => trial.copy) && atOnce(stream),
  sizes: () => data.sizes && overSizes(data.sizes),
  cells: () => lines(metric).length > 0 && cellStrips(metric, lines(metric)),
  "cells-ccdf": () => lines(metric).length > 0 && ccdf(metric, lines(metric)),
};
const has = (stream) => (stream.metrics[metric]?.count ?? 0) > 0;

function draw(entry) {
  const drawing = KINDS[entry.kind](entry.stream);
  entry.figure.classList.toggle("empty", !drawing);
  entry.figure.querySelectorAll(".metric").forEach((span) => (span.textContent = drawing?.caption || metric));
  entry.figure.querySelector(".key")?.remove();
  if (entry.kind === "cells-ccdf" && entry.switches !== metric) {
    entry.switches = metric;
    entry.figure.querySelector(".legend")?.remove();
    // At the picture, not below the room that the readout keeps.
    entry.figure.insertBefore(legend(entry), entry.output);
  }
  if (!drawing) {
    const why = entry.stream?.metrics[metric]?.why;
    entry.output.textContent = `no values of ${metric}${why ? ": " + why : ""}`;
    return;
  }
  entry.plot ??= new Plot(entry.host, entry.output, `${entry.figure.querySelector("figcaption b").textContent}. Arrow keys move the cursor, plus and minus zoom, 0 shows all.`);
  entry.plot.show(drawing);
  entry.figure.dataset.drawn = metric;
  if (drawing.key) entry.figure.insertBefore(keyOf(drawing.key), entry.output);
  if (entry.kind === "stages" && !entry.figure.querySelector(".shares")) shares(entry);
}

/** What colours mean. */
function keyOf(entries) {
  const list = document.createElement("div");
  list.className = "key";
  for (const { text, css, wide } of entries) {
    const part = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.style.background = css;
    swatch.classList.toggle("scale", Boolean(wide));
    part.append(swatch, text);
    list.append(part);
  }
  return list;
}

/** Where the mean goes, in one bar: means add up, percentiles do not. Of the stages between two hosts only the sum may be known. */
function shares({ figure, host, stream }) {
  const stages = stream.stages.map(({ name, share }, i) => ({ name, share, ink: `var(--series-${i % SERIES})` }));
  const parts = stages.filter(({ share }) => share !== null);
  if (stream.undivided) parts.push({ name: stream.undivided.names.join(" and "), share: stream.undivided.share, label: "cannot be divided" });
  if (parts.length === 0 || parts.some(({ share }) => share < 0)) return;
  const bar = document.createElement("div");
  bar.className = "shares";
  bar.setAttribute("role", "img");
  const texts = parts.map(({ name, share, label }) => `${name} ${(100 * share).toFixed(1)} %${label ? `, which ${label}` : ""}`);
  bar.setAttribute("aria-label", "shares of the mean: " + texts.join(", "));
  parts.forEach(({ share, label, ink }, i) => {
    const part = document.createElement("span");
    part.style.flexGrow = String(share);
    if (label) part.className = "undivided";
    else part.style.background = ink;
    part.title = texts[i];
    const text = Math.round(100 * share) + THIN + "%";
    if (share > 0.06) part.textContent = label && share > 0.4 ? `${label}: ${text}` : text;
    bar.append(part);
  });
  figure.insertBefore(bar, host);
}

const near = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen) {
      const entry = plots.find((entry) => entry.figure === target);
      entry.near = isIntersecting;
      if (isIntersecting && entry.stale) {
        entry.stale = false;
        draw(entry);
      }
    }
  },
  { rootMargin: "500px" },
);

function redrawAll() {
  for (const entry of plots) {
    if (entry.near) draw(entry);
    else entry.stale = true;
  }
}

/** A switch for each curve. */
function legend(entry) {
  const list = document.createElement("div");
  list.className = "legend";
  for (const { title, series } of lines(metric)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = title;
    button.style.setProperty("--key", `var(--series-${series})`);
    button.setAttribute("aria-pressed", String(!hidden.has(title)));
    button.addEventListener("click", () => {
      hidden.has(title) ? hidden.delete(title) : hidden.add(title);
      button.setAttribute("aria-pressed", String(!hidden.has(title)));
      draw(entry);
    });
    list.append(button);
  }
  return list;
}

for (const figure of document.querySelectorAll("figure[data-kind]")) {
  const [cell, stream] = [figure.dataset.cell, figure.dataset.stream];
  const host = document.createElement("div");
  host.className = "plot";
  const output = document.createElement("output");
  const reset = document.createElement("button");
  reset.type = "button";
  reset.className = "reset";
  reset.textContent = "show all";
  figure.querySelector("figcaption").append(reset);
  figure.append(host, output);
  const of = cell === undefined ? null : data.cells[cell].streams[stream];
  const entry = { figure, host, output, kind: figure.dataset.kind, stream: of, plot: null, near: false, stale: true };
  reset.addEventListener("click", () => {
    entry.plot?.reset();
    host.focus({ preventScroll: true });
  });
  plots.push(entry);
  near.observe(figure);
}

for (const radio of document.querySelectorAll("input[name=metric]")) {
  radio.addEventListener("change", () => {
    metric = radio.value;
    redrawAll();
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = document.getElementById("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
function themed() {
  colours = new Map();
  theme.textContent = isDark() ? "light" : "dark";
  theme.setAttribute("aria-label", `show the page ${theme.textContent}`);
  plots.forEach((entry) => entry.plot?.repaint());
}
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  themed();
});
dark.addEventListener("change", themed);
// Paper has no window to come near to.
addEventListener("beforeprint", () => plots.filter((entry) => entry.stale).forEach((entry) => ((entry.stale = false), draw(entry))));
root.classList.add("live");
themed();
