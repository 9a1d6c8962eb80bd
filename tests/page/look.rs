// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a plot shows: its data's own pixels, the words and strokes that were put on its canvas,
//! its readout and its view.

use crate::browser::Browser;
use serde_json::Value;

/// The plots by place in the page.
pub const PLOTS: &str = "[...document.querySelectorAll('figure[data-kind]')]";

/// Brings each plot into the window, waits until it is drawn of the metric that is chosen, and
/// gives for each: its kind; how many pixels within its axes have the colour of a series as the
/// style sheet has it now, however faint, so that neither axes nor words nor limits count; and a
/// sum that is another one if any of these pixels is.
const LOOK: &str = "(async () => {
  const style = getComputedStyle(document.documentElement);
  const series = Array.from({ length: 12 }, (_, i) => i).map((i) => parseInt(style.getPropertyValue('--series-' + i).trim().slice(1), 16));
  const found = [];
  for (const figure of document.querySelectorAll('figure[data-kind]')) {
    await shown(figure);
    const canvas = figure.querySelector('canvas');
    const { left, top, width, height } = within(figure);
    const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, -left, -top);
    const { data } = copy.getImageData(0, 0, width, height);
    let [lit, sum] = [0, 0];
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] < 50) continue;
      const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
      const near = (rgb) => Math.abs((rgb >> 16) - r) < 8 && Math.abs(((rgb >> 8) & 255) - g) < 8 && Math.abs((rgb & 255) - b) < 8;
      if (!series.some(near)) continue;
      lit++;
      sum = (sum * 31 + i + 7 * (r + 256 * g + 65536 * b) + data[i + 3]) % 4294967291;
    }
    found.push([figure.dataset.kind, lit, sum]);
  }
  return found;
})()";

/// What the looks use, and what keeps the words and strokes of each canvas since it was last
/// cleared. It is in the page before the page's own script.
const WATCH: &str = "(() => {
  const drawn = new WeakMap();
  const of = (canvas) => drawn.get(canvas) ?? drawn.set(canvas, { words: [], points: 0 }).get(canvas);
  const brush = CanvasRenderingContext2D.prototype;
  const wrap = (name, before) => {
    const own = brush[name];
    brush[name] = function (...given) { before(this, given); return own.apply(this, given); };
  };
  wrap('clearRect', (ctx) => drawn.delete(ctx.canvas));
  for (const name of ['moveTo', 'lineTo', 'rect', 'fillRect', 'strokeRect', 'arc']) wrap(name, (ctx) => of(ctx.canvas).points++);
  wrap('fillText', (ctx, [text, x, y]) => {
    const at = ctx.getTransform().transformPoint({ x, y });
    const width = ctx.measureText(text).width;
    const left = { right: at.x - width, end: at.x - width, center: at.x - width / 2 }[ctx.textAlign] ?? at.x;
    of(ctx.canvas).words.push({ text, left, right: left + width, middle: (left + left + width) / 2, y: at.y });
  });
  window.drawnOn = (figure) => of(figure.querySelector('canvas'));
  window.frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  /** The room within a plot's axes, in pixels of its canvas. */
  window.within = (figure) => {
    const [canvas, over] = ['canvas', '.u-over'].map((of) => figure.querySelector(of));
    const [outer, inner] = [canvas.getBoundingClientRect(), over.getBoundingClientRect()];
    const ratio = canvas.width / outer.width;
    const [left, top, width, height] = [inner.x - outer.x, inner.y - outer.y, inner.width, inner.height].map((px) => Math.round(px * ratio));
    return { left, top, width, height };
  };
  /** Until a figure is in the window and drawn of the metric that is chosen. */
  window.shown = async (figure) => {
    figure.scrollIntoView({ block: 'center' });
    const chosen = document.querySelector('input[name=metric]:checked').value;
    for (let i = 0; i < 2000 && figure.dataset.drawn !== chosen; i++) await new Promise((done) => setTimeout(done, 25));
    if (figure.dataset.drawn !== chosen) throw new Error(figure.dataset.kind + ' is not drawn of ' + chosen);
    await frame();
  };
})()";

impl Browser {
    /// A browser whose pages are watched as they draw.
    pub fn watching(width: u32) -> Browser {
        let mut browser = Browser::start(width);
        browser.before_each_page(WATCH);
        browser
    }
}

/// Of each plot: its kind, pixels of its data, and their sum.
pub fn look(browser: &mut Browser) -> Vec<(String, u64, u64)> {
    let found = browser.eval(LOOK);
    let found = found.as_array().expect("a list of plots");
    let number = |value: &Value| value.as_u64().expect("a number");
    found.iter().map(|plot| (plot[0].as_str().unwrap_or("").to_owned(), number(&plot[1]), number(&plot[2]))).collect()
}

/// The plots' kinds, by place in the page.
pub fn kinds(browser: &mut Browser) -> Vec<String> {
    strings(&browser.eval(&format!("{PLOTS}.map((figure) => figure.dataset.kind)")))
}

/// A list of texts.
pub fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}

/// Chooses the metric of all plots.
pub fn choose(browser: &mut Browser, metric: &str) {
    browser.eval(&format!("document.querySelector('input[value=\"{metric}\"]').click()"));
}

/// The middle of the plot of this number, and its half width, after it came into the window.
pub fn place(browser: &mut Browser, n: usize) -> ((f64, f64), f64) {
    let rect = browser.eval(&format!(
        "(async () => {{ const figure = {PLOTS}[{n}]; await shown(figure); \
         const box = figure.querySelector('.u-over').getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2, box.width / 2]; }})()"
    ));
    let of = |i: usize| rect[i].as_f64().expect("a place");
    ((of(0), of(1)), of(2))
}

/// The text below the plot.
pub fn said(browser: &mut Browser, n: usize) -> String {
    browser.eval(&format!("{PLOTS}[{n}].querySelector('output').textContent")).as_str().unwrap_or("").to_owned()
}

/// From where to where the plot's x axis goes.
pub fn view(browser: &mut Browser, n: usize) -> (f64, f64) {
    let view = browser.eval(&format!("{PLOTS}[{n}].querySelector('.plot').dataset.view.split(' ').map(Number)"));
    (view[0].as_f64().expect("a low end"), view[1].as_f64().expect("a high end"))
}

/// The cursor's place within the plot, in px from the left.
pub fn cursor(browser: &mut Browser, n: usize) -> f64 {
    let at = browser.eval(&format!(
        "(async () => {{ await frame(); const [over, line] = ['.u-over', '.u-cursor-x'].map((of) => \
         {PLOTS}[{n}].querySelector(of).getBoundingClientRect()); return line.x - over.x; }})()"
    ));
    at.as_f64().expect("a place")
}
