// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations: where traffic starts or ends. A kind of station is one file here and one line in [`kind`]. It builds the station, says what
//! the station offers to a path, and starts its agent, to which it gives the coordinator a [`Connection`]. Nothing outside this folder
//! knows whether an agent is a child process, a thread, or a program in another machine.

mod all;
pub mod netns;

pub(crate) use all::ANSWER;
pub use all::Stations;

use crate::names::Names;
use crate::step::Step;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use tardy_spec::experiment::Station;
use thiserror::Error;

/// What a kind of station does, in the order of its life.
pub(crate) struct Kind {
    /// The word for `station.*.kind`.
    pub(crate) name: &'static str,
    /// Plans what is done before the path is built, under this station's name. Pure: what cannot be done is found when the steps are
    /// applied, and what they did is put back by their inverses.
    pub(crate) build: fn(Names, &str) -> Built,
    /// Starts the agent of a station that is built. An error ends the run, and all that was built is put back.
    pub(crate) connect: fn(&Offer, &Path) -> io::Result<Connection>,
    /// The command line that does so, for plans and messages.
    pub(crate) command_line: fn(&Offer, &Path) -> String,
}

/// What stations of this kind do.
pub(crate) const fn kind(station: Station) -> &'static Kind {
    match station {
        Station::Netns => &netns::KIND,
    }
}

/// What a station offers to a path: where its link may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A network namespace of its own on this machine, by name.
    Netns(String),
}

impl Offer {
    /// The network namespace.
    pub fn netns(&self) -> &str {
        match self {
            Offer::Netns(name) => name,
        }
    }
}

/// A station as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its kind.
    pub kind: Station,
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// What it offers to a path.
    pub offer: Offer,
}

/// A station of a built path. A plan gives it for a name, and for a name that it does not know an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(u16);

impl StationId {
    /// The station at this place of the plan's.
    pub(crate) fn at(place: usize) -> Option<StationId> {
        u16::try_from(place).ok().map(StationId)
    }
}

/// A station that an experiment names and does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no station `{0}`: write a section [station.{0}]")]
pub struct NoStation(pub String);

/// Two byte streams to an agent, and what it runs in.
pub struct Connection {
    /// Its messages.
    pub from: Box<dyn Read + Send>,
    /// Orders to it.
    pub to: Box<dyn Write + Send>,
    /// What it runs in.
    pub carrier: Box<dyn Carrier>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("pid", &self.carrier.pid()).finish_non_exhaustive()
    }
}

/// What an agent runs in: a process, or whatever else ends on its own.
pub trait Carrier: Send {
    /// Its process on the coordinator's machine, for the journal: whoever puts back after a killed coordinator ends this
    /// process first. `None` if there is none.
    fn pid(&self) -> Option<u32>;

    /// How it ended, in words that follow "ended", if it does so within `limit`. Called when a message could not be sent or
    /// received, to say why, and after the orders' stream was closed, to wait for the end.
    fn ended(&mut self, limit: Duration) -> Option<String>;

    /// Ends it at once. Called if it does not end by itself after the orders' stream was closed. It must not block.
    fn kill(&mut self);

    /// The last lines that it wrote for a person.
    fn last_words(&self) -> Vec<String>;
}
