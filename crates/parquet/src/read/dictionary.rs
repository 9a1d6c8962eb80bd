// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a few values, read page by page.

use super::footer::Group;
use super::page::{Numbers, Opened, RLE_DICTIONARY, levels, places};
use super::source::Source;
use crate::error::{CodecError, damaged};
use tardy_model::sample::Outcome;

/// Values that a dictionary can have: its columns are of a byte or less.
const MOST_VALUES: usize = 256;

/// A column of a few values.
pub(super) struct Dictionary<V> {
    column: Opened,
    values: Vec<V>,
}

/// What is used again for every page.
#[derive(Default)]
pub(super) struct Room {
    pub page: Vec<u8>,
    levels: Vec<u8>,
    places: Vec<u8>,
}

impl<V: Copy> Dictionary<V> {
    pub fn new(index: usize) -> Self {
        Dictionary { column: Opened::new(index), values: Vec::new() }
    }

    /// `value` takes one off the front of the dictionary's bytes.
    pub fn open(
        &mut self,
        source: &dyn Source,
        group: &Group,
        value: impl Fn(&mut &[u8]) -> Result<V, CodecError>,
    ) -> Result<(), CodecError> {
        self.column.open(source, group)?;
        let (count, mut bytes) = self.column.chunk.dictionary()?;
        // Places are of a byte; a damaged count must not become a long list.
        let values: Result<Vec<V>, _> = (0..count.min(MOST_VALUES)).map(|_| value(&mut bytes)).collect();
        self.values = values?;
        Ok(())
    }

    /// Replaces `out` by the values of the next page.
    pub fn read(&mut self, rows: usize, room: &mut Room, out: &mut Vec<V>) -> Result<(), CodecError> {
        out.clear();
        self.column.chunk.data(rows, RLE_DICTIONARY, &mut room.page)?;
        match places(&room.page, rows, &mut room.places)? {
            Numbers::All(place) => out.resize(rows, value_at(&self.values, place)?),
            Numbers::Each(places) => {
                for place in places {
                    out.push(value_at(&self.values, *place)?);
                }
            }
        }
        Ok(())
    }

    /// Of a nullable column.
    pub fn read_nullable(&mut self, rows: usize, room: &mut Room, out: &mut Vec<Option<V>>) -> Result<(), CodecError> {
        out.clear();
        self.column.chunk.data(rows, RLE_DICTIONARY, &mut room.page)?;
        let (levels, page) = levels(&room.page, rows, &mut room.levels)?;
        let values = levels.ones(rows);
        if values == 0 {
            out.resize(rows, None);
            return Ok(());
        }
        let places = places(page, values, &mut room.places)?;
        let mut next = 0;
        for row in 0..rows {
            let value = match places {
                _ if !levels.is_one(row) => None,
                Numbers::All(place) => Some(value_at(&self.values, place)?),
                Numbers::Each(places) => {
                    next += 1;
                    Some(value_at(&self.values, places[next - 1])?)
                }
            };
            out.push(value);
        }
        Ok(())
    }
}

fn value_at<V: Copy>(values: &[V], place: u8) -> Result<V, CodecError> {
    let lost = || damaged(format!("a dictionary of {} values has no place {place}", values.len()));
    values.get(usize::from(place)).copied().ok_or_else(lost)
}

/// A text off the front of a dictionary's bytes.
fn text<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let ends = || damaged("a dictionary ends early");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(ends)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(ends)?;
    *bytes = rest;
    Ok(text)
}

/// An outcome off the front of a dictionary's bytes.
pub(super) fn outcome(bytes: &mut &[u8]) -> Result<Outcome, CodecError> {
    let text = text(bytes)?;
    let found = Outcome::ALL.into_iter().find(|outcome| outcome.name().as_bytes() == text);
    found.ok_or_else(|| damaged(format!("`{}` is not an outcome", String::from_utf8_lossy(text))))
}

/// Flags or a VLAN priority off the front of a dictionary's bytes.
pub(super) fn small(bytes: &mut &[u8]) -> Result<u8, CodecError> {
    let (int, rest) = bytes.split_first_chunk().ok_or_else(|| damaged("a dictionary ends early"))?;
    *bytes = rest;
    let int = i32::from_le_bytes(*int);
    u8::try_from(int).map_err(|_| damaged(format!("{int} is no set of flags and no VLAN priority")))
}
