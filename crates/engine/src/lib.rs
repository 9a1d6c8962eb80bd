// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring engine: an open-loop schedule, a sender and a receiver over a narrow port, and
//! the pure matcher that joins their halves. It emits samples and never sees a file format.

pub mod agent;
pub mod copy;
pub mod halves;
pub mod live;
pub mod load;
pub mod matcher;
pub mod message;
pub mod order;
pub mod port;
pub mod receiver;
pub mod reflector;
pub mod requester;
pub mod ruler;
pub mod schedule;
pub mod sender;
pub mod triggered;
pub mod worker;
