// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of stations. What a kind *is* is one record here, [`StationTraits`], and whoever has to
//! know asks the record, not the kind. What a kind *does* is a file in `lab/src/station`.

listed! {
    /// A place where traffic starts or ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StationKind {
        /// A fresh network namespace.
        Netns,
    }
}

/// How long a station lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As long as a path: it is built before each one, and put back with it.
    SetUp,
    /// For the whole run: it is built once, before the first path, and put back after the last one.
    /// Its agent serves all cells.
    Run,
}

/// What a kind of station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationTraits {
    /// The word for `station.*.kind`.
    pub name: &'static str,
    /// How long it lives.
    pub life: Life,
}

impl StationKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    pub const fn traits(self) -> StationTraits {
        match self {
            StationKind::Netns => StationTraits { name: "netns", life: Life::SetUp },
        }
    }
}
