// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection's receive call has no time limit, and its thread a table of descriptors of its
//! own: what ends the one, and what the other leaves to the rest of the program.

use crate::command::{Place, can_run, wait};
use std::fs;
use std::io::{Read, Seek, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tardy_sys::messages::split;
use tardy_sys::process::signal;
use tardy_sys::stamps::TxStamps;
use tardy_sys::tcp::{Buffers, Tcp};
use tardy_sys::thread;
use tardy_sys::udp::Heard;
use tardy_sys::wait::poke;

const SIZE: usize = 64;

/// Pokes until the thread tells what its call returned.
fn poke_until<T>(told: &Receiver<T>, tid: u32) -> T {
    for _ in 0..5_000 {
        poke(tid);
        if let Ok(got) = told.recv_timeout(Duration::from_millis(1)) {
            return got;
        }
    }
    panic!("five thousand pokes do not end a receive call");
}

#[test]
fn a_poke_ends_a_receive_call_without_a_limit_and_no_byte_is_lost_by_it() {
    let far = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = far.local_addr().expect("an address");
    let tcp = Tcp::connect(None, at, Buffers::default(), Duration::from_secs(5)).expect("a connection");
    let (mut far, _) = far.accept().expect("the other end");
    let none = TxStamps { sched: false, software: false, hardware: false };
    let (_to, mut from) = split(tcp, SIZE, none, false, 1 << 20).expect("both halves");
    let (tell, told) = mpsc::channel();
    let (name, tid) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        name.send(thread::id()).expect("the test waits");
        let (mut bytes, mut heard) = ([0; SIZE + 1], Heard::default());
        loop {
            let got = from.receive(&mut bytes, &mut heard, true);
            tell.send(got).expect("the test waits");
            if got == Ok(true) {
                return bytes[..heard.length].to_vec();
            }
        }
    });
    let tid = tid.recv().expect("a thread");
    assert_eq!(poke_until(&told, tid), Err(libc::EINTR), "nothing came");
    let message: Vec<u8> = (0..SIZE as u8).collect();
    far.write_all(&message[..20]).expect("a part");
    // A poke that was under way may be told once more before the part.
    let part = std::iter::repeat_with(|| poke_until(&told, tid)).find(|got| *got != Err(libc::EINTR));
    assert_eq!(part, Some(Ok(false)), "a part is no message");
    far.write_all(&message[20..]).expect("the rest");
    // A poke that was under way may be told once more before the whole message.
    let last = told.iter().find(|got| *got != Err(libc::EINTR));
    assert_eq!(last, Some(Ok(true)));
    assert_eq!(thread.join().expect("the thread"), message);
    // It has ended: poking it is no fault.
    poke(tid);
}

#[test]
fn a_thread_with_descriptors_of_its_own_has_none_of_the_others_and_takes_none_from_them() {
    let path = std::env::temp_dir().join(format!("tardy-own-{}", std::process::id()));
    let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).expect("a file");
    fs::remove_file(&path).expect("it lives as long as it is open");
    file.write_all(b"still here").expect("room");
    let left = std::thread::spawn(|| {
        thread::own_descriptors().expect("a table of its own");
        let open = fs::read_dir("/proc/thread-self/fd").expect("the thread's own");
        let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        numbers.filter(|number| *number > 2).count()
    });
    // The folder that it reads.
    assert_eq!(left.join().expect("the thread"), 1);
    let mut text = String::new();
    file.rewind().expect("still open");
    file.read_to_string(&mut text).expect("still open");
    assert_eq!(text, "still here");
}

/// How often the thread that asks has waited: once a request.
fn asked(agent: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{agent}/task")).into_iter().flatten().flatten();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let asks = statuses.filter(|status| status.starts_with("Name:\ttardy-tx"));
    let waits = |status: String| {
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    asks.filter_map(waits).sum()
}

#[test]
fn a_signal_in_the_middle_of_a_round_trip_over_tcp_makes_no_loss() {
    if !can_run("a_signal_in_the_middle_of_a_round_trip_over_tcp_makes_no_loss") {
        return;
    }
    let text = "name = \"tcp\"\ntrials = 1\n[station.a]\n[station.b]\n[stream.ctl]\nkind = \"pingpong\"\nport = \"tcp\"\nfrom = \"a\"\n\
                to = \"b\"\ncount = 4_000_000\nstamps = [\"send\", \"reply_receive\"]\n";
    // Each signal comes at another moment of a round trip.
    for n in 0..4 {
        let place = Place::new();
        let file = place.path("tcp.toml");
        fs::write(&file, text).expect("a file");
        let child = place.start(place.run(&[]).arg(&file));
        place.wait_for("trial");
        let asker = place.agent("a");
        let under_way = || (asked(asker) > 3_000).then_some(());
        wait(Duration::from_secs(30), under_way).expect("three thousand requests within 30 s");
        signal(child.id(), libc::SIGINT).expect("the signal is sent");
        let run = place.finish(child);
        assert_eq!(run.code, Some(130), "{}{}", run.stdout, run.stderr);
        let outcomes = &run.cell()["streams"]["ctl"]["outcomes"];
        assert!(outcomes["received"].as_u64() > Some(1_000), "{n}: {outcomes}");
        assert!(outcomes["lost"] == 0 && outcomes["not_sent"] == 0, "{n}: {outcomes}");
    }
}
