// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `xdp` where something is in its way: a device that cannot serve, strangers at it, a
//! program that the kernel refuses, a device that vanishes, and more packets than it can take.
//! Strangers and packets are those of `benches/peers/rings.c`.

use crate::command::{Place, agents, can_run_beside_others, wait};
use crate::packet::device;
use crate::peers;
use crate::xdp::{FILTER, Pair, asked, experiment, frame, ip, write};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tardy_bpf::program::{Program, ProgramError};
use tardy_bpf::user::StampClock;
use tardy_bpf::xsk::{Asked, Rings, WaitBy, XdpError};
use tardy_engine::order::{ReceiveOrder, StreamOrder};
use tardy_engine::port::ReceivePort;
use tardy_engine::port::xdp::XdpReceive;
use tardy_model::ethernet;
use tardy_model::frame::{Heads, PacketKind};
use tardy_model::port::Port;
use tardy_model::stream::{Kind, Wait};
use tardy_model::xdp::{Triggered, XdpLosses};
use tardy_sys::packet::sender;
use tardy_sys::stamps::TxStamps;
use tempfile::TempDir;

/// Compiles the C program; `None`, counted, where there is no compiler.
fn rings(test: &str, folder: &TempDir) -> Option<PathBuf> {
    let program = folder.path().join("rings");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/peers/rings.c");
    let compiled = Command::new("cc").args(["-O2", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            tardy_tests::skip(test, &format!("cc: {error}: packaging/setup.sh installs it"));
            None
        }
    }
}

fn inside(pair: &Pair, program: &Path, args: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &pair.0]).arg(program).args(args.split(' ')).stdin(Stdio::null());
    command
}

/// A program of somebody else's at a device, until this is dropped.
struct Stranger(Child);

impl Stranger {
    fn start(pair: &Pair, program: &Path, args: &str) -> Stranger {
        let mut child = inside(pair, program, args).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n", "`rings {args}` did not get ready");
        Stranger(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn refused(pair: &Pair, asked: &Asked<'_>) -> XdpError {
    pair.inside(|| Rings::open(asked).map(|_| ()).expect_err("it is refused"))
}

#[test]
fn a_device_that_cannot_serve_says_why() {
    if !can_run_beside_others("a_device_that_cannot_serve_says_why") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let refused = |asked: &Asked<'_>| Rings::open(asked).map(|_| ()).expect_err("it is refused");
        let gone = refused(&asked("nowhere"));
        assert!(matches!(gone, XdpError::Device(..)), "{gone}");
        let none = refused(&Asked { queue: Some(2), ..asked("far") });
        assert!(matches!(none, XdpError::NoQueue { queue: 2, queues: 2, .. }), "{none}");
        let large = refused(&Asked { frames: 1 << 30, ..asked("far") });
        assert!(matches!(large, XdpError::TooLarge { bytes, .. } if bytes == 2 << 42), "{large}");
        assert!(large.to_string().contains("need 8796093022208 bytes of memory for 2 queues"), "{large}");

        let (rings, _) = Rings::open(&asked("far")).expect("sockets");
        let there = refused(&asked("far"));
        assert!(matches!(there, XdpError::Attached { .. }), "{there}");
        assert!(there.to_string().starts_with("another XDP program is attached to far: take it off"), "{there}");
        drop(rings);
        // The program's link went with the sockets.
        let (rings, _) = Rings::open(&Asked { queue: Some(1), ..asked("far") }).expect("one queue");
        drop(rings);
    });
    assert!(!ip(&format!("-n {} -d link", pair.0)).contains("xdp"), "no program is left");
}

#[test]
fn a_queue_that_has_a_strangers_socket_is_named() {
    let test = "a_queue_that_has_a_strangers_socket_is_named";
    let folder = TempDir::with_prefix("tardy-test-").expect("a temporary folder");
    let Some(program) = can_run_beside_others(test).then(|| rings(test, &folder)).flatten() else { return };
    let pair = Pair::new();
    let stranger = Stranger::start(&pair, &program, "hold far 1");
    let why = refused(&pair, &asked("far"));
    assert!(matches!(why, XdpError::Bound { queue: 1, .. }), "{why}");
    assert_eq!(
        why.to_string(),
        "queue 1 of far has an AF_XDP socket of another program: end that program, then run again"
    );
    assert!(!ip(&format!("-n {} -d link", pair.0)).contains("prog/xdp"), "what was attached by then is off again");
    // The other queue is free, and so is this one some moments after the stranger has gone.
    pair.inside(|| drop(Rings::open(&Asked { queue: Some(0), ..asked("far") }).expect("the other queue")));
    drop(stranger);
    pair.inside(|| drop(Rings::open(&asked("far")).expect("both queues")));
}

#[test]
fn a_device_with_a_strangers_program_says_so_by_its_mode() {
    let test = "a_device_with_a_strangers_program_says_so_by_its_mode";
    let folder = TempDir::with_prefix("tardy-test-").expect("a temporary folder");
    let Some(program) = can_run_beside_others(test).then(|| rings(test, &folder)).flatten() else { return };
    let pair = Pair::new();
    let order = |wait| order("far", wait);
    for (mode, says) in [
        ("native", "another XDP program is attached to far: take it off (`ip link set dev far xdp off`)"),
        ("generic", "far has an XDP program in another mode, and the kernel runs programs of one mode only"),
    ] {
        let stranger = Stranger::start(&pair, &program, &format!("attach far {mode}"));
        let why = refused(&pair, &asked("far"));
        assert!(
            matches!((mode, &why), ("native", XdpError::Attached { .. }) | ("generic", XdpError::OtherMode { .. })),
            "{mode}: {why}"
        );
        assert!(why.to_string().starts_with(says), "{mode}: {why}");
        // As an agent's coordinator gets it: what was tried, on what, why, what to do.
        let whole = pair.inside(|| XdpReceive::open(&order(Wait::Poll)).map(|_| ()).expect_err("refused").to_string());
        assert!(whole.starts_with(&format!("opening port xdp on far: {says}")), "{whole}");
        assert!(
            ip(&format!("-n {} -d link show dev far", pair.0)).contains("prog/xdp"),
            "the stranger's is left alone"
        );
        drop(stranger);
        let free = wait(Duration::from_secs(5), || {
            (!ip(&format!("-n {} -d link show dev far", pair.0)).contains("prog/xdp")).then_some(())
        });
        assert!(free.is_some(), "the stranger's program went with it");
    }
}

/// An object with tardy's maps and settings, whose program reads behind what it has checked.
const REFUSED: &str = "
struct xdp_md { unsigned data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
struct settings { unsigned char bytes[16]; };
const volatile struct settings settings = {};
struct rx_time { unsigned long long time; unsigned cpu, queue, btf_id; } rx_time;
struct mark { unsigned long long time; unsigned cpu, queue, seq, btf_id; } mark;
struct {
    int (*type)[17];
    int (*max_entries)[64];
    unsigned *key, *value;
} xsks_map __attribute__((section(\".maps\"), used));
char LICENSE[] __attribute__((section(\"license\"), used)) = \"Dual BSD/GPL\";
__attribute__((section(\"xdp\"), used)) int tardy_rx(struct xdp_md *ctx)
{
    const unsigned char *data = (void *)(long)ctx->data;
    return data[100] & settings.bytes[0];
}
";

#[test]
fn a_program_that_the_verifier_refuses_shows_the_end_of_its_log() {
    let test = "a_program_that_the_verifier_refuses_shows_the_end_of_its_log";
    if !can_run_beside_others(test) {
        return;
    }
    let folder = TempDir::with_prefix("tardy-test-").expect("a temporary folder");
    let [source, object] = ["refused.bpf.c", "refused.bpf.o"].map(|name| folder.path().join(name));
    std::fs::write(&source, REFUSED).expect("a file");
    let mut clang = Command::new("clang");
    let compiled = clang.args(["-target", "bpf", "-O2", "-g", "-c"]).arg(&source).arg("-o").arg(&object).output();
    match compiled {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return tardy_tests::skip(test, &format!("clang: {error}: packaging/setup.sh installs it")),
    }
    let bytes = std::fs::read(&object).expect("the object");
    let Err(why) = Program::of_object(&bytes, FILTER, 1, StampClock::Monotonic) else {
        panic!("the verifier takes a program that reads behind the packet")
    };
    let ProgramError::Verifier { log } = &why else { panic!("{why}") };
    assert!(log.contains("invalid access to packet, off=100 size=1"), "{log}");
    assert!(log.lines().count() <= 12, "only the last lines: {log}");
    assert!(why.to_string().contains(log.as_str()), "{why}");
}

/// The order to receive at this device through port `xdp`.
fn order(device: &str, wait: Wait) -> ReceiveOrder {
    let (_, reflect) = peers::orders(0, 1_000);
    let receive = reflect.receive;
    let order = StreamOrder { port: Port::Xdp, kind: Kind::Cyclic, ..receive.order };
    ReceiveOrder { order, device: device.to_owned(), wait, ..receive }
}

#[test]
fn no_wait_is_endless_when_either_end_of_the_device_vanishes() {
    if !can_run_beside_others("no_wait_is_endless_when_either_end_of_the_device_vanishes") {
        return;
    }
    for wait in [Wait::Spin, Wait::Poll, Wait::Select, Wait::Epoll, Wait::Busypoll, Wait::Scheduled] {
        for end in ["near", "far"] {
            let pair = Pair::new();
            pair.inside(|| {
                let mut of = order("far", wait);
                if wait == Wait::Scheduled {
                    of.order.triggered = Triggered { sync: 64, bulk: 8 };
                }
                let mut port = XdpReceive::open(&of).expect("sockets");
                port.receive(true).expect("the device is there");
                ip(&format!("-n {} link del {end}", pair.0));
                let began = Instant::now();
                let errno = loop {
                    match port.receive(true) {
                        Err(errno) => break errno,
                        Ok(_) => assert!(began.elapsed() < Duration::from_secs(10), "{wait:?}, {end}: it goes on"),
                    }
                };
                assert_eq!(errno, libc::ENETDOWN, "{wait:?}, {end}");
            });
        }
    }
}

#[test]
fn a_run_whose_device_vanishes_ends_and_says_so_whoever_waits_how() {
    if !can_run_beside_others("a_run_whose_device_vanishes_ends_and_says_so_whoever_waits_how") {
        return;
    }
    for (wait, station) in [("spin", "a"), ("spin", "b"), ("poll", "a")] {
        let place = Place::new();
        let text = experiment().replace("count = 600", "count = 20000").replace("trials = 2", "trials = 1");
        let file = write(&place, &text.replace("\"poll\"", &format!("{wait:?}")));
        let child = place.start(place.run(&[]).arg(file));
        let netns = place.netns(station);
        place.wait_for("trial");
        std::thread::sleep(Duration::from_millis(500));
        ip(&format!("-n {netns} link del dev {}", device(&netns)));
        let began = Instant::now();
        let run = place.finish(child);
        let all = run.stdout.clone() + &run.stderr;
        assert!(matches!(run.code, Some(3 | 4)), "{wait}, {station}: {:?} {all}", run.code);
        assert!(began.elapsed() < Duration::from_secs(30), "{wait}, {station}: it took {:?}", began.elapsed());
        let words = all.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("the network is down") || words.contains("is gone"), "{wait}, {station}: {all}");
        assert_eq!(agents(&place), [0u32; 0], "{wait}, {station}");
    }
}

/// What follows `name` in what the C program says.
fn figure(text: &str, name: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in: {text}"))
}

/// Has the device's NAPI thread share this CPU.
fn threaded(pair: &Pair, device: &str, cpu: u32) {
    let on = inside(pair, Path::new("sh"), "-c").arg(format!("echo 1 > /sys/class/net/{device}/threaded")).output();
    let on = on.expect("sh is there");
    assert!(on.status.success(), "{}", String::from_utf8_lossy(&on.stderr));
    let is_its = |comm: &str| comm.starts_with(&format!("napi/{device}-"));
    let threads = tardy_sys::proc::processes()
        .into_iter()
        .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| is_its(&comm)));
    let pids: Vec<u32> = threads.collect();
    assert!(!pids.is_empty(), "{device} has no NAPI thread");
    for pid in pids {
        let pinned = Command::new("taskset").args(["-pc", &cpu.to_string(), &pid.to_string()]).output();
        assert!(pinned.is_ok_and(|output| output.status.success()), "the NAPI thread can be moved");
    }
}

#[test]
fn each_packet_that_is_lost_before_a_socket_or_at_it_is_counted_once() {
    let test = "each_packet_that_is_lost_before_a_socket_or_at_it_is_counted_once";
    let folder = TempDir::with_prefix("tardy-test-").expect("a temporary folder");
    let Some(program) = can_run_beside_others(test).then(|| rings(test, &folder)).flatten() else { return };
    // 200 000 packets, for which two queues have 128 frames. A NAPI thread that shares the
    // generator's CPU leaves the veth's ring of 256 full. Then packets are lost before the program
    // too.
    for in_thread in [false, true] {
        let pair = Pair::new();
        let (made, came, losses) = pair.inside(|| {
            let (mut rings, _) = Rings::open(&asked("far")).expect("sockets");
            if in_thread {
                threaded(&pair, "far", 0);
            }
            let generate = format!("generate near 0 200000 256 {} {} 64", FILTER.nonce, FILTER.stream);
            let output = inside(&pair, &program, &generate).output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let made = (figure(&text, "generated"), figure(&text, "xdp_xmit_errors"));
            let heads = Heads::new(PacketKind::Test, FILTER.stream, 64, FILTER.nonce);
            let (mut came, mut last) = (0, None);
            // Nobody has looked while packets came. What is on its way yet comes within a moment.
            wait(Duration::from_secs(5), || {
                let packets = rings.take(64);
                for n in 0..packets {
                    let frame = rings.packet(n);
                    let (start, _) = ethernet::open(frame, None, FILTER.ethertype).expect("a test frame");
                    let seq = heads.number(&frame[start..]).expect("one of the stream");
                    assert!(last.is_none_or(|last| last < seq), "{seq} came after {last:?}");
                    assert!(rings.stamp(n).is_some(), "{seq} has no stamp");
                    last = Some(seq);
                }
                came += packets as u64;
                (packets == 0 && made.0 <= came + made.1 + rings.losses().packets()).then_some(())
            });
            (made, came, rings.losses())
        });
        let ((generated, xmit_errors), XdpLosses { rx_dropped, rx_ring_full, fill_ring_empty, .. }) = (made, losses);
        let parts = format!("{generated} = {came} + {xmit_errors} + {rx_ring_full} + {rx_dropped}");
        assert_eq!(generated, came + xmit_errors + rx_ring_full + rx_dropped, "{parts}");
        assert!(generated >= 200_000 && rx_dropped > 0 && fill_ring_empty <= rx_dropped, "{parts}");
        assert!(!in_thread || xmit_errors > 0, "{parts}");
    }
}

/// Huge pages that the machine keeps ready for this test, and gives up again.
struct HugePages(String);

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn more(count: u64) -> HugePages {
        let was = std::fs::read_to_string(HUGE_PAGES).expect("the setting").trim().to_owned();
        let more = was.parse::<u64>().expect("a number") + count;
        std::fs::write(HUGE_PAGES, more.to_string()).expect("root may");
        HugePages(was)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, &self.0);
    }
}

#[test]
fn memory_of_huge_pages_was_never_tried() {
    if !can_run_beside_others("memory_of_huge_pages_was_never_tried") {
        return;
    }
    let pair = Pair::new();
    // 2 MiB for each of two queues, and packets that go around both memories more than once.
    let _pages = HugePages::more(16);
    pair.inside(|| {
        let (mut rings, opened) = Rings::open(&Asked { frames: 512, ..asked("far") }).expect("sockets");
        assert_eq!((opened.small_pages, opened.umem_bytes), (None, 4 << 20));
        let mut socket = sender("near", 0, TxStamps::default(), 1 << 20, None).expect("a socket");
        let mut waiter = rings.waiter(WaitBy::Poll).expect("it can be waited");
        for seq in 0..1_200 {
            socket.send(&frame(FILTER.stream, FILTER.nonce, None, seq), 0, None).expect("it is sent");
            let came = wait(Duration::from_secs(2), || (waiter.wait(50) && rings.take(8) == 1).then_some(()));
            came.unwrap_or_else(|| panic!("packet {seq} did not come: {:?}", rings.losses()));
            assert!(rings.packet(0).len() >= 64 && rings.stamp(0).is_some(), "{seq}");
        }
    });
}
