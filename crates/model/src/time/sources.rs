// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many sources of one offset a record may have: each of them is compared with each other one,
//! so what a folder from elsewhere has is counted while it is read.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Two machines are compared in a handful of ways.
pub const MOST_SOURCES: usize = 32;

/// Reads a list of sources, and no further than it may be long.
///
/// # Errors
/// If it is longer, or has what is no source.
pub(super) fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Few<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST_SOURCES} sources")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<T>, A::Error> {
            let mut read = Vec::new();
            while let Some(one) = all.next_element()? {
                if read.len() == MOST_SOURCES {
                    let says = format!("an offset has more than {MOST_SOURCES} sources, which no run compares");
                    return Err(A::Error::custom(says));
                }
                read.push(one);
            }
            Ok(read)
        }
    }
    from.deserialize_seq(Few(PhantomData))
}
