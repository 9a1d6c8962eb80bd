// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one side of one instance of a load is ordered to do in one trial.

use crate::order::ThreadOrder;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tardy_model::load::LoadKind;
use tardy_model::time::Nanos;
use tardy_sys::tcp::Buffers;

/// Which side of which instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoadAt {
    /// Number of the load in the experiment.
    pub load: u16,
    /// Number of the instance, from 0.
    pub instance: u32,
    /// True at `to`.
    pub peer: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// Which side this is.
    pub at: LoadAt,
    /// The load's name, for messages.
    pub name: String,
    pub kind: LoadKind,
    pub thread: ThreadOrder,
    /// This station's address, with the instance's port.
    pub local: SocketAddr,
    /// The other station's, with the same port; the unspecified address for a load that has no
    /// other side, which sends nothing.
    pub remote: SocketAddr,
    /// When it starts after the base time.
    pub start: Nanos,
    /// When it stops after the base time, if it does by itself.
    pub stop: Option<Nanos>,
    pub send_buffer: Option<u64>,
    pub receive_buffer: Option<u64>,
    /// For what it draws.
    pub seed: u64,
}

impl LoadOrder {
    pub(super) fn buffers(&self) -> Buffers {
        Buffers { send: self.send_buffer, receive: self.receive_buffer }
    }

    /// Which side of what this is, for messages.
    pub(super) fn what(&self) -> String {
        let side = if self.at.peer { "to" } else { "from" };
        format!("load `{}` ({}, instance {}, at `{side}`)", self.name, self.kind.name(), self.at.instance + 1)
    }
}
