// SPDX-License-Identifier: MIT OR Apache-2.0
//! An activity: one thing that runs at a station in a trial, an end of a stream or a side of a
//! load. The coordinator numbers them, and every order and every answer names the activity that it
//! is about.

use crate::load::LoadOrder;
use crate::order::EndOrder;
use serde::{Deserialize, Serialize};
use std::fmt;
use tardy_model::stream::Side;

/// The number of an activity. No two activities of a trial share one, at whatever stations they
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActivityId(pub u32);

impl fmt::Display for ActivityId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "activity {}", self.0)
    }
}

/// What an activity is ordered to do in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActivityOrder {
    /// To be an end of a stream.
    End(EndOrder),
    /// To be a side of a load.
    Load(LoadOrder),
}

/// The order in which a station makes its activities ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// A receiver comes first: nothing that is sent may find a closed door.
    Receiver,
    /// An end that sends by itself.
    Sender,
    /// A load comes after all ends.
    Load,
}

impl ActivityOrder {
    /// When a station makes it ready.
    pub(crate) fn turn(&self) -> Turn {
        match self {
            ActivityOrder::End(order) if order.side() == Side::Tx => Turn::Sender,
            ActivityOrder::End(_) => Turn::Receiver,
            ActivityOrder::Load(_) => Turn::Load,
        }
    }
}
