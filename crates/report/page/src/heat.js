// SPDX-License-Identifier: MIT OR Apache-2.0
// Where packets lie in time and magnitude: a grid of counts, the stronger the colour the more, on a
// logarithmic scale. What an envelope hides, two humps or a drift below the greatest value, stands
// here.
"use strict";

// Steps of colour, the faintest and the strongest.
const [SHADES, FAINTEST] = [24, 0.22];
const shadeAlpha = (shade) => FAINTEST + ((1 - FAINTEST) * shade) / (SHADES - 1);

function heatMap(name, stream) {
  const metric = stream.metrics[name];
  const trials = stream.trials.filter((trial) => trial.metrics[name]?.heat);
  const { x, parts, gap } = timeline(trials);
  const of = (trial) => trial.metrics[name];
  const least = Math.min(...trials.map((trial) => of(trial).min));
  const greatest = Math.max(...trials.map((trial) => of(trial).max));
  const value = valueAxis(name, [{ ...metric, count: 1, min: least, max: greatest }]);
  const y = { ...value, size: 54 };
  let most = 1;
  for (const part of parts) {
    const { every, rows, columns } = of(part.trial).heat;
    const { min, max } = of(part.trial);
    part.every = every / 1e9;
    // A row is a bin of the run's histogram; no value lies beyond the trial's own.
    part.rows = rows.map(({ low, end }) => ({ low: Math.max(low, min), end: Math.min(end, max + 1) }));
    part.columns = columns;
    for (const column of columns) for (const { count } of column.values()) most = Math.max(most, count);
  }
  const shadeOf = (n) => (most > 1 ? Math.round(((SHADES - 1) * Math.log(n)) / Math.log(most)) : SHADES - 1);
  // By shade, so that a colour is set once and not for each of thousands of spots.
  const shades = Array.from({ length: SHADES }, () => []);
  for (const part of parts) {
    part.columns.forEach((column, i) => {
      const from = part.start + i * part.every;
      const to = Math.min(part.end, from + part.every);
      for (const [row, { count }] of column) if (to > from) shades[shadeOf(count)].push({ part, from, to, ...part.rows[row] });
    });
  }
  return {
    height: 280,
    stamp: stream.cell.valid ? "" : "not valid",
    caption: `${name}, ${value.unit}`,
    x,
    y,
    yRange: () => [y.low, y.high],
    idle: `the stronger the colour, the more ${many} took so long at that time`,
    key: [
      { text: `${many}: 1 to ${count(most)}, logarithmic`, wide: true, css: `linear-gradient(to right, color-mix(in srgb, var(--series-0) ${FAINTEST * 100}%, transparent), var(--series-0))` },
    ],
    paint(brush) {
      const { ctx, bbox, ratio } = brush;
      const inks = [colour("soft"), seriesColour(0)];
      shades.forEach((spots, shade) => {
        for (const counted of [false, true]) {
          ctx.fillStyle = faint(inks[Number(counted)], shadeAlpha(shade));
          for (const { part, from, to, low, end } of spots) {
            if (part.trial.counted !== counted || to < brush.low || from > brush.high) continue;
            // Whole pixels: neighbours neither overlap nor part.
            const [left, right] = [Math.round(brush.x(from)), Math.round(brush.x(to))];
            const [top, bottom] = [Math.round(brush.y(end)), Math.round(brush.y(low))];
            ctx.fillRect(left, top, Math.max(1, right - left), Math.max(1, bottom - top));
          }
        }
      });
      trialNames(brush, parts, gap);
    },
    read(at, height) {
      const part = parts.find((part) => at >= part.start && at < part.end);
      if (!part) return "between two trials";
      const i = Math.floor((at - part.start) / part.every);
      const row = part.rows.findIndex(({ low, end }) => height >= low && height < end);
      const column = part.columns[i] ?? new Map();
      const whole = [...column.values()].reduce((sum, { count }) => sum + count, 0);
      const second = (s) => Number(s.toPrecision(6));
      const when = `${second(i * part.every)}–${second(Math.min(part.end - part.start, (i + 1) * part.every))} s`;
      const where = `trial ${part.trial.n}${part.trial.counted ? "" : " (left out)"}, ${when}`;
      if (row < 0) return `${where}: none of ${count(whole)} ${many} took ${value.text(height)} ${value.unit}`;
      const { low, end } = part.rows[row];
      return `${where}, ${value.text(low)}–${value.text(end)} ${value.unit}: ${count(column.get(row)?.count ?? 0)} of ${count(whole)} ${many}`;
    },
  };
}
