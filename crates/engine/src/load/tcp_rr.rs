// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp_rr`: request and response over TCP, one in flight.

use super::order::LoadOrder;
use super::tcp;
use super::watch::Watch;
use super::work::Work;
use tardy_sys::tcp::Tcp;

pub(super) fn open(order: &LoadOrder, size: u64, reply_size: u64) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => tcp::side(order, true, move |tcp, watch| answer(tcp, watch, size, reply_size)),
        false => tcp::side(order, false, move |tcp, watch| ask(tcp, watch, size, reply_size)),
    }
}

fn ask(tcp: &Tcp, watch: &mut Watch, size: u64, reply_size: u64) {
    watch.receiving();
    let _ = tcp.no_delay(true);
    let request = vec![0x5a; size as usize];
    loop {
        let now = watch.now();
        // A transaction that was begun is finished: the connection does not close in the middle of
        // the other side's answer.
        if watch.over(now) || !tcp::send_all(tcp, watch, &request) || !take(tcp, watch, reply_size) {
            break;
        }
        watch.record.transactions += 1;
    }
    tcp::hang_up(tcp, watch);
}

/// Receives exactly `bytes` bytes; false if they do not come.
fn take(tcp: &Tcp, watch: &mut Watch, mut bytes: u64) -> bool {
    let mut room = vec![0; bytes.min(64 << 10) as usize];
    while bytes > 0 {
        let most = bytes.min(room.len() as u64) as usize;
        let came = tcp.receive(&mut room[..most]);
        let now = watch.now();
        match came {
            Ok(Some(0)) => {
                watch.broke("receive: the other side ended", &std::io::ErrorKind::UnexpectedEof.into());
                return false;
            }
            Ok(Some(came)) => {
                watch.received(now, 1, came as u64);
                bytes -= came as u64;
            }
            Ok(None) => {}
            Err(error) => {
                watch.broke("receive", &error);
                return false;
            }
        }
        if bytes > 0 && watch.past_grace(now) {
            return false;
        }
    }
    true
}

fn answer(tcp: &Tcp, watch: &mut Watch, size: u64, reply_size: u64) {
    watch.receiving();
    let _ = tcp.no_delay(true);
    let reply = vec![0x5a; reply_size as usize];
    let mut room = vec![0; 64 << 10];
    let mut waiting = 0;
    loop {
        let came = tcp.receive(&mut room);
        let now = watch.now();
        match came {
            Ok(Some(0)) => break,
            Ok(Some(came)) => {
                watch.received(now, 1, came as u64);
                waiting += came as u64;
            }
            Ok(None) => {}
            Err(error) => {
                watch.broke("receive", &error);
                break;
            }
        }
        if watch.past_grace(now) {
            break;
        }
        let mut gone = false;
        while waiting >= size && !gone {
            waiting -= size;
            gone = !tcp::send_all(tcp, watch, &reply);
            watch.record.transactions += u64::from(!gone);
        }
        if gone {
            break;
        }
    }
    watch.end();
    let _ = tcp.end();
}
