// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp_stream`: bulk over TCP, from → to.

use super::order::LoadOrder;
use super::tcp;
use super::work::Work;

pub(super) fn open(order: &LoadOrder, size: u64, rate: Option<u64>) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => tcp::side(order, true, tcp::receive),
        false => tcp::side(order, false, move |tcp, watch| tcp::send(tcp, watch, size, rate)),
    }
}
