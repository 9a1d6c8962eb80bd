// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station as it is planned: the steps that build it, what it offers to a path, and its agent's
//! command.

use crate::command::Command;
use crate::host::place::Place;
use crate::step::Step;
use tardy_model::station::StationKind;

/// What a station offers to a path: where its link may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A network namespace of its own.
    Netns(Place),
}

impl Offer {
    /// Where the link will be.
    pub fn place(&self) -> &Place {
        match self {
            Offer::Netns(place) => place,
        }
    }
}

/// A station as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStation {
    pub kind: StationKind,
    /// Steps that build it.
    pub steps: Vec<Step>,
    /// What it offers to a path.
    pub offer: Offer,
    /// The command that is its agent, on its host.
    pub agent: Command,
}
