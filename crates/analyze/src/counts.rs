// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each value occurred, exactly: whatever is said of a distribution follows from it, so that nothing else need be
//! reckoned packet by packet.
//!
//! Where values are dense they have a counter each, in pages; the others, a long tail or a few packets, are listed. The list
//! is looked through whenever it has doubled, and what has become dense gets a page. So memory is bounded by the pages that
//! there can be (64 MiB) and by the list, which its owner empties once it need not be exact any more.

use crate::chunk::ROWS;

/// Values of a page: nanoseconds, so a page spans 4 µs.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;
/// Pages, so that values from −4 to 12 ms can have one.
const PAGES: usize = 4096;
const BELOW: i64 = 1 << 22;
const SPAN: u64 = (PAGES * PAGE) as u64;

/// As many listed values of one page take as much memory as half a page: it is made.
const DENSE: usize = 1024;
/// The list is looked through when it is so long, or twice as long as it was left the last time.
const LISTED: usize = 1 << 15;

type Page = Box<[u32; PAGE]>;

/// Counts by value, ns. A value may occur up to 2^32 − 1 times; the owner sees to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// None at all, or one place for each page that there can be.
    pages: Vec<Option<Page>>,
    listed: Vec<i64>,
    look_at: usize,
}

/// The least value that can have a page.
const LEAST: i64 = -BELOW;

/// Up to [`ROWS`] values that all can have pages, as distances from the least such value: half as wide, so that twice as many
/// are worked on at once, and small enough that a difference tells which is greater.
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
    /// Takes other values; false if one of them can have no page, and nothing is then to be done with these places.
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
                        Some(page) => page[at % PAGE] += 1,
                        None => listed.push(value(place)),
                    }
                }
            }
            None => listed.extend(places.all().iter().map(value)),
        }
        self.look_through();
    }

    /// Counts any values.
    pub fn add(&mut self, values: &[i64]) {
        for &value in values {
            let (page, at) = place(value);
            match self.pages.get_mut(page) {
                Some(Some(page)) => page[at] += 1,
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
                (Some(mine), Some(theirs)) => mine.iter_mut().zip(theirs.iter()).for_each(|(mine, more)| *mine += more),
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
        self.listed.sort_unstable();
        if self.pages.is_empty() {
            self.pages.resize(PAGES, None);
        }
        let mut rest = Vec::new();
        for of_page in self.listed.chunk_by(|a, b| place(*a).0 == place(*b).0) {
            match self.pages.get_mut(place(of_page[0]).0).filter(|_| of_page.len() >= DENSE) {
                Some(page) => {
                    let page = page.get_or_insert_with(|| Box::new([0; PAGE]));
                    of_page.iter().for_each(|value| page[place(*value).1] += 1);
                }
                None => rest.extend_from_slice(of_page),
            }
        }
        self.listed = rest;
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
            for (value, count) in (first..).zip(page.iter()).filter(|(_, count)| **count > 0) {
                call(value, u64::from(*count));
            }
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
