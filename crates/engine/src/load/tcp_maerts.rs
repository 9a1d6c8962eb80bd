// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp_maerts`: bulk over TCP, to → from. The station that calls receives, as one that fetches
//! data does.

use super::order::LoadOrder;
use super::tcp;
use super::work::Work;

pub(super) fn open(order: &LoadOrder, size: u64) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => tcp::side(order, false, move |tcp, watch| tcp::send(tcp, watch, size, None)),
        false => tcp::side(order, true, tcp::receive),
    }
}
