// SPDX-License-Identifier: MIT OR Apache-2.0
// One metric's distribution: the histogram, and how many packets are later than a value (CCDF),
// alone or of all cells.
"use strict";

const PERCENTILES = ["p50", "p90", "p99", "p99.9", "p99.99"];
const SHOWN = ["p50", "p99", "p99.9"];

/** The x axis on which all of these distributions (bins, min, max, q) stand. */
function valueAxis(name, all) {
  const some = all.filter((metric) => metric.count > 0);
  const least = Math.min(...some.map((metric) => metric.min));
  const greatest = Math.max(...some.map((metric) => metric.max));
  const bins = some.flatMap((metric) => metric.bins);
  // Where all values are about one, there is still an axis, on which 1 ns is narrower than a bar.
  const narrow = greatest - least < 4;
  const middle = narrow && least < 10e3 ? 100 : middleOf(least, bins);
  const { to, from } = stretch(middle);
  const spread = to(greatest + 1) - to(least);
  const edge = narrow ? Math.max(0.05, 80 * spread) : Math.max(spread * 0.02, 1e-6);
  const medians = some.map((metric) => metric.q[0]).filter((p50) => typeof p50 === "number");
  const unit = unitFor(name === "delta" ? null : medians.length ? Math.min(...medians) : null, Math.max(Math.abs(least), Math.abs(greatest)));
  const text = (ns) => inUnit(ns, unit);
  // Ticks are round, so their digits are needed: between 499.99 and 500.01 four would give all
  // the same name.
  const tick = (ns) => inUnit(ns, unit, 8);
  return { low: from(to(least) - edge), high: from(to(greatest + 1) + edge), middle, narrow, linear: false, grain: 1, label: `${name}, ${unit}`, unit, text, tick };
}

/** The percentiles, the greatest value and the user's limits as lines. */
function marksOf(metric, axis) {
  const marks = SHOWN.map((name) => ({ name, at: metric.q[PERCENTILES.indexOf(name)] }))
    .concat({ name: "max", at: metric.max })
    .filter((mark) => typeof mark.at === "number")
    .map((mark) => ({ at: mark.at, text: `${mark.name} ${axis.text(mark.at)}`, colour: colour("mark") }));
  return marks.concat(
    metric.limits.map(([of, at, met]) => ({
      at,
      solid: true,
      text: `limit ${of} ${axis.text(at)}${met === false ? ", broken" : met ? ", kept" : ""}`,
      colour: colour(met === false ? "bad" : met ? "good" : "soft"),
    })),
  );
}

/** Names the user's limits that are beyond either end of an axis: they have no line on it. */
function offView(limits, axis) {
  const off = limits.filter(([, at]) => at < axis.low || at > axis.high);
  const names = off.map(([of, at, met]) => `${of} ${axis.text(at)} ${axis.unit}${met === false ? " (broken)" : met ? " (kept)" : ""}`);
  return names.length ? `; limits outside of this view: ${names.join(", ")}` : "";
}

function countAxis(text) {
  return { linear: false, middle: null, text, size: 46 };
}

function histogram(name, metric, stream) {
  const x = valueAxis(name, [metric]);
  const bars = 150;
  const counts = (low, high) => rebin(metric.bins, low, high, bars, x.middle);
  const total = metric.count + metric.inf;
  const bin = (at, low, high) => {
    const { to, from } = stretch(x.middle);
    const width = (to(high) - to(low)) / bars;
    const i = Math.floor((to(at) - to(low)) / width);
    return [i, from(to(low) + i * width), from(to(low) + (i + 1) * width)];
  };
  let view = [x.low, x.high];
  return {
    height: 250,
    stamp: stream.cell.valid ? "" : "not valid",
    x,
    y: { grain: 1, ...countAxis((n) => (n >= 1e6 ? n / 1e6 + "M" : n >= 1e3 ? n / 1e3 + "k" : n >= 1 ? String(n) : "")) },
    yRange: (low, high) => [0.7, Math.max(10, counts(low, high).reduce((a, b) => Math.max(a, b), 0)) * 2.5],
    idle: `${count(metric.count)} ${many}${metric.inf ? `; ${count(metric.inf)} more never arrived` : ""}${offView(metric.limits, x)}`,
    paint(brush) {
      const { ctx, bbox } = brush;
      view = [brush.low, brush.high];
      const bottom = bbox.top + bbox.height;
      const width = bbox.width / bars;
      ctx.beginPath();
      ctx.moveTo(bbox.left, bottom);
      counts(...view).forEach((n, i) => {
        const top = n > 0 ? brush.y(Math.max(n, 1)) : bottom;
        ctx.lineTo(bbox.left + i * width, top);
        ctx.lineTo(bbox.left + (i + 1) * width, top);
      });
      ctx.lineTo(bbox.left + bbox.width, bottom);
      ctx.fillStyle = faint(seriesColour(0), 0.28);
      ctx.fill();
      ctx.strokeStyle = seriesColour(0);
      ctx.lineWidth = brush.ratio * 1.2;
      ctx.stroke();
      flags(brush, marksOf(metric, x));
    },
    read(at) {
      const [i, from, to] = bin(at, ...view);
      const n = Math.round(counts(...view)[i] ?? 0);
      const below = share(1 - (beyond(metric.bins, to) + metric.inf) / total);
      return `${x.text(from)}–${x.text(to)} ${x.unit}: ${count(n)} ${many}; ${below} are at or below ${x.text(to)}`;
    },
  };
}

/** The share of packets that took longer, for one or several `{ title, metric, colour, valid }`. */
function ccdf(name, lines) {
  const some = lines.filter((line) => line.metric.count > 0);
  const x = valueAxis(name, some.map((line) => line.metric));
  for (const line of some) {
    const total = line.metric.count + line.metric.inf;
    let left = total;
    line.steps = [[line.metric.bins[0].low, 1]];
    for (const bin of line.metric.bins) {
      left -= bin.count;
      line.steps.push([Math.min(bin.end, line.metric.max + 1), left / total]);
    }
    line.total = total;
  }
  const least = 0.7 / Math.max(...some.map((line) => line.total));
  const later = (line, at) => (beyond(line.metric.bins, at) + line.metric.inf) / line.total;
  return {
    height: 250,
    stamp: some.length === 1 && !some[0].valid ? "not valid" : "",
    x,
    y: { ...countAxis(perCent), size: Math.max(46, 10 + textWidth(perCent(10 ** Math.floor(Math.log10(least))))) },
    yRange: () => [least, 1.4],
    idle: some.length > 1 ? `the share of ${many} later than a value${some.some((line) => !line.valid) ? "; dashed: not valid" : ""}` : `how many ${many} are later than a value${some.length ? offView(some[0].metric.limits, x) : ""}`,
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      for (const line of some.filter((line) => !line.hidden)) {
        ctx.beginPath();
        line.steps.forEach(([at, part], i) => {
          const y = part > 0 ? brush.y(part) : bbox.top + bbox.height;
          if (i === 0) ctx.moveTo(bbox.left, brush.y(1));
          ctx.lineTo(brush.x(at), i === 0 ? brush.y(1) : y);
        });
        // What never arrived is later than anything.
        if (line.metric.inf > 0) ctx.lineTo(bbox.left + bbox.width, brush.y(line.metric.inf / line.total));
        ctx.strokeStyle = line.colour();
        ctx.setLineDash(line.valid ? [] : [5 * ratio, 3 * ratio]);
        ctx.lineWidth = 1.6 * ratio;
        ctx.stroke();
        ctx.setLineDash([]);
        if (line.metric.inf > 0 && some.length === 1) {
          const y = brush.y(line.metric.inf / line.total) - 9 * ratio;
          write(brush, `${count(line.metric.inf)} never arrived`, bbox.left + bbox.width - 6 * ratio, y, colour("bad"), "right");
        }
        const limits = some.length === 1 ? line.metric.limits : [];
        for (const [of, at, met] of limits.filter(([, at]) => at >= brush.low && at <= brush.high)) {
          const q = { p50: 0.5, p90: 0.1, p99: 0.01, "p99.9": 1e-3, "p99.99": 1e-4 }[of];
          const [px, py] = [brush.x(at), q ? brush.y(q) : bbox.top];
          ctx.beginPath();
          ctx.moveTo(px, bbox.top + bbox.height);
          ctx.lineTo(px, py);
          if (q) ctx.lineTo(bbox.left, py);
          ctx.strokeStyle = colour(met === false ? "bad" : met ? "good" : "soft");
          ctx.lineWidth = 1.2 * ratio;
          ctx.stroke();
          const right = px < bbox.left + bbox.width / 2;
          const spot = [px + (right ? 5 : -5) * ratio, py + 9 * ratio];
          write(brush, `limit ${of} ${x.text(at)}`, ...spot, ctx.strokeStyle, right ? "left" : "right");
        }
      }
    },
    read(at) {
      const parts = some.filter((line) => !line.hidden).map((line) => {
        const part = later(line, at);
        const packets = `${count(part * line.total)} of ${count(line.total)} ${many}`;
        return some.length > 1 ? `${line.title} ${share(1 - part)}` : `${packets} are later; ${share(1 - part)} are at or below`;
      });
      return `${x.text(at)} ${x.unit}: ${some.length > 1 ? "at or below: " : ""}${parts.join(" · ")}`;
    },
  };
}

/** A share on an axis, in per cent without the sign. */
const perCent = (part) => String(Number((part * 100).toPrecision(2)));
