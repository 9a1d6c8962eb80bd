// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which stream of a set-up is meant. A stream that is not there is an error: never the first one,
//! and never nothing.

use crate::stream::Stream;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;

/// A stream of a set-up, by its place among them. Test frames carry it in one byte, as does every
/// file and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(u8);

/// A stream that a set-up does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoStream {
    /// None is called so.
    Named(String),
    /// No stream has this place.
    At(usize),
    /// A frame has no room for the place.
    Beyond(usize),
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoStream::Named(name) => write!(f, "there is no stream `{name}`: write a section [stream.{name}]"),
            NoStream::At(place) => {
                write!(
                    f,
                    "stream {place} is asked for, and the set-up has none of that number: this is a fault of tardy; \
                     report it with this message"
                )
            }
            NoStream::Beyond(place) => {
                write!(
                    f,
                    "stream {place} is one too many, for a frame numbers them in one byte: use at most {}",
                    StreamId::MOST
                )
            }
        }
    }
}

impl Error for NoStream {}

impl StreamId {
    /// The only one of most set-ups.
    pub const FIRST: StreamId = StreamId(0);
    /// The most streams that a set-up can have.
    pub const MOST: usize = 1 << u8::BITS;

    /// The stream whose number a frame or a message carries.
    pub const fn numbered(number: u8) -> StreamId {
        StreamId(number)
    }

    /// As a frame carries it.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The stream at this place.
    ///
    /// # Errors
    /// If a set-up has no stream at this place.
    pub fn at(place: usize) -> Result<StreamId, NoStream> {
        u8::try_from(place).map(StreamId).map_err(|_| NoStream::Beyond(place))
    }

    /// The stream of this name.
    ///
    /// # Errors
    /// If none is called so.
    pub fn named(streams: &[Stream], name: &str) -> Result<StreamId, NoStream> {
        let place = streams.iter().position(|stream| stream.name == name);
        StreamId::at(place.ok_or_else(|| NoStream::Named(name.to_owned()))?)
    }

    /// A list in the order of the streams, each entry with its stream.
    ///
    /// # Errors
    /// If it has more entries than a set-up has streams.
    pub fn each<T>(list: &[T]) -> Result<impl DoubleEndedIterator<Item = (StreamId, &T)> + Clone, NoStream> {
        if list.len() > StreamId::MOST {
            return Err(NoStream::Beyond(list.len() - 1));
        }
        Ok(list.iter().enumerate().map(|(place, entry)| (StreamId(place as u8), entry)))
    }

    /// What a list in the order of the streams has for this one.
    ///
    /// # Errors
    /// If it has nothing.
    pub fn of<T>(self, list: &[T]) -> Result<&T, NoStream> {
        list.get(usize::from(self.0)).ok_or(NoStream::At(usize::from(self.0)))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
