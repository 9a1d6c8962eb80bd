// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each value occurred, exactly: whatever is said of a distribution follows from it, so that nothing else need be
//! reckoned packet by packet.
//!
//! Where values are dense they have a counter each, in pages; the others, a long tail or a few packets, are listed. The list
//! is looked through whenever it has doubled, and what has become dense gets a page. So memory is bounded by the pages that
//! there can be (64 MiB) and by the list, which its owner empties once it need not be exact any more.

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

/// True if values may have pages, each being far from the ends of `i64` too.
#[inline]
pub(crate) fn in_span(values: &[i64]) -> bool {
    // Without a way out, so that the compiler makes vectors of it.
    values.iter().fold(0, |any, value| any | value.wrapping_add(BELOW) as u64) < SPAN
}

/// The least that [`in_span`] allows.
pub(crate) const LEAST: i64 = -BELOW;

/// Place among the pages and in the page.
#[inline]
fn place(value: i64) -> (usize, usize) {
    let at = value.wrapping_add(BELOW) as u64;
    (usize::try_from(at >> PAGE_BITS).unwrap_or(usize::MAX), at as usize % PAGE)
}

impl Counts {
    /// Counts values that are [`in_span`].
    pub fn add_in_span(&mut self, values: &[i64]) {
        let Counts { pages, listed, .. } = self;
        match pages.first_chunk_mut::<PAGES>() {
            Some(pages) => {
                for &value in values {
                    let (page, at) = place(value);
                    match &mut pages[page % PAGES] {
                        Some(page) => page[at] += 1,
                        None => listed.push(value),
                    }
                }
            }
            None => listed.extend_from_slice(values),
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
