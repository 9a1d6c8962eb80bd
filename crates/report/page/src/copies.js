// SPDX-License-Identifier: MIT OR Apache-2.0
// Copying threads: who copied when and on which CPU, how many did at once, and bandwidth over the
// sizes of a buffer.
"use strict";

/** A trial's copy: for each thread its slices of `every` s, with the CPU (-1: in no pass), how many passes it did, and for which share it was in one. */
function unpackCopy({ every, bytes, threads }) {
  const slice = (flat, i) => ({ cpu: flat[i], passes: flat[i + 1] / 1000, inPass: flat[i + 2] / 1000 });
  const all = threads.map(({ controller, channel, busy, slices }) => ({
    controller,
    channel,
    busy: busy / 1000,
    slices: Array.from({ length: slices.length / 3 }, (_, i) => slice(slices, 3 * i)),
  }));
  return { every: every / 1e9, bytes, threads: all, many: Math.max(1, ...all.map(({ slices }) => slices.length)) };
}

/** The time axis of the copies of trials one after another, in ms, which trials of a copy seldom exceed by much. */
function copyTimes(stream) {
  const trials = stream.trials.filter((trial) => trial.copy);
  const spans = trials.map(({ copy }) => copy.many * copy.every);
  const gap = spans.reduce((a, b) => a + b, 0) * 0.012;
  const text = (s) => grouped(String(Number((s * 1e3).toPrecision(6))));
  const x = { low: 0, high: 0, middle: null, linear: true, label: "ms, trials one after another", text };
  const parts = trials.map((trial, i) => {
    const start = x.high;
    x.high += spans[i] + (i + 1 < trials.length ? gap : 0);
    return { trial, start, end: start + spans[i], every: trial.copy.every };
  });
  const at = (when) => {
    const part = parts.find((part) => when >= part.start && when < part.end);
    return part ? { part, i: Math.floor((when - part.start) / part.every) } : null;
  };
  /** Where a slice lies, in words. */
  const says = ({ part, i }) =>
    `trial ${part.trial.n}${part.trial.counted ? "" : " (left out)"}, ${text(i * part.every)}–${text((i + 1) * part.every)} ms`;
  return { x, parts, gap, at, says };
}

const mbits = (bytes, s) => count((bytes * 8) / s / 1e6) + " Mbit/s";

/** A row for each thread: the colour is the CPU, the stronger the faster it copied. */
function threadRows(stream) {
  const { x, parts, gap, at, says } = copyTimes(stream);
  const rows = Math.max(...parts.map(({ trial }) => trial.copy.threads.length));
  const each = rows > 40 ? 9 : rowHeight(rows) / 1.6;
  const slices = parts.flatMap(({ trial, every }) => trial.copy.threads.flatMap(({ slices }) => slices.map((slice) => ({ ...slice, every }))));
  const most = slices.reduce((most, { passes, every }) => Math.max(most, passes / every), 0);
  const cpus = [...new Set(slices.map(({ cpu }) => cpu).filter((cpu) => cpu >= 0))].sort((a, b) => a - b);
  const key = cpus.slice(0, SERIES).map((cpu) => ({ text: `CPU ${cpu}`, css: `var(--series-${cpus.indexOf(cpu) % SERIES})` }));
  const titleOf = (n) => {
    const { controller, channel } = parts[0].trial.copy.threads[n] ?? {};
    return `thread ${n}${controller || channel ? `, channel ${controller}.${channel}` : ""}`;
  };
  return {
    height: rows * each + 56,
    stamp: stream.cell.valid ? "" : "not valid",
    x,
    y: null,
    rows,
    key,
    idle: "the colour is the CPU on which its passes ended; the stronger, the faster the thread copied; nothing where it was in no pass",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const height = bbox.height / rows;
      for (const part of parts) {
        part.trial.copy.threads.forEach(({ slices }, n) => {
          const top = Math.round(bbox.top + n * height);
          const bottom = Math.round(bbox.top + (n + 1) * height) - (height > 6 * ratio ? ratio : 0);
          slices.forEach(({ cpu, passes }, i) => {
            const from = part.start + i * part.every;
            if (cpu < 0 || from + part.every < brush.low || from > brush.high) return;
            const [left, right] = [Math.round(brush.x(from)), Math.round(brush.x(from + part.every))];
            ctx.fillStyle = faint(seriesColour(cpus.indexOf(cpu)), 0.16 + (0.84 * passes) / part.every / most);
            ctx.fillRect(left, top, Math.max(1, right - left), bottom - top);
          });
        });
      }
      if (height > 12 * ratio) {
        for (let n = 0; n < rows; n++) write(brush, titleOf(n), bbox.left + bbox.width - 6 * ratio, bbox.top + n * height + height / 2, colour("ink"), "right");
      }
      trialNames(brush, parts, gap);
    },
    read(when, y) {
      const place = at(when);
      if (!place) return "between two trials";
      const n = Math.min(rows - 1, Math.max(0, Math.floor(rows - y)));
      const { part, i } = place;
      const slice = part.trial.copy.threads[n]?.slices[i];
      const where = `${says(place)}, ${titleOf(n)}`;
      if (!slice || slice.cpu < 0) return `${where}: in no pass`;
      const rate = mbits(slice.passes * part.trial.copy.bytes, part.every);
      return `${where}: CPU ${slice.cpu}, ${Number(slice.passes.toPrecision(3))} passes, ${rate}, in a pass for ${share(Math.min(1, slice.inPass))} of it`;
    },
  };
}

/** How many threads were in a pass at once, and how many had a CPU: the CPU time of a thread is spread evenly over its time in passes. */
function atOnce(stream) {
  const { x, parts, gap, at, says } = copyTimes(stream);
  for (const part of parts) {
    const { threads, many, bytes } = part.trial.copy;
    part.slices = Array.from({ length: many }, (_, i) => {
      const here = threads.map(({ slices, busy }) => ({ busy, passes: 0, inPass: 0, ...slices[i] }));
      const sum = (of) => here.reduce((sum, slice) => sum + of(slice), 0);
      return { inPass: sum(({ inPass }) => inPass), busy: sum(({ inPass, busy }) => inPass * busy), bytes: sum(({ passes }) => passes) * bytes };
    });
  }
  const most = parts.flatMap(({ slices }) => slices).reduce((most, { inPass, busy }) => Math.max(most, inPass, busy), 1);
  const text = (n) => String(Number(n.toPrecision(3)));
  const y = { low: 0, high: most * 1.15, linear: true, middle: null, text, size: 40 };
  return {
    height: 200,
    stamp: stream.cell.valid ? "" : "not valid",
    x,
    y,
    yRange: () => [y.low, y.high],
    key: [
      { text: "had a CPU, by CPU time", css: "var(--series-0)" },
      { text: "in a pass, where a thread may also wait for a CPU", css: "var(--series-1)" },
    ],
    idle: "the filled steps are threads that had a CPU; the line is threads that were in a pass",
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const bottom = bbox.top + bbox.height;
      for (const part of parts) {
        const ink = (i) => (part.trial.counted ? seriesColour(i) : colour("soft"));
        const seen = part.slices.map((slice, i) => ({ ...slice, from: part.start + i * part.every })).filter(({ from }) => from + part.every >= brush.low && from <= brush.high);
        ctx.fillStyle = faint(ink(0), 0.55);
        ctx.beginPath();
        for (const { from, busy } of seen) {
          const [left, right, top] = [Math.round(brush.x(from)), Math.round(brush.x(from + part.every)), brush.y(busy)];
          ctx.rect(left, top, Math.max(1, right - left), bottom - top);
        }
        ctx.fill();
        ctx.beginPath();
        seen.forEach(({ from, inPass }, i) => {
          const level = brush.y(inPass);
          i === 0 ? ctx.moveTo(brush.x(from), level) : ctx.lineTo(brush.x(from), level);
          ctx.lineTo(brush.x(from + part.every), level);
        });
        ctx.strokeStyle = ink(1);
        ctx.lineWidth = 1.3 * ratio;
        ctx.stroke();
      }
      trialNames(brush, parts, gap);
    },
    read(when) {
      const place = at(when);
      if (!place) return "between two trials";
      const { busy, inPass, bytes } = place.part.slices[place.i] ?? { busy: 0, inPass: 0, bytes: 0 };
      return `${says(place)}: ${text(busy)} threads had a CPU, ${text(inPass)} were in a pass; ${mbits(bytes, place.part.every)} by all of them`;
    },
  };
}

/** Bandwidth over the sizes of a buffer, each with what its trials lie between, and the sizes of the machine's parts. */
function overSizes({ lines, marks }) {
  const points = lines.flatMap((line) => line.points);
  const sizes = points.map(([bytes]) => bytes);
  const [low, high] = [Math.min(...sizes) / 1.12, Math.max(...sizes) * 1.12];
  const most = Math.max(...points.map(([, , , most]) => most));
  const text = (mbit) => grouped(String(Number(mbit.toPrecision(4))));
  const y = { low: 0, high: most * 1.12, linear: true, middle: null, text, size: 62 };
  const several = lines.length > 1;
  return {
    height: 260,
    stamp: points.every(([, , , , valid]) => valid) ? "" : "rings: not valid",
    x: { low, high, linear: false, middle: null, label: "bytes of a buffer", text: (bytes) => count(bytes) },
    y,
    yRange: () => [y.low, y.high],
    key: several ? lines.map(({ title }, i) => ({ text: title, css: `var(--series-${i % SERIES})` })) : undefined,
    idle: "a dot is the median trial, the stroke through it reaches from the slowest trial to the fastest",
    paint(brush) {
      const { ctx, ratio } = brush;
      flags(brush, marks.map(([at, name]) => ({ at, text: name, colour: colour("soft") })));
      lines.forEach((line, i) => {
        const ink = seriesColour(i);
        const sorted = [...line.points].sort((a, b) => a[0] - b[0]);
        ctx.strokeStyle = ink;
        ctx.lineWidth = 1.3 * ratio;
        ctx.beginPath();
        sorted.forEach(([bytes, mbit], k) => (k === 0 ? ctx.moveTo(brush.x(bytes), brush.y(mbit)) : ctx.lineTo(brush.x(bytes), brush.y(mbit))));
        for (const [bytes, , least, most] of sorted) {
          ctx.moveTo(brush.x(bytes), brush.y(least));
          ctx.lineTo(brush.x(bytes), brush.y(most));
        }
        ctx.stroke();
        for (const [bytes, mbit, , , valid] of sorted) {
          ctx.beginPath();
          ctx.arc(brush.x(bytes), brush.y(mbit), 3.4 * ratio, 0, 2 * Math.PI);
          ctx.fillStyle = valid ? ink : colour("ground");
          ctx.fill();
          ctx.stroke();
        }
      });
    },
    read(at) {
      const nearest = sizes.reduce((a, b) => (Math.abs(Math.log(b / at)) < Math.abs(Math.log(a / at)) ? b : a));
      const says = lines.flatMap(({ title, points }) =>
        points.filter(([bytes]) => bytes === nearest).map(([, mbit, least, most, valid]) => `${several ? title + " " : ""}${count(mbit)} Mbit/s (${count(least)} to ${count(most)})${valid ? "" : ", not valid"}`),
      );
      return `${count(nearest)} bytes: ${says.join("; ")}`;
    },
  };
}
