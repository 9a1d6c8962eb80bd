// SPDX-License-Identifier: MIT OR Apache-2.0
// Distributions side by side on one scale, a row each: the trials of a cell, the cells of a run,
// the stages of a way.
"use strict";

const rowHeight = (rows) => (rows <= 3 ? 64 : rows <= 8 ? 46 : rows <= 20 ? 30 : 20);

/** Rows of `{ title, metric, colour(), note }`, each as a small histogram with its p50, p99 and greatest value. */
function strips(name, rows) {
  const x = valueAxis(name, rows.map((row) => row.metric));
  const bars = 160;
  const each = rowHeight(rows.length);
  const rowAt = (y) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(rows.length - y)))];
  const figures = ({ metric }) =>
    [["p50", metric.q[0]], ["p99", metric.q[2]], ["max", metric.max]]
      .map(([of, ns]) => `${of} ${typeof ns === "number" ? x.text(ns) : ns === "inf" ? "∞" : "–"}`)
      .join(", ");
  return {
    height: rows.length * each + 56,
    x,
    y: null,
    rows: rows.length,
    idle: "one scale for all; heights are logarithmic; strokes at p50 and, where it is resolved, p99; a dot at the greatest value",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const height = bbox.height / rows.length;
      rows.forEach((row, i) => {
        const bottom = bbox.top + (i + 1) * height;
        const { metric } = row;
        if (i > 0) {
          ctx.fillStyle = colour("grid");
          ctx.fillRect(bbox.left, Math.round(bottom - height), bbox.width, ratio);
        }
        if (metric.count > 0) {
          const counts = rebin(metric.bins, brush.low, brush.high, bars, x.middle);
          const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 0));
          const width = bbox.width / bars;
          ctx.beginPath();
          ctx.moveTo(bbox.left, bottom);
          counts.forEach((n, k) => {
            const top = n > 0 ? bottom - Math.max(1.5 * ratio, (Math.log1p(n) / most) * (height - 5 * ratio)) : bottom;
            ctx.lineTo(bbox.left + k * width, top);
            ctx.lineTo(bbox.left + (k + 1) * width, top);
          });
          ctx.lineTo(bbox.left + bbox.width, bottom);
          ctx.fillStyle = faint(row.colour(), 0.42);
          ctx.fill();
          ctx.fillStyle = row.colour();
          for (const ns of [metric.q[0], metric.q[2]]) {
            if (typeof ns === "number") ctx.fillRect(brush.x(ns) - ratio, bottom - height * 0.62, 2 * ratio, height * 0.62);
          }
          ctx.beginPath();
          ctx.arc(brush.x(metric.max), bottom - 4 * ratio, 3 * ratio, 0, 2 * Math.PI);
          ctx.fill();
        }
        const text = row.title + (row.note ? `, ${row.note}` : "") + (metric.count > 0 ? "" : ": no values");
        write(brush, text, bbox.left + bbox.width - 6 * ratio, bottom - height + 9 * ratio, colour(row.note ? "bad" : "ink"), "right");
      });
    },
    read(at, y) {
      const row = rowAt(y);
      if (row.metric.count === 0) return `${row.title}: no values`;
      const part = 1 - beyond(row.metric.bins, at) / row.metric.count;
      return `${row.title}: ${figures(row)} ${x.unit}; ${share(part)} are at or below ${x.text(at)}`;
    },
  };
}

const emptyMetric = { count: 0, inf: 0, bins: [], q: [], min: 0, max: 0, limits: [] };

function trialStrips(name, stream) {
  return strips(
    name,
    stream.trials.map((trial) => ({
      title: `trial ${trial.n}`,
      metric: trial.metrics[name] ?? emptyMetric,
      note: trial.counted ? "" : "left out",
      colour: () => (trial.counted ? seriesColour(0) : colour("soft")),
    })),
  );
}

function cellStrips(name, lines) {
  return strips(name, lines.map((line) => ({ ...line, note: line.valid ? "" : "not valid" })));
}

/** Each stage as a bar from its median to its 99th percentile, with a line from the least to the greatest and a ring at the mean. */
function stageBars(stream) {
  const { stages } = stream;
  const all = stages.map((stage) => ({ ...stage, count: 1, bins: [{ low: stage.p50, end: stage.p50 + 1, count: 1 }], q: [stage.p50] }));
  const x = valueAxis("stage", all);
  x.label = x.unit;
  const each = 44;
  return {
    height: stages.length * each + 56,
    stamp: stream.cell.valid ? "" : "not valid",
    x,
    y: null,
    rows: stages.length,
    idle: "bar from p50 to p99, line from min to max, ring at the mean",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const height = bbox.height / stages.length;
      stages.forEach((stage, i) => {
        const top = bbox.top + i * height;
        const middle = top + height * 0.68;
        const ink = seriesColour(i);
        ctx.fillStyle = faint(ink, 0.55);
        ctx.fillRect(brush.x(stage.min), middle - ratio / 2, brush.x(stage.max) - brush.x(stage.min), ratio);
        ctx.fillStyle = ink;
        ctx.fillRect(brush.x(stage.p50), middle - 6 * ratio, Math.max(2 * ratio, brush.x(stage.p99) - brush.x(stage.p50)), 12 * ratio);
        ctx.beginPath();
        ctx.arc(brush.x(stage.mean), middle, 3.6 * ratio, 0, 2 * Math.PI);
        ctx.fillStyle = colour("ground");
        ctx.fill();
        ctx.strokeStyle = ink;
        ctx.lineWidth = 1.6 * ratio;
        ctx.stroke();
        write(brush, stage.name, bbox.left + 4 * ratio, top + 10 * ratio, colour("ink"));
      });
    },
    read(at, y) {
      const stage = stages[Math.min(stages.length - 1, Math.max(0, Math.floor(stages.length - y)))];
      const text = ["mean", "p50", "p99", "max"].map((of) => `${of} ${x.text(stage[of])}`).join(", ");
      return `${stage.name}: ${text} ${x.unit}`;
    },
  };
}
