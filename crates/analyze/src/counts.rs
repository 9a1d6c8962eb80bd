// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each value occurred, exactly. Every figure of a distribution follows from these
//! counts, so nothing else needs to be computed packet by packet.
//!
//! Where values are dense they have a counter each, in pages; the others, a long tail or a few
//! packets, are listed. The list is searched whenever it has doubled, and values that have become
//! dense get a page. So memory is bounded by the pages that there can be (80 MiB) and by the
//! list, which its owner empties once it need not be exact any more.

use crate::chunk::ROWS;
use crate::statistics::Moments;
use std::ops::Range;
use tardy_model::histogram::{Bucket, Histogram};
use tardy_model::sample::MaybeNanos;

/// Values of a page: nanoseconds, so a page spans 4 µs.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;
/// Pages, so that values from −4 to 12 ms can have one.
const PAGES: usize = 4096;
const BELOW: i64 = 1 << 22;
const SPAN: u64 = (PAGES * PAGE) as u64;

/// As many listed values of one page take nearly half as much memory as the page: it is made.
const DENSE: usize = 1024;
/// The list is searched when it is this long, or twice as long as the last search left it.
const LISTED: usize = 1 << 15;

/// The counters of a page: what is over whole 256 of each value, so that what is often written is
/// small enough to stay in the cache, and these apart.
#[derive(Clone, Debug)]
struct Page {
    over: [u8; PAGE],
    whole: [u32; PAGE],
}

impl Page {
    fn new() -> Box<Self> {
        Box::new(Page { over: [0; PAGE], whole: [0; PAGE] })
    }

    #[inline]
    fn add(&mut self, at: usize) {
        let over = &mut self.over[at % PAGE];
        *over = over.wrapping_add(1);
        if *over == 0 {
            self.whole[at % PAGE] += 1;
        }
    }

    fn count(&self, at: usize) -> u64 {
        u64::from(self.whole[at]) << 8 | u64::from(self.over[at])
    }

    fn merge(&mut self, other: &Page) {
        for at in 0..PAGE {
            let sum = self.count(at) + other.count(at);
            (self.over[at], self.whole[at]) = (sum as u8, (sum >> 8) as u32);
        }
    }
}

/// Counts by value, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// None at all, or one place for each page that there can be.
    pages: Vec<Option<Box<Page>>>,
    listed: Vec<i64>,
    look_at: usize,
}

/// What distances are taken between.
pub(crate) trait Instants: Copy {
    /// In ns; the lowest number for none.
    fn ns(self) -> i64;
}

impl Instants for i64 {
    fn ns(self) -> i64 {
        self
    }
}

impl Instants for MaybeNanos {
    fn ns(self) -> i64 {
        self.or_lowest()
    }
}

/// The least value that can have a page.
const LEAST: i64 = -BELOW;

/// Up to [`ROWS`] values that all can have pages, as distances from the least such value: half as
/// wide, so that twice as many are worked on at once, and small enough that a difference shows
/// which is greater.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    length: usize,
    places: [i32; ROWS],
}

impl Default for Places {
    fn default() -> Self {
        Places { length: 0, places: [0; ROWS] }
    }
}

impl Places {
    /// Takes other values; false if one of them can have no page, and nothing is then to be done
    /// with these places.
    pub fn take(&mut self, values: &[i64]) -> bool {
        self.length = values.len();
        let mut any = 0;
        for (place, value) in self.places.iter_mut().zip(values) {
            let at = value.wrapping_add(BELOW) as u64;
            any |= at;
            *place = at as i32;
        }
        any < SPAN && values.len() <= ROWS
    }

    /// Takes the distances between two columns of offsets, `later` less `earlier`, or the later
    /// ones themselves; false as for [`Places::take`]. The values need not be written down before.
    pub fn take_distances<T: Instants>(&mut self, later: &[T], earlier: Option<&[T]>) -> bool {
        self.length = later.len();
        let mut any = 0;
        let mut note = |place: &mut i32, value: i64| {
            let at = value.wrapping_add(BELOW) as u64;
            any |= at;
            *place = at as i32;
        };
        match earlier {
            None => self.places.iter_mut().zip(later).for_each(|(place, later)| note(place, later.ns())),
            Some(earlier) => {
                for ((place, later), earlier) in self.places.iter_mut().zip(later).zip(earlier) {
                    note(place, later.ns().wrapping_sub(earlier.ns()));
                }
            }
        }
        any < SPAN && later.len() <= ROWS
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length.min(ROWS)
    }

    /// The values of some of them.
    pub fn values(&self, of: Range<usize>) -> impl ExactSizeIterator<Item = i64> {
        self.all()[of].iter().map(|place| i64::from(*place) + LEAST)
    }

    /// The greatest value, and the first place that has it.
    pub fn greatest(&self) -> Option<(i64, usize)> {
        let max = *self.all().iter().max()?;
        let first = self.all().iter().position(|place| *place == max)?;
        Some((i64::from(max) + LEAST, first))
    }

    fn all(&self) -> &[i32] {
        &self.places[..self.length.min(ROWS)]
    }

    /// True if one is greater than a value.
    pub fn any_above(&self, value: i64) -> bool {
        let bound = bound(value);
        // Without a way out, so that the compiler makes vectors of it.
        self.all().iter().fold(0, |any, place| any | (bound - place)) < 0
    }

    /// For each `N` in a row whether one is greater than a value; then for the rest, if any.
    pub fn above<const N: usize>(&self, value: i64) -> impl Iterator<Item = bool> {
        let bound = bound(value);
        let (groups, rest) = self.all().as_chunks::<N>();
        let last = (!rest.is_empty()).then(move || rest.iter().any(|place| *place > bound));
        groups.iter().map(move |group| group.iter().fold(0, |any, place| any | (bound - place)) < 0).chain(last)
    }
}

/// A value's place, or that of the end of the span which it lies beyond.
fn bound(value: i64) -> i32 {
    value.saturating_add(BELOW).clamp(-1, SPAN as i64) as i32
}

/// Place among the pages and in the page.
#[inline]
fn place(value: i64) -> (usize, usize) {
    let at = value.wrapping_add(BELOW) as u64;
    (usize::try_from(at >> PAGE_BITS).unwrap_or(usize::MAX), at as usize % PAGE)
}

impl Counts {
    /// Counts values by their places.
    pub fn add_places(&mut self, places: &Places) {
        let Counts { pages, listed, .. } = self;
        let value = |place: &i32| i64::from(*place) + LEAST;
        match pages.first_chunk_mut::<PAGES>() {
            Some(pages) => {
                for place in places.all() {
                    let at = *place as usize;
                    match &mut pages[(at >> PAGE_BITS) % PAGES] {
                        Some(page) => page.add(at),
                        None => listed.push(value(place)),
                    }
                }
            }
            None => listed.extend(places.all().iter().map(value)),
        }
        self.look_through();
    }

    pub fn add(&mut self, values: &[i64]) {
        for &value in values {
            let (page, at) = place(value);
            match self.pages.get_mut(page) {
                Some(Some(page)) => page.add(at),
                _ => self.listed.push(value),
            }
        }
        self.look_through();
    }

    /// Adds the other's counts.
    pub fn merge(&mut self, other: Counts) {
        if self.pages.len() < other.pages.len() {
            self.pages.resize(other.pages.len(), None);
        }
        for (mine, theirs) in self.pages.iter_mut().zip(other.pages) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.merge(&theirs),
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
        // What was listed may have a page now.
        let listed = std::mem::take(&mut self.listed);
        self.add(&listed);
        self.add(&other.listed);
    }

    fn look_through(&mut self) {
        if self.listed.len() < self.look_at.max(LISTED) {
            return;
        }
        if self.pages.is_empty() {
            self.pages.resize(PAGES, None);
        }
        let mut of_page = vec![0; PAGES];
        for value in &self.listed {
            if let Some(of_page) = of_page.get_mut(place(*value).0) {
                *of_page += 1;
            }
        }
        let pages = &mut self.pages;
        self.listed.retain(|value| {
            let (page, at) = place(*value);
            let is_dense = of_page.get(page).is_some_and(|of_page| *of_page >= DENSE);
            match pages.get_mut(page).filter(|_| is_dense) {
                Some(page) => page.get_or_insert_with(Page::new).add(at),
                None => return true,
            }
            false
        });
        self.look_at = 2 * self.listed.len();
    }

    /// Values that are listed one by one.
    pub fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Takes the list out.
    pub fn take_listed(&mut self) -> Vec<i64> {
        self.look_at = 0;
        std::mem::take(&mut self.listed)
    }

    /// Calls back for each value, in ascending order, with how often it occurred.
    pub fn each(&self, mut call: impl FnMut(i64, u64)) {
        let mut listed = self.listed.clone();
        listed.sort_unstable();
        let mut listed = listed.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).peekable();
        for (page, n) in self.pages.iter().zip(0i64..) {
            let Some(page) = page else { continue };
            let first = (n << PAGE_BITS) - BELOW;
            while let Some((value, count)) = listed.next_if(|(value, _)| *value < first) {
                call(value, count);
            }
            let counts = (first..).zip((0..PAGE).map(|at| page.count(at)));
            counts.filter(|(_, count)| *count > 0).for_each(|(value, count)| call(value, count));
        }
        listed.for_each(|(value, count)| call(value, count));
    }

    fn list(&self) -> Vec<(i64, u64)> {
        let mut list = Vec::new();
        self.each(|value, count| list.push((value, count)));
        list
    }
}

impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.list() == other.list()
    }
}

impl Eq for Counts {}

// What is read off the counts of a digest when they are complete: the figures of its values, and
// the value at a rank.

/// All figures of the values except exact quantiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spilled {
    pub(crate) histogram: Histogram,
    pub(crate) moments: Moments,
    pub(crate) negative: u64,
}

impl Spilled {
    pub(crate) fn add(&mut self, value: i64, n: u64) {
        self.histogram.record_n(value, n);
        self.moments.add_n(value, n);
        if value < 0 {
            self.negative += n;
        }
    }

    pub(crate) fn merge(&mut self, other: &Spilled) {
        self.histogram.merge(&other.histogram);
        self.moments.merge(&other.moments);
        self.negative += other.negative;
    }
}

/// What is read off the counts at the end.
pub(crate) struct Summary {
    pub(crate) all: Spilled,
    /// Each value with how many are not greater, in ascending order; `None` if not exact.
    pub(crate) upto: Option<Vec<(i64, u64)>>,
}

impl Summary {
    /// Of counted values and of those that were taken out of the counts; with exact values if there
    /// are none of these.
    pub(crate) fn of(counts: &Counts, spilled: &Spilled, is_exact: bool) -> Summary {
        let mut all = spilled.clone();
        let mut upto = is_exact.then(Vec::new);
        let mut before = 0;
        counts.each(|value, n| {
            all.add(value, n);
            before += n;
            if let Some(upto) = &mut upto {
                upto.push((value, before));
            }
        });
        Summary { all, upto }
    }

    /// The value at a rank; `None` if the packet at that rank never arrived.
    pub(crate) fn at(&self, rank: u64) -> Option<RankedValue> {
        let histogram = &self.all.histogram;
        let (bucket, before) = histogram.bucket_at_rank(rank)?;
        let exact = self.upto.as_ref().and_then(|upto| at_rank(upto, rank));
        let rough = bucket.high_ns.min(histogram.max().unwrap_or(bucket.high_ns));
        Some(RankedValue { value_ns: exact.map_or(rough, |(value, ..)| value), exact, bucket, before })
    }
}

/// A rank's value, and where it is.
pub(crate) struct RankedValue {
    pub(crate) value_ns: i64,
    /// The value, how many are less, and how many are equal; `None` above the bound up to which
    /// values are exact.
    pub(crate) exact: Option<(i64, u64, u64)>,
    pub(crate) bucket: Bucket,
    /// Values in lower buckets.
    pub(crate) before: u64,
}

/// True if two figures are no farther apart than a bucket of the histogram is wide.
pub(crate) fn is_same(least: i64, greatest: i64) -> bool {
    let apart = i128::from(greatest) - i128::from(least);
    apart <= i128::from(least.unsigned_abs().max(1024)) / 1024
}

/// The value of a rank, how many values are less, and how many are equal to it.
fn at_rank(upto: &[(i64, u64)], rank: u64) -> Option<(i64, u64, u64)> {
    let at = upto.partition_point(|(_, upto)| *upto < rank);
    let (value, with) = *upto.get(at)?;
    let below = at.checked_sub(1).map_or(0, |before| upto[before].1);
    Some((value, below, with - below))
}
