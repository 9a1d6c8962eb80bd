// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a bandwidth jumps over the sizes of a buffer, and what the machine has of that size. Pure.
//!
//! A cause is named only if the figures of all trials agree: every repetition on its faster side
//! is faster than every one on the other, by more than the noise of either. One jump between two
//! sizes may have any cause; a multiple needs sizes of both kinds on both sides of each other, or
//! growing sizes alone would look like one.

use tardy_model::copy::Sizes;
use tardy_model::verdict::{Figure, Level, Verdict};

/// Bandwidths at one size, one a repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct AtSize {
    pub bytes: u64,
    /// Memory that passes over such buffers go through, both sides together, bytes.
    pub touched: u64,
    pub rates: Vec<f64>,
}

/// What makes the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Sizes that are a multiple of this are faster than those around them.
    MultipleOf { what: &'static str, bytes: u64 },
    /// Buffers that are larger than this are slower.
    Beyond { what: &'static str, bytes: u64 },
    /// Where all that passes go through, on both sides, is larger than this, they are slower.
    BothBeyond { what: &'static str, bytes: u64 },
    /// The machine has nothing of this size.
    Unknown,
}

/// A jump of the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cliff {
    pub cause: Cause,
    /// The sizes on the two sides that are nearest to each other; the slower one first.
    pub bytes: [u64; 2],
    /// How many times faster the faster side is, by medians.
    pub times: f64,
}

/// A smaller difference is no cliff, whatever the noise.
pub const LEAST_TIMES: f64 = 1.25;
/// Repetitions at a size that are needed to know its noise.
const LEAST_RATES: usize = 3;

/// The machine's parts that a multiple may be of, the greatest first: one of a page is one of a
/// line too.
fn grains(sizes: &Sizes) -> [(&'static str, u64); 3] {
    [("huge page", sizes.huge_page_bytes), ("page", sizes.page_bytes), ("cache line", sizes.line_bytes)]
}

/// A size with what its repetitions say.
#[derive(Clone, Copy, Debug)]
struct Rates {
    bytes: u64,
    touched: u64,
    least: f64,
    median: f64,
    most: f64,
}

impl Rates {
    fn of(at: &AtSize) -> Option<Rates> {
        let mut rates = at.rates.clone();
        rates.sort_by(f64::total_cmp);
        let (least, most) = (*rates.first()?, *rates.last()?);
        (rates.len() >= LEAST_RATES && least > 0.0).then(|| Rates {
            bytes: at.bytes,
            touched: at.touched,
            least,
            median: rates[(rates.len() - 1) / 2],
            most,
        })
    }

    /// True if each repetition is faster than each of the other, and the medians far enough.
    fn is_above(&self, other: &Rates) -> bool {
        self.least > other.most && self.median >= other.median * LEAST_TIMES
    }
}

/// Where bandwidth jumps, each cause once; the multiples first. Sizes with too few repetitions say
/// nothing.
pub fn find(at: &[AtSize], sizes: &Sizes) -> Vec<Cliff> {
    let mut levels: Vec<Rates> = at.iter().filter_map(Rates::of).collect();
    levels.sort_by_key(|level| level.bytes);
    let multiple = grains(sizes).into_iter().filter(|(_, grain)| *grain > 1);
    let multiple = multiple.filter_map(|(what, grain)| multiple_of(&levels, what, grain)).reduce(finer_if_as_good);
    // Whatever a multiple explains must not be taken for a jump once more.
    let rest: Vec<Rates> = match multiple {
        Some(Cliff { cause: Cause::MultipleOf { bytes, .. }, .. }) => {
            levels.iter().copied().filter(|level| level.bytes % bytes == 0).collect()
        }
        _ => levels,
    };
    multiple.into_iter().chain(jumps(&rest, sizes)).collect()
}

/// Of two multiples that both fit, the one that divides the sizes better; the finer one if they do
/// equally, for sizes that are multiples of it alone would not be fast otherwise.
fn finer_if_as_good(coarse: Cliff, fine: Cliff) -> Cliff {
    if fine.times >= coarse.times * 0.8 { fine } else { coarse }
}

/// Whether multiples of a grain are faster than both of their neighbours that are none.
fn multiple_of(levels: &[Rates], what: &'static str, grain: u64) -> Option<Cliff> {
    let is_multiple = |level: &Rates| level.bytes.is_multiple_of(grain);
    let (mut best, mut pairs) = (None::<Cliff>, 0);
    for (n, level) in levels.iter().enumerate().filter(|(_, level)| is_multiple(level)) {
        let before = levels[..n].iter().rev().find(|other| !is_multiple(other));
        let after = levels[n + 1..].iter().find(|other| !is_multiple(other));
        let neighbours = [before, after];
        let known: Vec<&Rates> = neighbours.into_iter().flatten().collect();
        if known.is_empty() {
            continue;
        }
        // A single exception is enough: then it is not the multiple.
        if !known.iter().all(|other| level.is_above(other)) {
            return None;
        }
        pairs += known.len();
        for other in known {
            let times = level.median / other.median;
            if best.is_none_or(|best| times < best.times) {
                best = Some(Cliff {
                    cause: Cause::MultipleOf { what, bytes: grain },
                    bytes: [other.bytes, level.bytes],
                    times,
                });
            }
        }
    }
    // A multiple with neighbours on one side alone may be a jump of another cause.
    best.filter(|_| pairs >= 2)
}

/// Jumps between neighbouring sizes; those that follow each other in one direction are one. Larger
/// buffers are slower where they do not fit any more.
fn jumps(levels: &[Rates], sizes: &Sizes) -> Vec<Cliff> {
    let mut ends: Vec<(usize, usize, bool)> = Vec::new();
    for (n, pair) in levels.windows(2).enumerate() {
        let is_rise = pair[1].is_above(&pair[0]);
        if !(is_rise || pair[0].is_above(&pair[1])) {
            continue;
        }
        match ends.last_mut().filter(|(_, to, rises)| *to == n && *rises == is_rise) {
            Some((_, to, _)) => *to = n + 1,
            None => ends.push((n, n + 1, is_rise)),
        }
    }
    let jump = |(from, to, is_rise): (usize, usize, bool)| {
        let (smaller, larger) = (levels.get(from)?, levels.get(to)?);
        let (slow, fast) = if is_rise { (smaller, larger) } else { (larger, smaller) };
        let cause = if is_rise { Cause::Unknown } else { outgrown(smaller, larger, sizes) };
        Some(Cliff { cause, bytes: [slow.bytes, fast.bytes], times: fast.median / slow.median })
    };
    ends.into_iter().filter_map(jump).collect()
}

/// What the larger of two sizes does not fit into, and the smaller one does: what passes go
/// through, or else a buffer by itself.
fn outgrown(smaller: &Rates, larger: &Rates, sizes: &Sizes) -> Cause {
    let caches = || ["L1", "L2", "L3"].into_iter().zip(sizes.cache_bytes).filter(|(_, bytes)| *bytes > 0);
    let pages = [("page", sizes.page_bytes), ("huge page", sizes.huge_page_bytes)];
    let all = caches().find(|(_, bytes)| smaller.touched < *bytes && *bytes <= larger.touched);
    let alone = caches().chain(pages).find(|(_, bytes)| smaller.bytes <= *bytes && *bytes < larger.bytes);
    let all = all.map(|(what, bytes)| Cause::BothBeyond { what, bytes });
    all.or(alone.map(|(what, bytes)| Cause::Beyond { what, bytes })).unwrap_or(Cause::Unknown)
}

/// What a sweep shows; `None` if it has too few sizes to show anything.
pub(super) fn verdict(at: Vec<AtSize>, sizes: Sizes, of: &str) -> Option<Verdict> {
    if at.len() < 2 {
        return None;
    }
    let whose = if of.is_empty() { String::new() } else { format!("with {of}, ") };
    let (least, most) = (at.iter().map(|at| at.bytes).min()?, at.iter().map(|at| at.bytes).max()?);
    let known = at.iter().filter_map(Rates::of).count();
    let found = find(&at, &sizes);
    let says = match found.as_slice() {
        _ if known < 2 => format!(
            "{whose}whether bandwidth jumps from {least} to {most} bytes a buffer is not known: it needs 3 trials of each size"
        ),
        [] => format!(
            "{whose}this machine shows no cliff from {least} to {most} bytes a buffer: no size is 1.25 times faster than its neighbour in all trials"
        ),
        found => {
            let each: Vec<String> = found.iter().map(Cliff::says).collect();
            format!("{whose}{}", each.join("; "))
        }
    };
    let verdict = Verdict::new("cliffs", Level::Note, says).with("sizes", known as u64);
    let list = |of: &dyn Fn(&Cliff) -> Figure| Figure::List(found.iter().map(of).collect());
    Some(
        verdict
            .with("causes", list(&|cliff| cliff.cause.name().into()))
            .with("slower_bytes", list(&|cliff| cliff.bytes[0].into()))
            .with("faster_bytes", list(&|cliff| cliff.bytes[1].into()))
            .with("times", list(&|cliff| cliff.times.into())),
    )
}

impl Cause {
    fn name(self) -> String {
        match self {
            Cause::MultipleOf { what, bytes } => format!("multiple of the {what}, {bytes} bytes"),
            Cause::Beyond { what, bytes } => format!("larger than the {what}, {bytes} bytes"),
            Cause::BothBeyond { what, bytes } => format!("all buffers larger than the {what}, {bytes} bytes"),
            Cause::Unknown => "unknown".to_owned(),
        }
    }
}

impl Cliff {
    fn says(&self) -> String {
        let [slower, faster] = self.bytes;
        let times = format!("{:.1} times faster", self.times);
        match self.cause {
            Cause::MultipleOf { what, bytes } => {
                format!(
                    "buffers of a multiple of the {what} ({bytes} bytes) are {times}: {faster} bytes as against {slower}"
                )
            }
            Cause::Beyond { what, bytes } => {
                format!(
                    "buffers that fit into the {what} ({bytes} bytes) are {times}: {faster} bytes as against {slower}"
                )
            }
            Cause::BothBeyond { what, bytes } => {
                let all = "where all buffers of both sides fit into the";
                format!("{all} {what} ({bytes} bytes), copies are {times}: {faster} bytes a buffer as against {slower}")
            }
            Cause::Unknown => {
                format!(
                    "buffers of {faster} bytes are {times} than of {slower}, for which the machine has no size between"
                )
            }
        }
    }
}
