// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures as people read them: one unit a table, as many decimals in a row as its least figure
//! needs, grouped digits, nothing rounded into a lie. And a histogram in one line of text.

use tardy_model::time::Nanos;

/// Printed in place of a figure that is not available.
pub const ABSENT: &str = "–";
/// Why a percentile is absent: an estimate needs more.
pub const FEW_EVENTS: &str = "fewer than 10 separate events (one stall is one) lie beyond";
/// Why a percentile is absent: it is not known where these stand.
pub const WITHOUT_STAMP: &str = "packets that were received without a stamp could change it";
/// Why each figure of a metric may be wrong by its bound.
pub const TWO_CLOCKS: &str = "two clocks took the stamps";
/// The same of what is above its minimum.
pub const TWO_CLOCKS_DRIFT: &str = "the two clocks may have drifted by this";
/// What is printed for a percentile whose rank falls on a lost or unsent packet.
pub const INFINITE: &str = "∞";
/// Between groups of three digits where every column counts: a plain space, which every terminal
/// font has.
pub const SPACE: char = ' ';
/// Between groups of three digits on a page: narrow and unbreakable.
pub const THIN: char = '\u{202f}';

/// The unit of a table's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, as whole numbers.
    Ns,
    /// Microseconds, with one decimal or more.
    Us,
    /// Milliseconds, with three decimals or more.
    Ms,
}

impl Unit {
    pub const fn sign(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "µs",
            Unit::Ms => "ms",
        }
    }

    const fn decimals(self) -> u32 {
        match self {
            Unit::Ns => 0,
            Unit::Us => 1,
            Unit::Ms => 3,
        }
    }

    /// How many ns it is.
    const fn ns(self) -> i64 {
        10i64.pow(self.finest())
    }

    /// Decimals of a whole nanosecond.
    const fn finest(self) -> u32 {
        match self {
            Unit::Ns => 0,
            Unit::Us => 3,
            Unit::Ms => 6,
        }
    }

    /// The unit in which a table reads best: `ns` while the greatest figure stays below 10 µs,
    /// `ms` once even the least median is 10 ms or more, else `µs`. Both in ns, `None` if nothing
    /// was measured.
    pub fn fitting(least_median_ns: Option<i64>, greatest_ns: Option<i64>) -> Unit {
        match (least_median_ns, greatest_ns) {
            (_, Some(greatest)) if greatest.unsigned_abs() < 10_000 => Unit::Ns,
            (Some(median), _) if median.unsigned_abs() >= 10_000_000 => Unit::Ms,
            _ => Unit::Us,
        }
    }

    /// [`Digits::fixed`] with the decimals that a row has at least.
    pub fn fixed(self, ns: i64) -> String {
        Digits::of(self).fixed(ns)
    }

    /// [`Digits::fixed_f64`] with the decimals that a row has at least.
    pub fn fixed_f64(self, ns: f64) -> String {
        Digits::of(self).fixed_f64(ns)
    }
}

/// How the figures of a table, or of one of its rows, are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    pub unit: Unit,
    decimals: u32,
}

impl Digits {
    /// With the decimals that each row of a table has at least.
    pub const fn of(unit: Unit) -> Digits {
        Digits { unit, decimals: unit.decimals() }
    }

    /// With whole nanoseconds in each row: in exact time the last of them is a figure.
    pub const fn exact(unit: Unit) -> Digits {
        Digits { unit, decimals: unit.finest() }
    }

    /// Those of a row with these figures, ns: the least one that is not 0 has two significant
    /// digits, unless it is below 10 ns. No row is finer than 1 ns.
    pub fn row(self, figures: impl Iterator<Item = i64>) -> Digits {
        let Some(least) = figures.map(i64::unsigned_abs).filter(|ns| *ns > 0).min() else { return self };
        let is_enough = |decimals: &u32| least >= 10u64.pow(self.unit.finest() + 1 - decimals);
        let finest = self.unit.finest();
        let decimals = (self.decimals..finest).find(is_enough).unwrap_or(finest);
        Digits { decimals, ..self }
    }

    /// How many ns the last printed digit is worth.
    const fn step_ns(self) -> i64 {
        10i64.pow(self.unit.finest() - self.decimals)
    }

    /// `ns` with these decimals, half away from zero, without the unit's sign: `1398.6`.
    pub fn fixed(self, ns: i64) -> String {
        let step = self.step_ns().unsigned_abs();
        let steps = (ns.unsigned_abs() + step / 2) / step;
        let minus = if ns < 0 && steps > 0 { "-" } else { "" };
        let scale = 10u64.pow(self.decimals);
        match self.decimals as usize {
            0 => format!("{minus}{steps}"),
            decimals => format!("{minus}{}.{:0decimals$}", steps / scale, steps % scale),
        }
    }

    /// The same of a bound, which is rounded up.
    pub fn at_least(self, ns: i64) -> String {
        let step = self.step_ns();
        self.fixed(ns.saturating_add(step - 1).div_euclid(step).saturating_mul(step))
    }

    /// The same for a mean or a standard deviation; [`ABSENT`] for what is not a number.
    pub fn fixed_f64(self, ns: f64) -> String {
        if !ns.is_finite() {
            return ABSENT.to_owned();
        }
        // Rounded once, to the last printed digit; beyond 2^63 ns (292 years) the cast saturates.
        let steps = (ns / self.step_ns() as f64).round() as i64;
        self.fixed(steps.saturating_mul(self.step_ns()))
    }
}

/// Groups the digits before the decimal point in threes: `1398.6` → `1 398.6`.
pub fn grouped(number: &str, separator: char) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (minus, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::from(minus);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out + rest
}

/// True for the space that groups a number's digits: no line is broken there.
pub(crate) fn is_within_number(text: &[char], at: usize) -> bool {
    let is_digit = |at: usize| text.get(at).is_some_and(char::is_ascii_digit);
    let follows = (1..=3).all(|ahead| is_digit(at + ahead)) && !is_digit(at + 4);
    at > 0 && is_digit(at - 1) && follows
}

/// A count with grouped digits: `10 000`.
pub fn count(n: u64, separator: char) -> String {
    grouped(&n.to_string(), separator)
}

/// A time to two or three digits with its unit, for running text: `22 ns`, `1.1 ms`, `18 µs`.
pub fn about(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let minus = if ns < 0 { "-" } else { "" };
    // Each limit is where rounding would carry into the next form.
    let in_unit = |unit: u64, sign: &str| {
        if size < unit * 995 / 100 {
            let tenths = (size + unit / 20) / (unit / 10);
            format!("{minus}{}.{} {sign}", tenths / 10, tenths % 10)
        } else {
            format!("{minus}{} {sign}", (size + unit / 2) / unit)
        }
    };
    match size {
        0..1_000 => format!("{minus}{size} ns"),
        1_000..999_500 => in_unit(1_000, "µs"),
        999_500..999_500_000 => in_unit(1_000_000, "ms"),
        _ => in_unit(1_000_000_000, "s"),
    }
}

/// The same for the times of one column, all in the unit of the greatest: `0.035 ms` next to
/// `23 ms`.
pub fn about_all(column: impl Iterator<Item = i64>) -> impl Fn(i64) -> String {
    let greatest = about(column.map(i64::saturating_abs).max().unwrap_or_default());
    let sign = greatest.rsplit(' ').next().unwrap_or_default().to_owned();
    move |ns| {
        let alone = about(ns);
        if alone.ends_with(&format!(" {sign}")) {
            return alone;
        }
        if ns == 0 {
            return format!("0 {sign}");
        }
        let value = ns as f64 / UNITS.iter().find(|unit| unit.1 == sign).map_or(1.0, |unit| unit.0 as f64);
        // Two digits, as alone.
        let decimals = (1.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$} {sign}")
    }
}

/// Units of a time in running text, ns.
const UNITS: [(u64, &str); 4] = [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];

/// [`exact`], in the unit that `like` has there.
pub fn exact_like(ns: i64, like: i64) -> String {
    let (unit, sign) = UNITS.into_iter().rev().find(|(unit, _)| like.unsigned_abs() >= *unit).unwrap_or(UNITS[0]);
    let (size, minus) = (ns.unsigned_abs(), if ns < 0 { "-" } else { "" });
    let decimals = unit.ilog10() as usize;
    let fraction = if decimals == 0 { String::new() } else { format!(".{:0decimals$}", size % unit) };
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{minus}{}{fraction} {sign}", size / unit)
}

/// A time without any rounding in the greatest unit that is not above it: `90.412 µs`. For limits
/// and what was got, where a rounded figure could seem to keep a limit that it breaks.
pub fn exact(ns: i64) -> String {
    exact_like(ns, ns)
}

/// A limit in the unit of a table, without zeros that nobody wrote: `80 µs`. One that is finer than
/// the table's decimals is [`exact`].
pub fn limit(ns: i64, table: Digits) -> String {
    if ns % table.step_ns() != 0 {
        return exact(ns);
    }
    let fixed = table.fixed(ns);
    let short = if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.') } else { &fixed };
    format!("{} {}", grouped(short, SPACE), table.unit.sign())
}

/// What was got, as a row of the table has it: `90.4 µs`. Where the limit has another unit, it is
/// [`exact`] in that one; where rounding would carry it onto its limit or across, in the table's.
pub fn beside(got_ns: i64, limit_ns: i64, table: Digits) -> String {
    if !limit(limit_ns, table).ends_with(&format!(" {}", table.unit.sign())) {
        return exact_like(got_ns, limit_ns);
    }
    let digits = table.row([got_ns].into_iter());
    let step = digits.step_ns();
    let half = i128::from(step / 2) * i128::from(got_ns.signum());
    let rounded = (i128::from(got_ns) + half) / i128::from(step) * i128::from(step);
    if rounded.cmp(&limit_ns.into()) != got_ns.cmp(&limit_ns) {
        return exact_like(got_ns, table.unit.ns());
    }
    format!("{} {}", grouped(&digits.fixed(got_ns), SPACE), digits.unit.sign())
}

/// A time as an experiment file would write it, in the greatest unit that divides it: `500us`.
pub fn written(span: Nanos) -> String {
    let ns = span.0;
    match ns {
        0 => "0ns".to_owned(),
        _ if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        _ if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        _ if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

/// A share in per cent, cut off, never rounded up: only all of it is `100 %`.
pub fn share(share: f64) -> String {
    if !share.is_finite() {
        return ABSENT.to_owned();
    }
    // Just enough that 0.9999, which has no exact binary form, is not cut to 99.98.
    let hundredths = (share * 10_000.0 + 1e-6).floor();
    let hundredths = if share < 1.0 { hundredths.min(9_999.0) } else { hundredths };
    let text = format!("{:.2}", hundredths / 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Minutes and seconds, hours where there are some: `00:53`, `1:02:03`.
pub fn clock(span: Nanos) -> String {
    let seconds = span.0.max(0).saturating_add(500_000_000) / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

// A histogram in one line of text, and the bins of equal width on a logarithmic scale that it
// shows.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A histogram as `cells` characters, from the least value on the left to the greatest on the
/// right, in bins of equal width on a logarithmic scale. Heights are proportional to counts; a bin
/// with anything in it shows at least `▁`, an empty one a space. `bars`: lowest and highest value
/// of a bucket in ns, how many.
pub fn sparkline(bars: &[(i64, i64, u64)], cells: usize) -> String {
    Scale::over(bars.iter()).map_or_else(String::new, |scale| on(&scale, bars, cells).trim_end().to_owned())
}

/// The same on a given scale, so that several can be compared; always `cells` characters.
pub(crate) fn on(scale: &Scale, bars: &[(i64, i64, u64)], cells: usize) -> String {
    let counts = scale.bins(bars, cells);
    let most = counts.iter().copied().fold(0.0, f64::max);
    let level = |count: f64| {
        if count <= 0.0 {
            return ' ';
        }
        let step = (count / most * LEVELS.len() as f64).ceil() as usize;
        LEVELS[step.clamp(1, LEVELS.len()) - 1]
    };
    counts.into_iter().map(level).collect()
}

/// Where a value lies between the least and the greatest one. Logarithmic; where values reach
/// down to zero or below, the inverse hyperbolic sine, which is linear about zero and logarithmic
/// further out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    /// Half-width of the linear middle, ns; `None` for a plain logarithm.
    middle: Option<f64>,
}

impl Scale {
    /// The scale on which all of these buckets stand; `None` without buckets.
    pub fn over<'a>(bars: impl Iterator<Item = &'a (i64, i64, u64)> + Clone) -> Option<Scale> {
        let bars = bars.filter(|bar| bar.2 > 0);
        let low = bars.clone().map(|bar| bar.0).min()?;
        let high = bars.clone().map(|bar| bar.1).max()?;
        let middle = (low <= 0).then(|| {
            // A tenth of the median distance from zero parts "about zero" from "far off" at any
            // magnitude, and one far packet does not move it.
            let mut distances: Vec<(u64, u64)> =
                bars.map(|bar| ((bar.0 / 2 + bar.1 / 2).unsigned_abs(), bar.2)).collect();
            distances.sort_unstable();
            let half = distances.iter().map(|(_, count)| count).sum::<u64>() / 2;
            let mut below = 0;
            let median = distances.iter().find(|(_, count)| {
                below += count;
                below > half
            });
            median.map_or(1.0, |(distance, _)| *distance as f64 / 10.0).max(1.0)
        });
        // A bucket covers its whole last nanosecond.
        Some(Scale { low: low as f64, high: high as f64 + 1.0, middle })
    }

    fn stretch(&self, ns: f64) -> f64 {
        match self.middle {
            None => ns.max(1.0).ln(),
            Some(middle) => (ns / middle).asinh(),
        }
    }

    /// 0 for the least value, 1 for the greatest, in between and beyond.
    pub fn at(&self, ns: f64) -> f64 {
        let (low, high) = (self.stretch(self.low), self.stretch(self.high));
        if high > low { (self.stretch(ns) - low) / (high - low) } else { 0.0 }
    }

    /// Counts by bin. A bucket wider than a bin is spread over those that it covers, so that no
    /// gap appears that is only the histogram's resolution.
    pub fn bins(&self, bars: &[(i64, i64, u64)], bins: usize) -> Vec<f64> {
        let mut counts = vec![0.0; bins];
        if bins == 0 {
            return counts;
        }
        let last = bins - 1;
        for &(low, high, count) in bars.iter().filter(|bar| bar.2 > 0) {
            let from = (self.at(low as f64) * bins as f64).clamp(0.0, bins as f64);
            let to = (self.at(high as f64 + 1.0) * bins as f64).clamp(from, bins as f64);
            let (first, end) = ((from as usize).min(last), (to.ceil() as usize).clamp(1, bins));
            if to - from <= 1.0 {
                counts[(((from + to) / 2.0) as usize).min(last)] += count as f64;
                continue;
            }
            for (bin, slot) in counts.iter_mut().enumerate().take(end).skip(first) {
                let covered = to.min(bin as f64 + 1.0) - from.max(bin as f64);
                *slot += count as f64 * (covered / (to - from)).max(0.0);
            }
        }
        counts
    }
}
