// SPDX-License-Identifier: MIT OR Apache-2.0
// Figures as people read them: one unit a plot, grouped digits, shares, ticks inside a decade.
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

/** The unit in which a plot of values (ns) up to `greatest` with that median reads best; the tables choose alike. */
function unitFor(median, greatest) {
  if (Math.abs(greatest) < 10e3) return "ns";
  if (median !== null && Math.abs(median) >= 10e6) return "ms";
  return "µs";
}

/** `ns` in `unit` without the sign, to `digits` significant ones. */
function inUnit(ns, unit, digits = 4) {
  const value = ns / UNITS[unit];
  if (value === 0) return "0";
  const decimals = Math.max(0, Math.min(3, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
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
