// SPDX-License-Identifier: MIT OR Apache-2.0
// The page's data, unpacked (bins, envelopes, what a distribution answers), and figures as people
// read them: one unit for each plot, grouped digits, shares, ticks inside a decade.
"use strict";

const THIN = "\u202f";
const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };

/** Digits before the point in groups of three. */
function grouped(text) {
  const [whole, rest] = text.split(".");
  const sign = whole.startsWith("-") ? "-" : "";
  const digits = whole.slice(sign.length).replace(/\B(?=(\d{3})+$)/g, THIN);
  return sign + digits + (rest ? "." + rest : "");
}

const count = (n) => grouped(String(Math.round(n)));

/** The unit in which a plot of values (ns) up to `greatest` with that median reads best; the tables choose the same way. */
function unitFor(median, greatest) {
  if (Math.abs(greatest) < 10e3) return "ns";
  if (median !== null && Math.abs(median) >= 10e6) return "ms";
  return "µs";
}

/** `ns` in `unit` without the sign, to `digits` significant ones, but not finer than 1 ns, of which a mean has fractions. */
function inUnit(ns, unit, digits = 4) {
  const value = ns / UNITS[unit];
  if (value === 0) return "0";
  const finest = Math.max(3, Math.round(Math.log10(UNITS[unit])));
  const decimals = Math.max(0, Math.min(finest, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  const text = value.toFixed(decimals);
  return grouped(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

/** A share, never rounded up to all of it. */
function share(part) {
  if (part >= 1) return "100" + THIN + "%";
  const beyond = 1 - part;
  const decimals = beyond > 0 ? Math.max(0, Math.min(6, Math.ceil(-Math.log10(beyond)) - 1)) : 0;
  const factor = 10 ** decimals;
  return (Math.floor(part * 100 * factor) / factor).toFixed(decimals) + THIN + "%";
}

/** Labels on one line of a canvas, the weightiest first, that do not touch: `[value, text]` of those that fit. */
function spaced(candidates, place, extent) {
  const taken = [];
  const kept = [];
  for (const [value, text] of candidates) {
    const at = place(value);
    const half = extent(text) / 2;
    if (!Number.isFinite(at) || taken.some(([from, to]) => at + half > from && at - half < to)) continue;
    taken.push([at - half, at + half]);
    kept.push([value, text]);
  }
  return kept;
}

/** The least of 1, 2, 5 × 10ⁿ that is not below `about`. */
function evenStep(about) {
  const decade = 10 ** Math.floor(Math.log10(about));
  return [1, 2, 5, 10].map((m) => m * decade).find((step) => step >= about * 0.999);
}

/** Even steps from `low` to `high`, about `wanted` of them, none below `grain`, the least step that the quantity has. */
function evenTicks(low, high, wanted, grain = 0) {
  const step = Math.max(grain, evenStep((high - low) / Math.max(1, wanted)));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 60; i++) {
    ticks.push(i * step);
  }
  return ticks;
}

/** Ticks of a logarithmic axis, and of one through zero that is linear within ± `middle`; the weightiest first. */
function logTicks(low, high, middle, grain = 0) {
  const linear = middle !== null && Math.max(Math.abs(low), Math.abs(high)) <= middle;
  const times = low > 0 ? high / low : high < 0 ? low / high : Infinity;
  if (linear || times < 4) return evenTicks(low, high, 6, grain);
  const order = [1, 2, 5, 3, 7, 1.5, 4, 6, 8, 9];
  const ticks = low <= 0 && high >= 0 ? [0] : [];
  const top = Math.max(Math.abs(low), Math.abs(high));
  const bottom = middle === null ? low : middle;
  const first = Math.floor(Math.log10(bottom));
  const last = Math.ceil(Math.log10(top));
  for (const mantissa of order) {
    for (let exponent = first; exponent <= last; exponent++) {
      const value = Number((mantissa * 10 ** exponent).toPrecision(12));
      if (value < bottom * 0.999 || (grain && value % grain)) continue;
      for (const tick of middle === null ? [value] : [value, -value]) if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  // Where the linear middle passes into the logarithm, there may be next to none.
  return ticks.length < 3 ? evenTicks(low, high, 6, grain) : ticks;
}

/** Flat triples (gap from the last bin's end, width, count) to bins from `low` to below `end`. */
function unpackBins(flat) {
  const bins = [];
  let at = 0;
  for (let i = 0; i < flat.length; i += 3) {
    const low = at + flat[i];
    at = low + flat[i + 1];
    bins.push({ low, end: at, count: flat[i + 2] });
  }
  return bins;
}

/** Flat fours (least, median − least, greatest − median, packet − first packet) to buckets; a negative third is empty. */
function unpackEnvelope(flat, each) {
  const buckets = [];
  for (let i = 0; i < flat.length; i += 4) {
    if (flat[i + 2] < 0) continue;
    const at = i / 4;
    const middle = flat[i] + flat[i + 1];
    buckets.push({ at, min: flat[i], p50: middle, max: middle + flat[i + 2], seq: at * each + flat[i + 3] });
  }
  return buckets;
}

/** Where each bucket of a trial begins and the last ends, s: as said, or by the schedule. */
function unpackEdges(trial, cycle) {
  let at = 0;
  const starts = trial.starts ? trial.starts.map((gap) => (at += gap)) : Array.from({ length: Math.ceil(trial.packets / trial.each) }, (_, i) => i * trial.each * cycle);
  return [...starts, trial.end].map((ns) => ns / 1e9);
}

/** A grid: rows from `low` to below `end`, and for each column its counts by row. */
function unpackHeat({ every, rows, spots }) {
  const columns = [];
  for (let i = 0; i < spots.length; ) {
    const column = new Map();
    let row = 0;
    const end = i + 1 + 2 * spots[i];
    for (i++; i < end; i += 2) {
      row += spots[i];
      column.set(row++, { count: spots[i + 1] });
    }
    columns.push(column);
  }
  return { every, columns, rows: unpackBins(rows.flatMap((n, i) => (i % 2 ? [n, 0] : [n]))) };
}

/** Where zero and below occur, the axis is linear within ± this and logarithmic beyond; else null: a plain logarithm. */
function middleOf(low, bins) {
  if (low > 0) return null;
  const sorted = bins.map((bin) => [Math.abs((bin.low + bin.end) / 2), bin.count]).sort((a, b) => a[0] - b[0]);
  const half = sorted.reduce((sum, entry) => sum + entry[1], 0) / 2;
  let below = 0;
  const median = sorted.find((entry) => (below += entry[1]) > half);
  return Math.max(1, (median ? median[0] : 10) / 10);
}

/** How a scale stretches values, and back. */
function stretch(middle) {
  return middle === null
    ? { to: (v) => Math.log(Math.max(v, 1e-3)), from: Math.exp }
    : { to: (v) => Math.asinh(v / middle), from: (s) => Math.sinh(s) * middle };
}

/** Counts in `n` bins of equal width on the stretched axis; a bin that is wider is spread over those it covers. */
function rebin(bins, low, high, n, middle) {
  const { to } = stretch(middle);
  const start = to(low);
  const scale = n / (to(high) - start);
  const counts = new Float64Array(n);
  for (const bin of bins) {
    const from = (to(bin.low) - start) * scale;
    const end = (to(bin.end) - start) * scale;
    if (end < 0 || from > n) continue;
    if (end - from <= 1) {
      const at = Math.floor((from + end) / 2);
      if (at >= 0 && at < n) counts[at] += bin.count;
      continue;
    }
    for (let i = Math.max(0, Math.floor(from)); i < Math.min(n, Math.ceil(end)); i++) {
      counts[i] += (bin.count * (Math.min(end, i + 1) - Math.max(from, i))) / (end - from);
    }
  }
  return counts;
}

/** How many values lie beyond `x`; within a bin by its share. */
function beyond(bins, x) {
  let sum = 0;
  for (const bin of bins) {
    if (bin.low >= x) sum += bin.count;
    else if (bin.end > x) sum += (bin.count * (bin.end - x)) / (bin.end - bin.low);
  }
  return sum;
}

/** A bin is a bucket of the run's histogram; no value lies below the least or above the greatest, so neither does a bin. */
function trimmed(bins, { min, max }) {
  return bins.map(({ low, end, count }) => ({ low: Math.max(low, min), end: Math.max(Math.max(low, min) + 1, Math.min(end, max + 1)), count }));
}

/** What the figures are of: packets, or passes of a copy. */
let [one, many] = ["packet", "packets"];

/** The page's data, with everything unpacked once. */
function load() {
  const data = JSON.parse(document.getElementById("run").textContent);
  [one, many] = data.noun;
  for (const cell of data.cells) {
    for (const stream of cell.streams) {
      stream.cell = cell;
      for (const metric of Object.values(stream.metrics)) metric.bins = trimmed(unpackBins(metric.bins), metric);
      for (const trial of stream.trials) {
        trial.edges = unpackEdges(trial, stream.cycle);
        if (trial.copy) trial.copy = unpackCopy(trial.copy);
        for (const metric of Object.values(trial.metrics)) {
          metric.bins = trimmed(unpackBins(metric.bins), metric);
          metric.envelope = unpackEnvelope(metric.envelope, trial.each);
          if (metric.heat) metric.heat = unpackHeat(metric.heat);
        }
      }
    }
  }
  return data;
}
