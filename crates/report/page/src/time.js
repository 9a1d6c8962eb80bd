// SPDX-License-Identifier: MIT OR Apache-2.0
// A metric over time: the trials one after another, each as an envelope of least, median and
// greatest value, with the packets that stand out and those that never arrived. Below it, on the
// same time axis and so that they hide nothing, background loads are steps in a strip. What they
// moved and what they copied each has an axis of its own at the right.
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

const OUTLIERS = 12;

/**
 * A trial's buckets as there is room for them: those that begin in one column of pixels are one, and what is out of view is none.
 * So a picture costs its width, however many trials it shows.
 */
function columnsOf(part, brush) {
  const { bbox, ratio } = brush;
  const columns = [];
  let last = null;
  for (const { at, min, p50, max } of part.buckets) {
    const [from, to] = [brush.x(part.edge(at)), brush.x(part.edge(at + 1))];
    if (to < bbox.left || from > bbox.left + bbox.width) continue;
    if (last && Math.floor(last.from / ratio) === Math.floor(from / ratio)) {
      Object.assign(last, { to, min: Math.min(last.min, min), max: Math.max(last.max, max), end: at, after: p50 });
      Object.assign(last, { low: Math.min(last.low, p50), high: Math.max(last.high, p50) });
    } else {
      last = { from, to, min, max, begin: at, end: at, before: p50, after: p50, low: p50, high: p50 };
      columns.push(last);
    }
  }
  return columns;
}

/** The time axis of trials one after another, and of each: where it stands, where its buckets and packets do. */
function timeline(trials) {
  const x = { low: 0, high: 0, middle: null, linear: true, label: "s, trials one after another", text: (s) => grouped(String(Number(s.toPrecision(6)))) };
  const spans = trials.map((trial) => trial.edges[trial.edges.length - 1]);
  const gap = spans.reduce((a, b) => a + b, 0) * 0.012;
  const parts = trials.map((trial, i) => {
    const start = x.high;
    x.high += spans[i] + (i + 1 < trials.length ? gap : 0);
    const last = trial.edges.length - 2;
    /** Where bucket `at` begins; parts of it where they would lie if its packets were evenly apart. */
    const edge = (at) => {
      const i = Math.min(Math.max(Math.floor(at), 0), last);
      // The last one may have fewer packets.
      const whole = i === last ? (trial.packets - i * trial.each) / trial.each : 1;
      return start + trial.edges[i] + ((trial.edges[i + 1] - trial.edges[i]) * Math.min(at - i, whole)) / whole;
    };
    /** The bucket of a time. */
    const bucketAt = (at) => {
      let [low, high] = [0, last + 1];
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (start + trial.edges[middle] <= at) low = middle;
        else high = middle;
      }
      return low;
    };
    return { trial, start, end: start + spans[i], edge, bucketAt };
  });
  return { x, parts, gap };
}

/** The trials' names, and a line between two. */
function trialNames(brush, parts, gap) {
  const { ctx, bbox, ratio } = brush;
  for (const part of parts) {
    const left = brush.x(part.start);
    const room = brush.x(part.end) - Math.max(left, bbox.left);
    const texts = [`trial ${part.trial.n}${part.trial.counted ? "" : ", left out"}`, String(part.trial.n)];
    const text = texts.find((text) => ctx.measureText(text).width + 8 * ratio < room);
    const spot = [Math.max(left, bbox.left) + 4 * ratio, bbox.top + 16 * ratio];
    if (text) write(brush, text, ...spot, part.trial.counted ? colour("soft") : colour("bad"));
    // Where trials are as narrow as lines, lines would be all there is.
    if (part.start > 0 && brush.x(part.end) - left > 3 * ratio) {
      ctx.fillStyle = colour("line");
      ctx.fillRect(Math.round((left + brush.x(part.start - gap)) / 2), bbox.top, ratio, bbox.height);
    }
  }
}

function overTime(name, stream) {
  const metric = stream.metrics[name];
  const { x, parts, gap } = timeline(stream.trials.filter((trial) => trial.metrics[name]?.envelope.length));
  for (const part of parts) {
    const { missing } = part.trial;
    part.buckets = part.trial.metrics[name].envelope;
    part.missing = [];
    for (let k = 0; k < missing.length; k += 2) part.missing.push({ at: missing[k], count: missing[k + 1] });
  }
  const loads = loadLayer(stream, parts);
  const all = parts.flatMap((part) => part.buckets.map((bucket) => ({ part, bucket })));
  const least = Math.min(...all.map(({ bucket }) => bucket.min));
  const greatest = Math.max(...all.map(({ bucket }) => bucket.max));
  const value = valueAxis(name, [{ ...metric, count: 1, min: least, max: greatest }]);
  const { to, from } = stretch(value.middle);
  const edge = (to(greatest + 1) - to(least)) * 0.08 + 1e-6;
  const y = value.narrow ? { ...value, size: 54 } : { ...value, low: from(to(least) - edge), high: from(to(greatest + 1) + 2 * edge), size: 54 };
  if (loads) y.low = from(loads.below(to(y.low), to(y.high)));
  // Where all are equal, none is marked.
  const worst = (value.narrow ? [] : all.slice()).sort((a, b) => b.bucket.max - a.bucket.max).slice(0, OUTLIERS);
  // The rows of a copy are numbered over its threads in turn, and their buckets are by time.
  const placeOf = ({ part, bucket }) => part.edge(part.trial.copy ? bucket.at + 0.5 : (bucket.seq + 0.5) / part.trial.each);
  return {
    height: 280,
    stamp: stream.cell.valid ? "" : "not valid",
    caption: `${name}, ${value.unit}${loads ? `; below it, with axes at the right, what loads ${loads.caption}` : ""}`,
    x,
    y,
    rights: loads?.rights,
    key: loads?.key,
    yRange: () => [y.low, y.high],
    idle: `the band is from the least to the greatest value of some ${many} in a row, the line their median${offView(metric.limits, y)}`,
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      loads?.paint(brush);
      for (const part of parts) {
        const ink = part.trial.counted ? seriesColour(0) : colour("soft");
        ctx.fillStyle = faint(ink, 0.34);
        const columns = columnsOf(part, brush);
        for (const { from, to, min, max } of columns) {
          const [top, bottom] = [brush.y(max), brush.y(min)];
          ctx.fillRect(from, top, Math.max(ratio, to - from), Math.max(ratio, bottom - top));
        }
        ctx.beginPath();
        let last = -2;
        for (const { from, to, begin, end, before, after, low, high } of columns) {
          if (begin === last + 1) ctx.lineTo(from, brush.y(before));
          else ctx.moveTo(from, brush.y(before));
          if (low < high) [low, high].forEach((p50) => ctx.lineTo(from, brush.y(p50)));
          ctx.lineTo(to, brush.y(after));
          last = end;
        }
        ctx.strokeStyle = ink;
        ctx.lineWidth = 1.3 * ratio;
        ctx.stroke();
        ctx.fillStyle = colour("bad");
        let stroke = -Infinity;
        for (const { at } of part.missing) {
          const middle = brush.x((part.edge(at) + part.edge(at + 1)) / 2);
          if (middle - stroke < ratio) continue;
          stroke = middle;
          ctx.fillRect(middle - ratio, bbox.top, 2 * ratio, 9 * ratio);
        }
      }
      trialNames(brush, parts, gap);
      for (const entry of worst) {
        ctx.beginPath();
        ctx.arc(brush.x(placeOf(entry)), brush.y(entry.bucket.max), 2.6 * ratio, 0, 2 * Math.PI);
        ctx.fillStyle = colour("mark");
        ctx.fill();
      }
      for (const [i, [of, at, met]] of metric.limits.filter(([, at]) => at > y.low && at < y.high).entries()) {
        const py = Math.round(brush.y(at));
        ctx.fillStyle = colour(met === false ? "bad" : met ? "good" : "soft");
        ctx.fillRect(bbox.left, py, bbox.width, ratio);
        const above = py - bbox.top > 16 * ratio;
        // Next to each other, for two limits may be close.
        write(brush, `limit ${of}`, bbox.left + bbox.width - (6 + i * 76) * ratio, py + (above ? -8 : 9) * ratio, ctx.fillStyle, "right");
      }
    },
    read(at) {
      const part = parts.find((part) => at >= part.start && at < part.end);
      if (!part) return "between two trials";
      const i = part.bucketAt(at);
      const bucket = part.buckets.find((bucket) => bucket.at === i);
      const [first, last] = [i * part.trial.each, Math.min(part.trial.packets, (i + 1) * part.trial.each) - 1];
      const lost = part.missing.find((missing) => missing.at === i);
      const where = `trial ${part.trial.n}${part.trial.counted ? "" : " (left out)"}, ${many} ${count(first)}–${count(last)}${part.trial.copy ? " by their begins" : ""}`;
      const says = bucket
        ? `min ${value.text(bucket.min)}, p50 ${value.text(bucket.p50)}, max ${value.text(bucket.max)} ${value.unit} at ${one} #${count(bucket.seq)}`
        : "no value";
      return `${where}: ${says}${lost ? `; ${count(lost.count)} never arrived` : ""}${loads?.read(part, at) ?? ""}`;
    },
  };
}
