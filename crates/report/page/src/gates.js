// SPDX-License-Identifier: MIT OR Apache-2.0
// When in a cycle packets came to the driver, a row for each traffic class, with the windows of its
// gate behind.
"use strict";

/** Parts of `[open, close)` within a cycle: one that reaches over the cycle's end is two. */
function withinCycle([open, close], cycle) {
  const from = ((open % cycle) + cycle) % cycle;
  const to = from + Math.min(close - open, cycle);
  return to <= cycle ? [[from, to]] : [[from, cycle], [0, to - cycle]];
}

/** Rows of `{ title, windows, counts }` in one cycle; `shift` is how long before its window's launch times etf lets a packet go. */
function gateRows(cell) {
  const { cycle, of, shift, rows } = cell.gates;
  const each = rowHeight(rows.length);
  const unit = unitFor(null, cycle);
  const rowAt = (y) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(rows.length - y)))];
  const key = [{ text: of === "gates" ? "gate open" : "where releases should lie", css: "var(--grid)" }];
  if (shift > 0 && of === "gates") key.push({ text: "the same, earlier by etf.delta", css: "var(--line)" });
  return {
    height: rows.length * each + 56,
    stamp: cell.valid ? "" : "not valid",
    x: { low: 0, high: cycle, linear: true, middle: null, label: `phase in the cycle of the ${of}, ${unit}`, text: (ns) => inUnit(ns, unit) },
    y: null,
    rows: rows.length,
    key,
    idle: "packets by the phase at which they came to the driver; heights are logarithmic",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const height = bbox.height / rows.length;
      rows.forEach((row, i) => {
        const bottom = bbox.top + (i + 1) * height;
        const top = bottom - height;
        for (const window of row.windows) {
          ctx.fillStyle = colour("grid");
          for (const [from, to] of withinCycle(window, cycle)) {
            ctx.fillRect(brush.x(from), top + ratio, Math.max(ratio, brush.x(to) - brush.x(from)), height - ratio);
          }
          if (shift > 0 && of === "gates") {
            ctx.fillStyle = colour("line");
            for (const [from, to] of withinCycle([window[0] - shift, window[1] - shift], cycle)) {
              ctx.fillRect(brush.x(from), bottom - 4 * ratio, Math.max(ratio, brush.x(to) - brush.x(from)), 4 * ratio);
            }
          }
        }
        const counts = row.counts ?? [];
        const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 0));
        ctx.fillStyle = seriesColour(i);
        counts.forEach((n, k) => {
          if (n === 0) return;
          const [from, to] = [brush.x((k * cycle) / counts.length), brush.x(((k + 1) * cycle) / counts.length)];
          const tall = Math.max(1.5 * ratio, (Math.log1p(n) / most) * (height - 18 * ratio));
          ctx.fillRect(from, bottom - tall, Math.max(ratio, to - from - ratio / 2), tall);
        });
        if (i > 0) {
          ctx.fillStyle = colour("line");
          ctx.fillRect(bbox.left, Math.round(top), bbox.width, ratio);
        }
        write(brush, row.title + (row.counts ? "" : ": no stream of the experiment"), bbox.left + 4 * ratio, top + 9 * ratio, colour("ink"));
      });
    },
    read(at, y) {
      const row = rowAt(y);
      const inside = row.windows.some((window) => withinCycle(window, cycle).some(([from, to]) => at >= from && at < to));
      const gate = of === "gates" ? `gate ${inside ? "open" : "closed"}` : inside ? "in time" : "out of time";
      const counts = row.counts ?? [];
      const n = counts[Math.min(counts.length - 1, Math.floor((at / cycle) * counts.length))] ?? 0;
      return `${row.title}, at ${inUnit(at, unit)} ${unit}: ${gate}, ${count(n)} packets`;
    },
  };
}
