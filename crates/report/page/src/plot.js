// SPDX-License-Identifier: MIT OR Apache-2.0
// One plot: uPlot gives canvas, scales, axes, grid and the drag; what is painted, what the readout
// says, zoom and keys are here.
"use strict";

const FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
// Room in px above a plot, the same with a verdict in it, and at its side.
const [TOP, STAMP, EDGE] = [8, 20, 12];
const probe = document.createElement("span");
probe.hidden = true;
let colours = new Map();

/** A colour of the style sheet, as the theme has it now. */
function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

// Colours of series in the style sheet.
const SERIES = 12;
const seriesColour = (i) => colour("series-" + (i % SERIES));

/** The same colour, so much of it. */
function faint(rgb, alpha) {
  return rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

let measuring = null;
function textWidth(text) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = FONT;
  return measuring.measureText(text).width;
}

/**
 * A plot's drawing:
 * x: { low, high, middle, linear, grain, label, text(value) }, y: the same or null for rows without an axis;
 * rights: axes of their own at the right, each with its unit above it, or none; key: what colours mean, or none;
 * rows: how many, where there are; height in px; stamp: what a verdict says of all that is shown, or ""; yRange(low, high) for what is in view; paint(brush); read(x, y).
 */
class Plot {
  constructor(host, output, label) {
    this.host = host;
    this.output = output;
    host.tabIndex = 0;
    host.setAttribute("role", "application");
    host.setAttribute("aria-roledescription", "plot");
    host.setAttribute("aria-label", label);
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    host.addEventListener("focus", () => this.say());
    new ResizeObserver(() => this.resize()).observe(host);
  }

  /** Draws anew, the whole range in view. */
  show(drawing) {
    this.drawing = drawing;
    this.view = [drawing.x.low, drawing.x.high];
    this.cursor = null;
    this.u?.destroy();
    const width = Math.max(120, this.host.clientWidth);
    const scale = (axis, key) => ({
      time: false,
      auto: false,
      distr: axis.linear ? 1 : axis.middle === null ? 3 : 4,
      asinh: axis.middle ?? 1,
      range: () => (key === "x" ? this.view : this.heights()),
    });
    const none = { show: false };
    const rights = drawing.rights ?? [];
    const scales = Object.fromEntries(rights.map((of, i) => [`right${i}`, { ...scale(of, "right"), range: () => [of.low, of.high] }]));
    const above = drawing.stamp || rights.length > 0 ? STAMP : TOP;
    this.u = new uPlot(
      {
        width,
        height: drawing.height + above - TOP,
        padding: [above, rights.length > 0 ? 0 : EDGE, 0, drawing.y ? 0 : EDGE],
        legend: none,
        scales: { x: scale(drawing.x, "x"), y: scale(drawing.y ?? { linear: true }, "y"), ...scales },
        series: [{}, { show: true, paths: () => null, points: none }, ...rights.map((_, i) => ({ show: true, scale: `right${i}`, paths: () => null, points: none }))],
        axes: [
          this.axis(drawing.x, "x", { size: 26, label: drawing.x.label, labelSize: 18, labelGap: 0, labelFont: FONT }),
          drawing.y ? this.axis(drawing.y, "y", { size: drawing.y.size ?? 48 }) : none,
          ...rights.map((of, i) => this.axis(of, `right${i}`, { scale: `right${i}`, side: 1, size: of.size, grid: none })),
        ],
        cursor: {
          y: false,
          points: none,
          drag: { x: true, y: false, setScale: false, dist: 4 },
          bind: { dblclick: () => () => this.reset() },
        },
        hooks: {
          draw: [(u) => this.paint(u)],
          setCursor: [(u) => this.moved(u)],
          setSelect: [(u) => this.selected(u)],
        },
      },
      [this.view, [null, null], ...rights.map(() => [null, null])],
      this.host,
    );
    this.u.over.addEventListener("mousedown", () => this.host.focus({ preventScroll: true }));
    this.look(...this.view);
    this.say();
  }

  axis(of, key, more) {
    // Gridlines at all ticks, labels where there is room: numbers inside a decade are what makes a
    // logarithm readable.
    const labels = new Map();
    return {
      font: FONT,
      stroke: () => colour("soft"),
      grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("line"), width: 1, size: 4 },
      gap: 3,
      space: 1,
      splits: (u, _, low, high) => {
        const room = key === "x" ? u.width / 90 : u.height / 40;
        // An axis of a part of the height has no marks above it.
        const even = () => (of.top === undefined ? evenTicks(low, high, room | 0) : evenTicks(low, of.top, 3));
        const ticks = of.linear ? even() : logTicks(low, high, of.middle, of.grain);
        const extent = (text) => (key === "x" ? textWidth(text) + 14 : 20);
        const place = (value) => u.valToPos(value, key);
        // A name that would be cut at the picture's edge is none.
        const left = u.bbox.left / uPlot.pxRatio;
        const fits = ([value, text]) => {
          const half = textWidth(text) / 2;
          return key !== "x" || (place(value) - half >= -left && place(value) + half <= u.width - left);
        };
        labels.clear();
        const named = ticks.map((tick) => [tick, (of.tick ?? of.text)(tick)]).filter(([, text]) => text !== "");
        spaced(named.filter(fits), place, extent).forEach(([tick, text]) => labels.set(tick, text));
        const lines = spaced(ticks.map((tick) => [tick, ""]), place, () => 6).map(([tick]) => tick);
        return [...new Set([...labels.keys(), ...lines])].sort((a, b) => a - b);
      },
      filter: (_, splits) => splits,
      values: (_, splits) => splits.map((tick) => labels.get(tick) ?? ""),
      ...more,
    };
  }

  heights() {
    return this.drawing.y ? this.drawing.yRange(...this.view) : [0, this.drawing.rows ?? 1];
  }

  /** Brings a range into view; never less than a ten-thousandth of the whole or a few of its least steps, never beyond it. */
  look(low, high) {
    const { x } = this.drawing;
    const { to, from } = x.linear ? { to: (v) => v, from: (v) => v } : stretch(x.middle);
    const whole = to(x.high) - to(x.low);
    if (to(high) - to(low) < whole * 1e-4 || high - low < 4 * (x.grain ?? 0)) return;
    let [a, b] = [to(low), to(high)];
    if (a < to(x.low)) [a, b] = [to(x.low), Math.min(to(x.high), b + to(x.low) - a)];
    if (b > to(x.high)) [a, b] = [Math.max(to(x.low), a + to(x.high) - b), to(x.high)];
    const all = b - a > whole * 0.9999;
    this.view = all ? [x.low, x.high] : [from(a), from(b)];
    const [bottom, top] = this.heights();
    this.u.batch(() => {
      this.u.setScale("x", { min: this.view[0], max: this.view[1] });
      this.u.setScale("y", { min: bottom, max: top });
      this.drawing.rights?.forEach((of, i) => this.u.setScale(`right${i}`, { min: of.low, max: of.high }));
    });
    this.host.dataset.view = this.view.join(" ");
    this.host.closest("figure").classList.toggle("zoomed", !all);
  }

  reset() {
    this.look(this.drawing.x.low, this.drawing.x.high);
  }

  /** Zooms by `factor` about the cursor, or about the middle. */
  zoom(factor) {
    const left = this.cursor ? this.cursor.left : this.u.over.clientWidth / 2;
    const width = this.u.over.clientWidth;
    const at = (px) => this.u.posToVal(px, "x");
    this.look(at(left - left * factor), at(left + (width - left) * factor));
  }

  wheel(event) {
    // A page of plots must still scroll: the wheel is a plot's once it has the focus, or with Ctrl.
    if (!event.ctrlKey && document.activeElement !== this.host) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1 / 1.3 : 1.3);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const { clientWidth: width, clientHeight: height } = this.u.over;
    const step = event.shiftKey ? width / 10 : Math.max(1, width / 100);
    const row = height / (this.drawing.rows ?? 10);
    const at = this.cursor ?? { left: width / 2, top: row / 2 };
    const move = (left, top) => {
      const within = (v, most) => Math.min(Math.max(v, 0), most - 1);
      this.u.setCursor({ left: within(left, width), top: within(top, height) });
    };
    const keys = {
      ArrowLeft: () => move(at.left - step, at.top),
      ArrowRight: () => move(at.left + step, at.top),
      ArrowUp: () => move(at.left, at.top - row),
      ArrowDown: () => move(at.left, at.top + row),
      Home: () => move(0, at.top),
      End: () => move(width, at.top),
      "+": () => this.zoom(1 / 1.5),
      "=": () => this.zoom(1 / 1.5),
      "-": () => this.zoom(1.5),
      0: () => this.reset(),
      Escape: () => this.reset(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  selected(u) {
    if (u.select.width < 4) return;
    const at = (px) => u.posToVal(px, "x");
    const [low, high] = [at(u.select.left), at(u.select.left + u.select.width)];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.look(low, high);
  }

  moved(u) {
    const { left, top } = u.cursor;
    if (left === undefined || left === null || left < 0) return;
    this.cursor = { left, top };
    this.say();
  }

  /** What stands under the cursor; without one, what to do. */
  say() {
    if (!this.u) return;
    const { cursor, u } = this;
    const text = cursor ? this.drawing.read(u.posToVal(cursor.left, "x"), u.posToVal(cursor.top, "y")) : "";
    this.output.textContent = text || this.drawing.idle || "";
  }

  resize() {
    const width = this.host.clientWidth;
    if (this.u && width > 0 && width !== this.u.width) {
      this.u.setSize({ width, height: this.u.height });
      this.look(...this.view);
    }
  }

  repaint() {
    this.u?.redraw(false, true);
  }

  paint(u) {
    const { ctx, bbox } = u;
    const ratio = uPlot.pxRatio;
    const inside = (px, low, size) => Math.min(Math.max(Number.isFinite(px) ? px : low, low - size), low + 2 * size);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = FONT.replace("11px", 11 * ratio + "px");
    ctx.textBaseline = "middle";
    const { x, y } = this.drawing;
    const floor = (v, axis) => (!axis || axis.linear || axis.middle !== null ? v : Math.max(v, 1e-9));
    this.drawing.paint({
      ctx,
      bbox,
      ratio,
      low: this.view[0],
      high: this.view[1],
      x: (v) => inside(u.valToPos(floor(v, x), "x", true), bbox.left, bbox.width),
      y: (v) => inside(u.valToPos(floor(v, y), "y", true), bbox.top, bbox.height),
      right: (v, i) => inside(u.valToPos(v, `right${i}`, true), bbox.top, bbox.height),
    });
    ctx.restore();
    // In a row of its own above, where it covers nothing.
    const { stamp, rights } = this.drawing;
    if (!stamp && !rights) return;
    ctx.save();
    ctx.font = FONT.replace("11px", 11 * ratio + "px");
    ctx.textBaseline = "middle";
    let edge = bbox.left + bbox.width;
    if (stamp) write({ ctx, ratio }, stamp, edge, bbox.top - 9 * ratio, colour("bad"), "right");
    for (const { unit, size } of rights ?? []) {
      write({ ctx, ratio }, unit, edge + 7 * ratio, bbox.top - 9 * ratio, colour("soft"));
      edge += size * ratio;
    }
    ctx.restore();
  }
}

/** Text with a halo of the ground, so that it can be read on lines and fills. */
function write({ ctx, ratio }, text, x, y, fill, align = "left") {
  ctx.textAlign = align;
  ctx.lineWidth = 3 * ratio;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour("ground");
  ctx.strokeText(text, x, y);
  ctx.fillStyle = fill;
  ctx.fillText(text, x, y);
}

/** Lines across the plot at values of the x axis, each with its name; names that would touch are in different rows. */
function flags(brush, marks) {
  const { ctx, bbox, ratio } = brush;
  const taken = [];
  for (const mark of marks.filter((mark) => mark.at >= brush.low && mark.at <= brush.high)) {
    const at = Math.round(brush.x(mark.at)) + 0.5;
    const width = ctx.measureText(mark.text).width + 10 * ratio;
    const left = at + width > bbox.left + bbox.width;
    const [from, to] = left ? [at - width, at] : [at, at + width];
    let row = 0;
    while (taken.some((other) => other.row === row && other.from < to && other.to > from)) row++;
    taken.push({ row, from, to });
    ctx.beginPath();
    ctx.setLineDash(mark.solid ? [] : [2 * ratio, 3 * ratio]);
    ctx.strokeStyle = mark.colour;
    ctx.lineWidth = (mark.solid ? 1.5 : 1) * ratio;
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    mark.place = [at + (left ? -5 : 5) * ratio, bbox.top + (9 + row * 14) * ratio, left ? "right" : "left"];
  }
  // Names after all lines, on a piece of ground where another's line would run through.
  for (const mark of marks.filter((mark) => mark.place)) {
    const [x, y, align] = mark.place;
    const width = ctx.measureText(mark.text).width + 6 * ratio;
    const from = align === "right" ? x - width + 3 * ratio : x - 3 * ratio;
    ctx.fillStyle = colour("ground");
    const crossed = marks.some((other) => other.place && brush.x(other.at) > from && brush.x(other.at) < from + width);
    if (crossed) ctx.fillRect(from, y - 7 * ratio, width, 14 * ratio);
    write(brush, mark.text, x, y, mark.colour, align);
  }
}
