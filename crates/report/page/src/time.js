// SPDX-License-Identifier: MIT OR Apache-2.0
// A metric over time: the trials one after another, each as an envelope of least, median and greatest value, with the packets that
// stand out and those that never arrived.
"use strict";

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
    const from = brush.x(part.start + at * part.each);
    const to = brush.x(Math.min(part.end, part.start + (at + 1) * part.each));
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

function overTime(name, stream) {
  const metric = stream.metrics[name];
  const trials = stream.trials.filter((trial) => trial.metrics[name]?.envelope.length);
  const x = { low: 0, high: 0, middle: null, linear: true, label: "s, trials one after another", text: (s) => grouped(String(Number(s.toPrecision(6)))) };
  const spans = trials.map((trial) => (trial.packets * stream.cycle) / 1e9);
  const gap = spans.reduce((a, b) => a + b, 0) * 0.012;
  const parts = trials.map((trial, i) => {
    const start = x.high;
    x.high += spans[i] + (i + 1 < trials.length ? gap : 0);
    const each = (trial.each * stream.cycle) / 1e9;
    const missing = [];
    for (let k = 0; k < trial.missing.length; k += 2) missing.push({ at: trial.missing[k], count: trial.missing[k + 1] });
    return { trial, start, end: start + spans[i], each, buckets: trial.metrics[name].envelope, missing };
  });
  const all = parts.flatMap((part) => part.buckets.map((bucket) => ({ part, bucket })));
  const least = Math.min(...all.map(({ bucket }) => bucket.min));
  const greatest = Math.max(...all.map(({ bucket }) => bucket.max));
  const value = valueAxis(name, [{ ...metric, count: 1, min: least, max: greatest }]);
  const { to, from } = stretch(value.middle);
  const edge = (to(greatest + 1) - to(least)) * 0.08 + 1e-6;
  const y = value.narrow ? { ...value, size: 54 } : { ...value, low: from(to(least) - edge), high: from(to(greatest + 1) + 2 * edge), size: 54 };
  // Where all are alike, none stands out.
  const worst = (value.narrow ? [] : all.slice()).sort((a, b) => b.bucket.max - a.bucket.max).slice(0, OUTLIERS);
  const placeOf = ({ part, bucket }) => part.start + ((bucket.seq + 0.5) * stream.cycle) / 1e9;
  return {
    height: 280,
    stamp: stream.cell.valid ? "" : "not valid",
    caption: `${name}, ${value.unit}`,
    x,
    y,
    yRange: () => [y.low, y.high],
    idle: "the band is from the least to the greatest value of some packets in a row, the line their median",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      for (const part of parts) {
        const left = brush.x(part.start);
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
          const middle = brush.x(Math.min(part.end, part.start + (at + 0.5) * part.each));
          if (middle - stroke < ratio) continue;
          stroke = middle;
          ctx.fillRect(middle - ratio, bbox.top, 2 * ratio, 9 * ratio);
        }
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
        // Beside each other, for two limits may be close.
        write(brush, `limit ${of}`, bbox.left + bbox.width - (6 + i * 76) * ratio, py + (above ? -8 : 9) * ratio, ctx.fillStyle, "right");
      }
    },
    read(at) {
      const part = parts.find((part) => at >= part.start && at < part.end);
      if (!part) return "between two trials";
      const i = Math.floor((at - part.start) / part.each);
      const bucket = part.buckets.find((bucket) => bucket.at === i);
      const [first, last] = [i * part.trial.each, Math.min(part.trial.packets, (i + 1) * part.trial.each) - 1];
      const lost = part.missing.find((missing) => missing.at === i);
      const where = `trial ${part.trial.n}${part.trial.counted ? "" : " (left out)"}, packets ${count(first)}–${count(last)}`;
      const says = bucket
        ? `min ${value.text(bucket.min)}, p50 ${value.text(bucket.p50)}, max ${value.text(bucket.max)} ${value.unit} at packet #${count(bucket.seq)}`
        : "no value";
      return `${where}: ${says}${lost ? `; ${count(lost.count)} never arrived` : ""}`;
    },
  };
}
