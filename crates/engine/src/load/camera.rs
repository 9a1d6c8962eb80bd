// SPDX-License-Identifier: MIT OR Apache-2.0
//! `camera`: frames at a fixed rate, each a burst of datagrams, from → to.

use super::order::LoadOrder;
use super::udp;
use super::watch::Watch;
use super::work::Work;
use tardy_model::time::Nanos;
use tardy_sys::datagrams::{Batch, Datagrams, MOST};

pub(super) fn open(order: &LoadOrder, fps: u32, frame_size: u64, packet_size: u64) -> Result<Box<dyn Work>, String> {
    let mut batch = Batch::new(packet_size as usize);
    let packets = packets(frame_size, packet_size);
    udp::side(order, packet_size, move |socket, watch| film(socket, watch, &mut batch, fps, &packets))
}

/// The lengths of a frame's datagrams: full ones and the rest.
fn packets(frame_size: u64, packet_size: u64) -> Vec<usize> {
    let full = (frame_size / packet_size) as usize;
    let rest = Some((frame_size % packet_size) as usize).filter(|rest| *rest > 0);
    std::iter::repeat_n(packet_size as usize, full).chain(rest).collect()
}

fn film(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch, fps: u32, packets: &[usize]) {
    let began = watch.now();
    let mut frame: i64 = 0;
    'frames: loop {
        let due = began + Nanos(frame * 1_000_000_000 / i64::from(fps.max(1)));
        if !watch.sleep_until(due) {
            break;
        }
        let mut rest = packets;
        while !rest.is_empty() {
            let most = rest.len().min(MOST);
            let Some(sent) = udp::send(socket, watch, batch, &rest[..most]) else { break 'frames };
            rest = &rest[sent..];
            let now = watch.now();
            if watch.over(now) {
                break 'frames;
            }
        }
        frame += 1;
    }
    watch.end();
}
