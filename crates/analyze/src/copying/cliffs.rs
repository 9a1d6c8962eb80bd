// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a bandwidth jumps over the sizes of a buffer, and what the machine has of that size. Pure.
//!
//! A cause is named only if the figures of all trials agree: every repetition on its faster side
//! is faster than every one on the other, by more than the noise of either. A multiple is compared
//! with sizes directly next to it, on both sides, or growing sizes alone would look like one. A
//! fall may take several sizes, as where a cache overflows bit by bit: it reaches from the last
//! size of one level to the first of the next. Whatever is not known of a size ends there.

use crate::says;
use tardy_model::copy::Sizes;
use tardy_model::verdict::{Figure, Level, Verdict};

/// Bandwidths at one size, one a repetition; none where they must not be used.
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
    /// Where what passes go over, on both sides, is larger than this, they are slower.
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
/// A size is directly next to another if it is at most this many times as large.
pub const NEXT: f64 = 1.1;
/// A fall over several sizes takes at most this many times the size: what goes on for longer is a
/// slope, and every machine has one.
const STEEP: f64 = 2.5;
/// Levels that differ by less are one.
const LEVEL: f64 = 1.05;
/// A cache overflows at this many times its size at the latest.
const SLACK: f64 = 1.25;

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

    /// True if each repetition is faster than each of the other, and the medians far enough: by
    /// [`LEAST_TIMES`], and by more than what the repetitions at one size differ by.
    fn is_above(&self, other: &Rates, noise: f64) -> bool {
        self.least > other.most && self.median >= other.median * LEAST_TIMES.max(noise)
    }
}

/// By how many times the repetitions at one size differ, for the size in the middle.
fn noise(levels: &[Option<Rates>]) -> f64 {
    let mut all: Vec<f64> = levels.iter().flatten().map(|level| level.most / level.least).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

/// Where bandwidth jumps, each cause once; the multiples first. Sizes with too few repetitions say
/// nothing, and no cliff is named across them.
pub fn find(at: &[AtSize], sizes: &Sizes) -> Vec<Cliff> {
    let mut at: Vec<&AtSize> = at.iter().collect();
    at.sort_by_key(|at| at.bytes);
    let levels: Vec<Option<Rates>> = at.iter().map(|at| Rates::of(at)).collect();
    let noise = noise(&levels);
    let known: Vec<Rates> = levels.iter().flatten().copied().collect();
    let multiple = grains(sizes).into_iter().filter(|(_, grain)| *grain > 1);
    let multiple = multiple.filter_map(|(what, grain)| multiple_of(&known, sizes, noise, (what, grain)));
    let multiple = multiple.reduce(finer_if_as_good);
    // Whatever a multiple explains must not be taken for a jump once more.
    let rest: Vec<Option<Rates>> = match multiple {
        Some(Cliff { cause: Cause::MultipleOf { bytes, .. }, .. }) => {
            let is_multiple = |at: &&AtSize| at.bytes.is_multiple_of(bytes);
            at.iter().zip(&levels).filter(|(at, _)| is_multiple(at)).map(|(_, level)| *level).collect()
        }
        _ => levels,
    };
    let stretches = rest.split(Option::is_none).map(|stretch| stretch.iter().flatten().copied().collect());
    let jumps = stretches.flat_map(|stretch: Vec<Rates>| jumps(&stretch, sizes, noise));
    multiple.into_iter().chain(jumps.collect::<Vec<_>>()).collect()
}

/// Of two multiples that both fit, the one that divides the sizes better; the finer one if they do
/// equally, for sizes that are multiples of it alone would not be fast otherwise.
fn finer_if_as_good(coarse: Cliff, fine: Cliff) -> Cliff {
    if fine.times >= coarse.times * 0.8 { fine } else { coarse }
}

/// Whether multiples of a grain are faster than their neighbours that are none, on both sides.
fn multiple_of(levels: &[Rates], sizes: &Sizes, noise: f64, (what, grain): (&'static str, u64)) -> Option<Cliff> {
    let is_multiple = |level: &Rates| level.bytes.is_multiple_of(grain);
    let is_next = |a: &Rates, b: &Rates| {
        let [small, large] = if a.bytes < b.bytes { [a, b] } else { [b, a] };
        // Where one of them fits into a cache and the other does not, they differ anyway.
        large.bytes as f64 <= small.bytes as f64 * NEXT && cache_between(small, large, sizes, 1.0).is_none()
    };
    let (mut best, mut sides) = (None::<Cliff>, [0, 0]);
    for (n, level) in levels.iter().enumerate().filter(|(_, level)| is_multiple(level)) {
        let before = levels[..n].iter().rev().find(|other| !is_multiple(other));
        let after = levels[n + 1..].iter().find(|other| !is_multiple(other));
        for (side, other) in [before, after].into_iter().enumerate() {
            let Some(other) = other.filter(|other| is_next(level, other)) else { continue };
            // A single exception is enough: then it is not the multiple.
            if !level.is_above(other, noise) {
                return None;
            }
            sides[side] += 1;
            let times = level.median / other.median;
            if best.is_none_or(|best| times < best.times) {
                let cause = Cause::MultipleOf { what, bytes: grain };
                best = Some(Cliff { cause, bytes: [other.bytes, level.bytes], times });
            }
        }
    }
    // A multiple with neighbours on one side alone may be a jump of another cause.
    best.filter(|_| sides.iter().all(|side| *side > 0))
}

/// Sizes between which bandwidth changes for good, by their places.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: usize,
    to: usize,
    is_rise: bool,
}

/// Jumps between sizes that follow each other; larger buffers are slower where they do not fit any
/// more.
fn jumps(levels: &[Rates], sizes: &Sizes, noise: f64) -> Vec<Cliff> {
    let mut changes: Vec<Change> = Vec::new();
    for from in 0..levels.len() {
        let is_steep = |to: &usize| *to == from + 1 || levels[*to].bytes as f64 <= levels[from].bytes as f64 * STEEP;
        for to in (from + 1..levels.len()).take_while(is_steep) {
            let is_rise = levels[to].is_above(&levels[from], noise);
            if !(is_rise || levels[from].is_above(&levels[to], noise)) || !lasts(levels, from, to) {
                continue;
            }
            // With no two sizes of one level between them, two changes are one.
            match changes.last_mut().filter(|last| last.to >= from && last.is_rise == is_rise) {
                Some(last) => last.to = last.to.max(to),
                None => changes.push(Change { from, to, is_rise }),
            }
        }
    }
    let cliffs = changes.into_iter().filter_map(|change| {
        let Change { from, to, is_rise } = narrowed(levels, change);
        let (smaller, larger) = (levels.get(from)?, levels.get(to)?);
        let (slow, fast) = if is_rise { (smaller, larger) } else { (larger, smaller) };
        let cause = if is_rise { Cause::Unknown } else { outgrown(smaller, larger, sizes) };
        Some(Cliff { cause, bytes: [slow.bytes, fast.bytes], times: fast.median / slow.median })
    });
    cliffs.collect()
}

/// True if the next size on each side, where there is one, is on its side of the change: a single
/// size that is slow or fast is none.
fn lasts(levels: &[Rates], from: usize, to: usize) -> bool {
    let middle = (levels[from].median * levels[to].median).sqrt();
    let same_side = |at: &Rates, as_of: &Rates| (at.median > middle) == (as_of.median > middle);
    let before = from.checked_sub(1).and_then(|before| levels.get(before));
    before.is_none_or(|before| same_side(before, &levels[from]))
        && levels.get(to + 1).is_none_or(|after| same_side(after, &levels[to]))
}

/// The change from the last size of the level before it to the first of the level after it.
fn narrowed(levels: &[Rates], Change { from, to, is_rise }: Change) -> Change {
    let within = || levels[from..=to].iter().map(|level| level.median);
    let (high, low) = (within().fold(0.0, f64::max), within().fold(f64::INFINITY, f64::min));
    let is_high = |at: &usize| levels[*at].median * LEVEL >= high;
    let is_low = |at: &usize| levels[*at].median <= low * LEVEL;
    let [is_first, is_second]: [&dyn Fn(&usize) -> bool; 2] =
        if is_rise { [&is_low, &is_high] } else { [&is_high, &is_low] };
    let to = (from..=to).find(is_second).filter(|at| *at > from).unwrap_or(to);
    let from = (from..to).rev().find(is_first).unwrap_or(from);
    Change { from, to, is_rise }
}

/// The data caches that the machine has, the nearest first.
fn caches(sizes: &Sizes) -> impl Iterator<Item = (&'static str, u64)> {
    ["L1", "L2", "L3"].into_iter().zip(sizes.cache_bytes).filter(|(_, bytes)| *bytes > 0)
}

/// The cache that passes over the smaller buffers fit into, or into `slack` times it, and those
/// over the larger ones do not; or the one that only the smaller buffer by itself fits into.
fn cache_between(smaller: &Rates, larger: &Rates, sizes: &Sizes, slack: f64) -> Option<Cause> {
    let overflows =
        |low: u64, bytes: u64, high: u64| (low as f64) < bytes as f64 * slack && bytes <= high && low < high;
    let all = caches(sizes).find(|(_, bytes)| overflows(smaller.touched, *bytes, larger.touched));
    let alone = caches(sizes).find(|(_, bytes)| smaller.bytes <= *bytes && *bytes < larger.bytes);
    let all = all.map(|(what, bytes)| Cause::BothBeyond { what, bytes });
    all.or(alone.map(|(what, bytes)| Cause::Beyond { what, bytes }))
}

/// What the larger of two sizes does not fit into, and the smaller one does.
fn outgrown(smaller: &Rates, larger: &Rates, sizes: &Sizes) -> Cause {
    let pages = [("page", sizes.page_bytes), ("huge page", sizes.huge_page_bytes)];
    let page = pages.into_iter().find(|(_, bytes)| smaller.bytes <= *bytes && *bytes < larger.bytes);
    let page = page.map(|(what, bytes)| Cause::Beyond { what, bytes });
    cache_between(smaller, larger, sizes, SLACK).or(page).unwrap_or(Cause::Unknown)
}

/// What a sweep shows; `None` if it has too few sizes to show anything.
pub(super) fn verdict(at: Vec<AtSize>, sizes: Sizes, of: &str) -> Option<Verdict> {
    if at.len() < 2 {
        return None;
    }
    let whose = if of.is_empty() { String::new() } else { format!("with {of}, ") };
    let (least, most) = (at.iter().map(|at| at.bytes).min()?, at.iter().map(|at| at.bytes).max()?);
    let known = at.iter().filter_map(Rates::of).count();
    let unknown = at.len() - known;
    let found = find(&at, &sizes);
    let not_known = match unknown {
        0 => String::new(),
        n => format!(
            "; of {} nothing is known, for {} not 3 trials that count in a valid cell",
            says::count(n as u64, "size", "sizes"),
            if n == 1 { "it has" } else { "they have" },
        ),
    };
    let says = match found.as_slice() {
        _ if known < 2 => format!(
            "{whose}whether bandwidth jumps from {least} to {most} bytes a buffer is not known: it needs 3 trials of each size, in \
             valid cells"
        ),
        [] => format!(
            "{whose}this machine shows no cliff from {least} to {most} bytes a buffer: no size is 1.25 times faster than its neighbour in all \
             trials{not_known}"
        ),
        found => {
            let each: Vec<String> = found.iter().map(Cliff::says).collect();
            format!("{whose}{}{not_known}", each.join("; "))
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
            Cause::BothBeyond { what, bytes } => format!("passes over more than the {what}, {bytes} bytes"),
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
                let all = "where what passes go over, on both sides, fits into the";
                format!("{all} {what} ({bytes} bytes), copies are {times}: {faster} bytes a buffer as against {slower}")
            }
            Cause::Unknown => {
                format!(
                    "buffers of {faster} bytes are {times} than of {slower}, and the machine has nothing of a size between"
                )
            }
        }
    }
}
