// SPDX-License-Identifier: MIT OR Apache-2.0
// What background loads moved while the packets were under way: steps behind a picture over time, on its time axis, with an axis
// of their own at the right.
"use strict";

/** From a rate in bytes a second to what the axis says. What is copied in memory is no traffic. */
const AXES = { moves: { unit: "Mbit/s", of: (bytes) => (bytes * 8) / 1e6 }, copies: { unit: "MB/s", of: (bytes) => bytes / 1e6 } };

/** The loads of a stream's trials as a layer; null where no trial has one. `parts` say where each trial stands. */
function loadLayer(stream, parts) {
  const { loads } = stream.cell;
  const some = parts.flatMap((part) => (loads[part.trial.n] ?? []).map((load) => ({ part, load })));
  if (some.length === 0) return null;
  const names = [...new Set(some.map(({ load }) => load.name))].sort();
  const main = some.some(({ load }) => !load.copies) ? AXES.moves : AXES.copies;
  const lines = some.map(({ part, load }) => {
    const axis = load.copies ? AXES.copies : AXES.moves;
    // Only what lies within the trial has a place.
    const place = (i) => Math.min(part.end, Math.max(part.start, part.start + (load.first + i * load.every) / 1e9));
    const steps = load.bytes.map((bytes, i) => ({ from: place(i), to: place(i + 1), rate: axis.of((bytes * 1e9) / load.every) }));
    return { part, name: load.name, axis, series: names.indexOf(load.name) + 1, steps: steps.filter(({ from, to }) => to > from) };
  });
  const most = (axis) => lines.filter((line) => line.axis === axis).reduce((a, { steps }) => steps.reduce((b, { rate }) => Math.max(b, rate), a), 0);
  // Copies beside traffic: they go as high as the traffic does, and the readout tells how many they are.
  const scaleOf = (axis) => (axis === main || most(axis) === 0 ? 1 : most(main) / most(axis));
  const text = (rate) => inUnit(rate, "ns");
  const high = Math.max(most(main), 1e-3) * 1.06;
  return {
    unit: main.unit,
    right: { linear: true, low: 0, high, text: (rate) => grouped(String(Number(rate.toPrecision(6)))), size: 14 + textWidth(text(high)) },
    key: names.map((name, i) => ({ text: name, css: `var(--series-${(i + 1) % 8})` })),
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const bottom = bbox.top + bbox.height;
      for (const { steps, axis, series } of lines) {
        const scale = scaleOf(axis);
        const seen = steps.filter(({ from, to }) => to >= brush.low && from <= brush.high);
        if (seen.length === 0) continue;
        const line = new Path2D();
        const fill = new Path2D();
        fill.moveTo(brush.x(seen[0].from), bottom);
        seen.forEach(({ from, to, rate }, i) => {
          const y = brush.right(rate * scale);
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
        ctx.setLineDash(axis === main ? [] : [4 * ratio, 3 * ratio]);
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
