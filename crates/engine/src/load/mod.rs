// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background load: each kind is a file here and a line in [`open`]. A load has its own thread at
//! each side, which works from its start to its stop and leaves a record; every loop ends with the
//! stop flag or a time limit.

mod camera;
mod command;
mod cpu;
mod listeners;
mod memory;
mod order;
mod side;
mod sporadic;
mod tcp;
mod tcp_maerts;
mod tcp_rr;
mod tcp_stream;
mod udp;
mod udp_flood;
mod watch;
mod work;

pub use command::MARK;
pub use order::{LoadAt, LoadOrder};
pub use side::LoadSide;
pub use watch::Watch;
pub use work::Work;

use tardy_model::load::LoadKind;

/// Makes a side ready: sockets, memory, programs found.
fn open(order: &LoadOrder) -> Result<Box<dyn Work>, String> {
    match &order.kind {
        LoadKind::TcpStream { size, rate } => tcp_stream::open(order, *size, *rate),
        LoadKind::TcpMaerts { size } => tcp_maerts::open(order, *size),
        LoadKind::TcpRr { size, reply_size } => tcp_rr::open(order, *size, *reply_size),
        LoadKind::UdpFlood { size, rate } => udp_flood::open(order, *size, *rate),
        LoadKind::Camera { fps, frame_size, packet_size } => camera::open(order, *fps, *frame_size, *packet_size),
        LoadKind::Sporadic { size, burst, gap } => sporadic::open(order, *size, *burst, *gap),
        LoadKind::Cpu { duty, period } => cpu::open(*duty, *period),
        LoadKind::Memory { working_set } => memory::open(*working_set),
        LoadKind::Command { command, peer_command } => command::open(order, command, peer_command),
    }
}
