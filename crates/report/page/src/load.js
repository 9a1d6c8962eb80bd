// SPDX-License-Identifier: MIT OR Apache-2.0
// What background loads did while the packets were under way: steps in a strip below a picture over time, on its time axis, so that they
// hide nothing of it. What they moved and what they copied has an axis of its own each, at the right.
"use strict";

/** From a rate in bytes a second to what the axis says. What is copied in memory is no traffic. */
const AXES = [
  { does: "moved", unit: "Mbit/s", of: (bytes) => (bytes * 8) / 1e6 },
  { does: "copied", unit: "MB/s", of: (bytes) => bytes / 1e6 },
];

/** The part of a picture's height that is the strip's. */
const STRIP = 0.2;

/** The loads of a stream's trials as a layer; null where no trial has one. `parts` say where each trial stands. */
function loadLayer(stream, parts) {
  const { loads } = stream.cell;
  const some = parts.flatMap((part) => (loads[part.trial.n] ?? []).map((load) => ({ part, load })));
  if (some.length === 0) return null;
  const names = [...new Set(some.map(({ load }) => load.name))].sort();
  const used = AXES.filter((_, i) => some.some(({ load }) => Number(load.copies) === i));
  const lines = some.map(({ part, load }) => {
    const axis = AXES[Number(load.copies)];
    // Only what lies within the trial has a place.
    const place = (i) => Math.min(part.end, Math.max(part.start, part.start + (load.first + i * load.every) / 1e9));
    const steps = load.bytes.map((bytes, i) => ({ from: place(i), to: place(i + 1), rate: axis.of((bytes * 1e9) / load.every) }));
    return { part, name: load.name, axis, series: names.indexOf(load.name) + 1, steps: steps.filter(({ from, to }) => to > from) };
  });
  const text = (rate) => inUnit(rate, "ns");
  const dashed = (axis) => used.indexOf(axis) > 0;
  const rights = used.map((axis) => {
    const steps = lines.filter((line) => line.axis === axis).flatMap((line) => line.steps);
    const high = Math.max(steps.reduce((most, { rate }) => Math.max(most, rate), 0), 1e-3) * 1.06;
    const size = 14 + Math.max(textWidth(text(high)), textWidth(axis.unit));
    // The axis goes on above the strip, with nothing on it.
    return { linear: true, low: 0, high: high / STRIP, top: high, unit: axis.unit, text: (rate) => grouped(String(Number(rate.toPrecision(6)))), size };
  });
  const axisOf = (name) => lines.find((line) => line.name === name).axis;
  return {
    caption: used.map((axis) => `${axis.does}, ${axis.unit}${dashed(axis) ? ", dashed" : ""}`).join("; and "),
    rights,
    /** From where on a value axis must reach down so that the strip lies below it. */
    below: (low, high) => low - ((high - low) * STRIP) / (1 - STRIP),
    key: names.map((name, i) => ({ text: `${name}, ${axisOf(name).unit}`, css: `var(--series-${(i + 1) % SERIES})` })),
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const bottom = bbox.top + bbox.height;
      ctx.fillStyle = colour("line");
      ctx.fillRect(bbox.left, Math.round(bottom - bbox.height * STRIP), bbox.width, ratio);
      for (const { steps, axis, series } of lines) {
        const side = used.indexOf(axis);
        const seen = steps.filter(({ from, to }) => to >= brush.low && from <= brush.high);
        if (seen.length === 0) continue;
        const line = new Path2D();
        const fill = new Path2D();
        fill.moveTo(brush.x(seen[0].from), bottom);
        seen.forEach(({ from, to, rate }, i) => {
          const y = brush.right(rate, side);
          i === 0 ? line.moveTo(brush.x(from), y) : line.lineTo(brush.x(from), y);
          line.lineTo(brush.x(to), y);
          fill.lineTo(brush.x(from), y);
          fill.lineTo(brush.x(to), y);
        });
        fill.lineTo(brush.x(seen[seen.length - 1].to), bottom);
        ctx.fillStyle = faint(seriesColour(series), 0.2);
        ctx.fill(fill);
        ctx.strokeStyle = faint(seriesColour(series), 0.85);
        ctx.lineWidth = ratio;
        ctx.setLineDash(dashed(axis) ? [4 * ratio, 3 * ratio] : []);
        ctx.stroke(line);
        ctx.setLineDash([]);
      }
    },
    /** What the loads did at a place; those that did nothing then are not named. */
    read(part, at) {
      const told = lines.filter((line) => line.part.trial === part.trial).flatMap(({ name, axis, steps }) => {
        const step = steps.find(({ from, to }) => at >= from && at < to);
        return step ? [`${name} ${text(step.rate)} ${axis.unit}`] : [];
      });
      return told.length > 0 ? `; load: ${told.join(", ")}` : "; no load";
    },
  };
}
