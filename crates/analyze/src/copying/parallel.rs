// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the bandwidths of threads that copied may be added up. Each thread's own bandwidth says
//! how fast it was while it was in its passes; their sum is what all of them had together only if
//! they were in passes all the time. Pure: it takes what was recorded.

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
    /// How many were busy at once, as a mean: all busy times over the wall time.
    pub parallelism: f64,
    /// How long a number of threads were in a pass at once, by that number, ns.
    pub in_flight_ns: Vec<i64>,
    /// For each pair of threads, by their numbers: how long both were in a pass at once, over the
    /// shorter of both times.
    pub overlaps: Vec<((usize, usize), f64)>,
}

/// A sum that differs from the wall's rate by less may be added up.
pub const MAY_DIFFER: f64 = 0.05;

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
    spans.iter().map(OnePass::took_ns).sum()
}

/// What threads came to; `None` if no pass was ended, or no time went by.
pub fn together(threads: &[Copied]) -> Option<Together> {
    let passes = || threads.iter().flat_map(|thread| &thread.passes);
    let from_ns = passes().map(|pass| pass.start_ns).min()?;
    let to_ns = passes().map(|pass| pass.end_ns).max()?;
    let wall_ns = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)?;
    let bytes = threads.iter().map(Copied::bytes).fold(0, u64::saturating_add);
    let busy: i64 = threads.iter().map(|thread| thread.busy_ns).sum();
    let spans: Vec<Vec<OnePass>> = threads.iter().map(Copied::spans).collect();
    let rate = |bytes: u64, ns: i64| if ns > 0 { bytes as f64 * 1e9 / ns as f64 } else { 0.0 };
    let own = threads.iter().zip(&spans).map(|(thread, spans)| rate(thread.bytes(), length_ns(spans)));
    let pairs = (0..threads.len()).flat_map(|one| (one + 1..threads.len()).map(move |other| (one, other)));
    Some(Together {
        wall_ns,
        bytes,
        wall_rate: rate(bytes, wall_ns),
        sum_rate: own.sum(),
        parallelism: busy as f64 / wall_ns as f64,
        in_flight_ns: in_flight(&spans, wall_ns),
        overlaps: pairs.map(|pair| (pair, overlap(&spans[pair.0], &spans[pair.1]))).collect(),
    })
}

impl Together {
    /// The sum over what was had together.
    pub fn times_less(&self) -> f64 {
        if self.wall_rate > 0.0 { self.sum_rate / self.wall_rate } else { 1.0 }
    }

    /// By which share of the wall's rate the sum is wrong.
    pub fn error(&self) -> f64 {
        self.times_less() - 1.0
    }

    pub fn may_be_added_up(&self) -> bool {
        self.error().abs() <= MAY_DIFFER
    }

    /// As many threads as the sum takes to be busy at once: were it right, that many would have
    /// been.
    pub fn assumed(&self) -> f64 {
        self.parallelism * self.times_less()
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
        found[many] += at_ns - last_ns;
        (now, last_ns) = (now + change, at_ns);
    }
    let counted: i64 = found.iter().sum();
    found[0] += (wall_ns - counted).max(0);
    found
}

/// How long both were in a pass at once, over the shorter of both times.
fn overlap(one: &[OnePass], other: &[OnePass]) -> f64 {
    let shorter = length_ns(one).min(length_ns(other));
    let (mut a, mut b, mut both) = (one.iter().peekable(), other.iter().peekable(), 0);
    while let (Some(first), Some(second)) = (a.peek(), b.peek()) {
        both += (first.end_ns.min(second.end_ns) - first.start_ns.max(second.start_ns)).max(0);
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
