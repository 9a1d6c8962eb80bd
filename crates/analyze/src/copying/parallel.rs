// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the bandwidths of threads that copied may be added up. Each thread's own bandwidth says
//! how fast it was while it was in its passes; their sum is what all of them had together only if
//! they were in passes all the time. And what a thread does in a pass is to copy only while it has
//! a CPU. Pure: it takes what was recorded.

/// One pass of a thread over all of its buffers, by one clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnePass {
    pub start_ns: i64,
    pub end_ns: i64,
}

impl OnePass {
    /// How long it took, ns.
    pub fn took_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns).max(0)
    }
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// In the order of time.
    pub passes: Vec<OnePass>,
    pub bytes_per_pass: u64,
    /// How long it had what copies, ns. Never the time in flight, in which it may wait.
    pub busy_ns: i64,
}

/// What all of them came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// From the first start to the last end, ns.
    pub wall_ns: i64,
    pub bytes: u64,
    /// Bytes a second over the wall time: the only bandwidth that they had together.
    pub wall_rate: f64,
    /// What each had while it was in passes, added up.
    pub sum_rate: f64,
    /// Threads that did a pass.
    pub passed: usize,
    /// How many were busy at once, as a mean: all busy times over the wall time.
    pub parallelism: f64,
    /// How long a number of threads were in a pass at once, by that number, ns.
    pub in_flight_ns: Vec<i64>,
    /// For each pair of threads, by their numbers: how long both were in a pass at once, over the
    /// shorter of both times. Empty where it would take too long to look at all of them.
    pub overlaps: Vec<((usize, usize), f64)>,
}

/// A sum that differs from the wall's rate by no more may be added up, of threads that ran in
/// parallel but for this share.
pub const MAY_DIFFER: f64 = 0.05;

/// Stretches of passes that the overlaps are made of at most, each once a thread.
const MOST_LOOKS: usize = 1 << 31;

impl Copied {
    fn bytes(&self) -> u64 {
        self.bytes_per_pass.saturating_mul(self.passes.len() as u64)
    }

    /// Stretches of passes that follow each other without a gap.
    fn spans(&self) -> Vec<OnePass> {
        let mut spans: Vec<OnePass> = Vec::new();
        for pass in self.passes.iter().filter(|pass| pass.end_ns > pass.start_ns) {
            match spans.last_mut().filter(|last| last.end_ns >= pass.start_ns) {
                Some(last) => last.end_ns = last.end_ns.max(pass.end_ns),
                None => spans.push(*pass),
            }
        }
        spans
    }
}

/// How long they are together, ns.
fn length_ns(spans: &[OnePass]) -> i64 {
    spans.iter().map(OnePass::took_ns).fold(0, i64::saturating_add)
}

/// What threads came to; `None` if no pass was ended, or no time went by.
pub fn together(threads: &[Copied]) -> Option<Together> {
    let passes = || threads.iter().flat_map(|thread| &thread.passes);
    let from_ns = passes().map(|pass| pass.start_ns).min()?;
    let to_ns = passes().map(|pass| pass.end_ns).max()?;
    let wall_ns = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)?;
    let bytes = threads.iter().map(Copied::bytes).fold(0, u64::saturating_add);
    let busy = threads.iter().map(|thread| thread.busy_ns.max(0)).fold(0, i64::saturating_add);
    let spans: Vec<Vec<OnePass>> = threads.iter().map(Copied::spans).collect();
    let rate = |bytes: u64, ns: i64| if ns > 0 { bytes as f64 * 1e9 / ns as f64 } else { 0.0 };
    let own = threads.iter().zip(&spans).map(|(thread, spans)| rate(thread.bytes(), length_ns(spans)));
    // Each pair is compared; threads that pause between all their passes may have too many.
    let looks = spans.iter().map(Vec::len).fold(0, usize::saturating_add).saturating_mul(threads.len());
    let shown = if looks <= MOST_LOOKS { threads.len() } else { 0 };
    let pairs = (0..shown).flat_map(|one| (one + 1..shown).map(move |other| (one, other)));
    Some(Together {
        wall_ns,
        bytes,
        wall_rate: rate(bytes, wall_ns),
        sum_rate: own.sum(),
        passed: spans.iter().filter(|spans| !spans.is_empty()).count(),
        parallelism: busy as f64 / wall_ns as f64,
        in_flight_ns: in_flight(&spans, wall_ns),
        overlaps: pairs.map(|pair| (pair, overlap(&spans[pair.0], &spans[pair.1]))).collect(),
    })
}

impl Together {
    /// As many threads as the sum takes to copy at once: each that did a pass, all of the time.
    pub fn assumed(&self) -> usize {
        self.passed
    }

    /// How many times less they copied at once than that. One thread is by itself however long it
    /// waited.
    pub fn times_less(&self) -> f64 {
        if self.parallelism > 0.0 {
            self.passed as f64 / self.parallelism
        } else {
            f64::from(u8::from(self.passed > 0))
        }
    }

    /// By which share of the wall's rate the sum is wrong.
    pub fn error(&self) -> f64 {
        if self.wall_rate > 0.0 { self.sum_rate / self.wall_rate - 1.0 } else { 0.0 }
    }

    /// The sum must be right, and for its reason: where threads take turns within their passes, it
    /// is what they had together, but none of the bandwidths is what a thread has on its CPU.
    pub fn may_be_added_up(&self) -> bool {
        self.error().abs() <= MAY_DIFFER && (self.passed < 2 || self.times_less() <= 1.0 + MAY_DIFFER)
    }
}

/// How long how many were in a pass at once, from none to all, ns.
fn in_flight(spans: &[Vec<OnePass>], wall_ns: i64) -> Vec<i64> {
    let each = spans.iter().flatten();
    let mut edges: Vec<(i64, i64)> = each.flat_map(|span| [(span.start_ns, 1), (span.end_ns, -1)]).collect();
    // One that ends when another begins is not in flight with it.
    edges.sort_unstable();
    let mut found = vec![0_i64; spans.len() + 1];
    let (mut now, mut last_ns) = (0_i64, edges.first().map_or(0, |edge| edge.0));
    for (at_ns, change) in edges {
        let many = usize::try_from(now).unwrap_or(0).min(spans.len());
        found[many] = found[many].saturating_add(at_ns.saturating_sub(last_ns));
        (now, last_ns) = (now + change, at_ns);
    }
    let counted = found.iter().copied().fold(0, i64::saturating_add);
    found[0] = found[0].saturating_add(wall_ns.saturating_sub(counted).max(0));
    found
}

/// How long both were in a pass at once, over the shorter of both times.
fn overlap(one: &[OnePass], other: &[OnePass]) -> f64 {
    let shorter = length_ns(one).min(length_ns(other));
    let (mut a, mut b, mut both) = (one.iter().peekable(), other.iter().peekable(), 0_i64);
    while let (Some(first), Some(second)) = (a.peek(), b.peek()) {
        let common_ns = first.end_ns.min(second.end_ns).saturating_sub(first.start_ns.max(second.start_ns));
        both = common_ns.max(0).saturating_add(both);
        // Who ends first has nothing in common with what comes later.
        if first.end_ns <= second.end_ns {
            a.next()
        } else {
            b.next()
        };
    }
    if shorter > 0 { both as f64 / shorter as f64 } else { 0.0 }
}

/// The length of which a tenth of all passes is shorter, ns.
pub(super) fn tenth_ns(threads: &[Copied]) -> i64 {
    let mut took: Vec<i64> = threads.iter().flat_map(|thread| &thread.passes).map(OnePass::took_ns).collect();
    let at = took.len() / 10;
    if took.is_empty() { 0 } else { *took.select_nth_unstable(at).1 }
}
