// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the page start from. Runs on the simulated port, so that they are exact and
//! need no root. And what a plot shows: the pixels of its data, the words and strokes on its
//! canvas, its readout and its view.

use crate::browser::Browser;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tardy_model::load::LoadRecord;
use tempfile::TempDir;

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

pub struct Run {
    folder: TempDir,
}

impl Run {
    /// Runs a simulated stream: trials, packets of each, the simulation's table, anything else at
    /// the end of the file.
    pub fn of(trials: u32, count: u32, sim: &str, more: &str) -> Run {
        Run::of_stream(trials, &format!("cycle = \"100us\"\ncount = {count}\nsim = {{ {sim} }}\n{more}"))
    }

    /// The same of a stream of any kind: its keys, and anything else at the end of the file.
    pub fn of_stream(trials: u32, keys: &str) -> Run {
        let stream = tardy_tests::experiment("simulated stream");
        Run::of_file(&format!("name = \"seen\"\ntrials = {trials}\n{stream}{keys}\n"))
    }

    /// Runs an experiment as it is written.
    pub fn of_file(experiment: &str) -> Run {
        let folder = TempDir::with_prefix("tardy-run-").expect("a temporary folder");
        let file = folder.path().join("seen.toml");
        std::fs::write(&file, experiment).expect("the experiment is written");
        let run = Run { folder };
        let mut command = tardy();
        command.arg("run").arg(&file).arg("--out").arg(run.out());
        let out = command.env("TARDY_STATE", run.folder.path().join("state")).output().expect("tardy starts");
        // What is not valid has a page too.
        let code = out.status.code();
        assert!(matches!(code, Some(0 | 1 | 4)), "{code:?}: {}", String::from_utf8_lossy(&out.stderr));
        run
    }

    /// Two cells of two trials, with outliers, losses and a limit.
    pub fn usual() -> Run {
        let sim = "delay = \"40us\", jitter = \"20us\", late_share = 0.002, late = \"900us\", wake = \"5us\"";
        let more = "[matrix]\n\"stream.ctl.sim.loss\" = [0.0, 0.0005]\n[expect.ctl]\n\
                    \"scheduled..rx_kernel\" = [\"p99 < 2ms\", \"max < 300us\"]";
        Run::of(2, 5_000, sim, more)
    }

    /// The same way, another delay.
    pub fn other() -> Run {
        let sim = "delay = \"70us\", jitter = \"5us\", late_share = 0.01, late = \"300us\", wake = \"12us\"";
        Run::of(2, 5_000, sim, "[matrix]\n\"stream.ctl.sim.loss\" = [0.0, 0.0005]")
    }

    /// The page after these loads were added to the record of a trial: the simulated port runs
    /// without any.
    pub fn with_loads(&self, trial: u32, loads: &BTreeMap<String, LoadRecord>) -> PathBuf {
        let file = self.out().join(format!("trials/all/{trial}/trial.json"));
        let text = std::fs::read_to_string(&file).expect("the trial was recorded");
        let mut record: Value = serde_json::from_str(&text).expect("JSON");
        record["loads"] = serde_json::to_value(loads).expect("a record");
        std::fs::write(&file, record.to_string()).expect("the record is written");
        let page = self.folder.path().join(format!("beside-{trial}.html"));
        std::fs::write(&page, self.drawn_again()).expect("the page is written");
        page
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The page that the run wrote.
    pub fn page(&self) -> PathBuf {
        self.out().join("report.html")
    }

    /// The page made again from the folder.
    pub fn drawn_again(&self) -> String {
        let out = tardy().args(["report", "--format", "html"]).arg(self.out()).output().expect("tardy starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("a page is text")
    }
}

fn tardy() -> Command {
    let program = std::env::var_os("TARDY").map_or_else(|| Path::new("../dist/tardy").into(), PathBuf::from);
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}
