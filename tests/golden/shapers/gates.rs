// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gates and frames. The arithmetic of gates is compared with a check of every instant. Entries
//! that follow each other are one window for a packet that waits, and two for a launch time. How
//! long frames are on the wire, also on a wire of another rate. And where the kernel takes
//! `rx_kernel` of packets that have launch times, and what tardy says of it.

use super::{R1, setup};
use crate::analyze::fixture;
use crate::devices;
use proptest::prelude::*;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_analyze::gates::GatePass;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::orders::random_of;
use tardy_lab::path::Ends;
use tardy_lab::plan::plan;
use tardy_lab::shaper::launching::rx_kernel_at;
use tardy_lab::shaper::{check, launching, offload_refusal, with_the_kernels_refusal};
use tardy_model::gates::{Gates, Window, windows};
use tardy_model::port::Port;
use tardy_model::qdisc::RxKernelAt;
use tardy_model::qdisc::RxKernelAt::{Arrival, LocalDelivery, PacketSocket};
use tardy_model::shaper::{Entry, Schedule, frame_time, wire_bytes};
use tardy_model::stream::Launch;
use tardy_model::time::Nanos;
use tardy_model::verdict::Level;
use tardy_spec::experiment::Setup;
use tardy_spec::{Source, load};
use tardy_sys::nic::{Feature, feature};

fn schedule(entries: &[(u32, i64)], offset: i64) -> Schedule {
    let entries: Vec<Entry> =
        entries.iter().map(|(open, length)| Entry { open: *open, length: Nanos(*length) }).collect();
    let cycle = Nanos(entries.iter().map(|entry| entry.length.0).sum());
    Schedule { entries, cycle, offset: Nanos(offset) }
}

fn window(open_ns: i64, close_ns: i64) -> Window {
    Window { open_ns, close_ns }
}

#[test]
fn entries_that_follow_each_other_are_one_window() {
    let of = |entries: &[(u32, i64)], class| windows(&schedule(entries, 0).entries, class);
    assert_eq!(of(&[(1, 10), (3, 20), (2, 30)], 0), [window(0, 30)]);
    assert_eq!(of(&[(1, 10), (3, 20), (2, 30)], 1), [window(10, 60)]);
    // Over the cycle's end.
    assert_eq!(of(&[(1, 10), (2, 20), (1, 30)], 0), [window(30, 70)]);
    assert_eq!(of(&[(1, 10), (2, 20), (1, 30)], 2), []);
    assert_eq!(of(&[(1, 10), (1, 20)], 0), [window(0, 30)]);
}

#[test]
fn an_instant_belongs_to_the_window_it_lies_in_or_to_the_next() {
    // Open from 200 to 300 and from 700 to 800 of 1000, cycles beginning at 50.
    let gates = Gates { cycle_ns: 1_000, offset_ns: 50, windows: vec![window(200, 300), window(700, 800)] };
    assert_eq!(gates.belongs(250), Some(window(250, 350)));
    assert_eq!(gates.belongs(349), Some(window(250, 350)));
    assert_eq!(gates.belongs(350), Some(window(750, 850)));
    assert_eq!(gates.belongs(900), Some(window(1_250, 1_350)));
    assert_eq!(gates.nearest(240).map(|window| window.outside_ns(240)), Some(-10));
    assert_eq!(
        gates.nearest(352).map(|window| window.outside_ns(352)),
        Some(3),
        "the closing instant is the first outside"
    );
    assert_eq!((gates.phase(1_050), gates.cycle_at(1_049)), (0, 50));
    assert_eq!(gates.next_open(340, 5), Some(340));
    assert_eq!(gates.next_open(340, 11), Some(750), "what no longer fits waits for the next window");
    assert_eq!(gates.next_open(340, 101), None);
}

#[test]
fn phases_are_those_at_which_every_packet_meets_a_window() {
    let gates = Gates { cycle_ns: 1_000, offset_ns: 0, windows: vec![window(200, 300), window(700, 800)] };
    assert_eq!(
        (gates.step(500), gates.phases(500, 0), gates.phases(500, 20)),
        (500, Some((200, 100)), Some((200, 80)))
    );
    assert_eq!(gates.phases(500, 100), None);
    assert_eq!(gates.phases(250, 0), None, "half of the packets would find the gate closed");
    assert_eq!(gates.phases(3_000, 0), Some((200, 100)), "a slow stream needs one window only");
    assert_eq!(gates.phases(300, 0), None);
    let open = Gates { cycle_ns: 1_000, offset_ns: 0, windows: vec![window(0, 1_000)] };
    assert!(open.always_open());
    assert_eq!(open.phases(300, 50), Some((0, 100)));
}

proptest! {
    #[test]
    fn whatever_the_schedule_each_answer_is_that_of_a_look_at_every_instant(
        entries in prop::collection::vec((0u32..8, 1i64..40), 1..8),
        offset in 0i64..200,
        class in 0u8..3,
        at in -500i64..500,
        every in 1i64..120,
        needs in 0i64..6,
    ) {
        let schedule = schedule(&entries, offset);
        let gates = Gates::of(&schedule, class);
        let cycle = schedule.cycle.0;
        let open = |at: i64| {
            let mut phase = (at - offset).rem_euclid(cycle);
            for (mask, length) in &entries {
                if phase < *length {
                    return mask >> class & 1 == 1;
                }
                phase -= length;
            }
            unreachable!("entries fill the cycle")
        };
        let any = (0..cycle).any(open);
        prop_assert_eq!(gates.belongs(at).is_some(), any);
        prop_assert_eq!(gates.always_open(), (0..cycle).all(open));
        if any {
            let near = gates.nearest(at).expect("a window");
            prop_assert_eq!(near.outside_ns(at) == 0, open(at));
            let farther = (0..=cycle).find(|n| open(at - n) || open(at + n)).expect("one is near");
            prop_assert_eq!(near.outside_ns(at).abs(), farther);
            if let Some(next) = gates.next_open(at, needs) {
                let fits = |from: i64| gates.always_open() || (from..from + needs.max(1)).all(open);
                prop_assert!(next >= at && fits(next));
                prop_assert!((at..next).all(|from| !fits(from)));
            }
        }
        if let Some((from, length)) = gates.phases(every, needs) {
            for phase in [from, from + length - 1] {
                for n in 0..cycle {
                    let at = offset + phase + n * every;
                    prop_assert!(open(at), "phase {} of {}: packet {}", phase, every, n);
                }
            }
        } else {
            let meets = |phase: i64| (0..cycle).all(|n| (0..=needs).all(|k| open(offset + phase + n * every + k)));
            prop_assert!(!(0..gates.step(every)).any(meets));
        }
    }
}

/// Class 1, of priority 3, is open for 100 µs of each 500: 20 in one entry, 80 in the next.
const SEAM: &str = tardy_tests::part("seam of two windows");

#[test]
fn each_entry_is_a_window_of_its_own_and_none_reaches_over_the_cycles_end() {
    let setup = setup(&SEAM.replace("\"0 400us\"", "\"1 10us\", \"0 390us\""));
    let schedule = &setup.shaper.taprio().expect("taprio").schedule;
    let window = |open_ns, close_ns| Window { open_ns, close_ns };
    let gates = Gates::by_entry(schedule, 1);
    assert_eq!(gates.windows, [window(0, 10_000), window(400_000, 420_000), window(420_000, 500_000)]);
    assert_eq!(Gates::of(schedule, 1).windows, [window(400_000, 510_000)]);
    assert_eq!((gates.cycle_ns, gates.offset_ns), (500_000, 0));
    // A frame of 12 µs does not fit into the 5 that are left of an entry, and waits for the next,
    // which follows at once.
    assert_eq!(gates.next_open(415_000, 12_000), Some(420_000));
    assert_eq!(gates.next_open(490_000, 12_000), Some(900_000), "nor into the first 10 of a cycle");
}

#[test]
fn launch_times_on_the_seam_of_two_entries_were_drawn_and_taprio_dropped_them() {
    let setup = setup(SEAM);
    let stream = &setup.streams[0];
    let frame = stream.frame_time(1_000_000_000).0;
    for trial in 1..=4_000 {
        let phase = launching::phase(&setup, stream, &mut random_of(1, "all", trial)).0;
        let at = phase % 500_000;
        // From behind the opening of one entry until the frame is out before it closes.
        let within = |open: i64, close: i64| open < at && at + frame < close;
        assert!(within(400_000, 420_000) || within(420_000, 500_000), "trial {trial}: {at}");
    }
}

#[test]
fn a_launch_time_that_taprio_gives_leaves_room_in_its_entry() {
    let assist = setup(&format!("{SEAM}mode = \"txtime-assist\"\ntxtime_delay = \"400us\"\netf.delta = \"200us\"\n"));
    let mut stream = assist.streams[0].clone();
    let gate = |stream: &_| launching::record(&assist, stream, None, None).gate.expect("a gate");
    assert_eq!(gate(&stream).entries, None, "it brings its own");
    stream.launch = tardy_model::stream::Launch::None;
    let mut record = fixture::record(1, 10).streams.remove("ctl").expect("a stream");
    record.tx_conversion.bound_ns = 0;
    let mut gate = gate(&stream);
    (gate.frame_ns, gate.tolerance_ns) = (12_000, 0);
    record.launching.gate = Some(gate);
    let pass = GatePass::new(&record).expect("it is judged");
    // Enqueued at 15, and so given a launch time from 415 on: 5 µs are left of that entry, and the
    // next one begins at 420.
    let outside = |at_ns: i64| pass.judge(15_000, Some(15_000), at_ns).expect("it is judged").outside_ns;
    assert_eq!([outside(215_000), outside(220_000), outside(220_001)], [-5_000, 0, 1]);
}

#[test]
fn launch_times_whose_frame_fits_only_into_two_entries_together_were_let_through() {
    // A frame takes 1.04 µs; PTP's frames go by class 0.
    let of = |entries: &str| {
        let stream = tardy_tests::experiment("stream from a to b");
        let gates = SEAM.replace("\"1 20us\", \"0,1 80us\"", entries);
        let text = format!("{stream}priority = 3\nlaunch = \"strict\"\ntx.advance = \"3ms\"\n[shaper]\n{gates}");
        load(&Source { name: "x.toml".into(), text }, &[]).err().map(|error| error.one_line())
    };
    assert_eq!(of("\"1 99us\", \"0,1 1us\""), None);
    let refused = of("\"none 98us\", \"1 1us\", \"0,1 1us\"").expect("refused");
    assert!(refused.contains("with room for the frame in one entry"), "{refused}");
}

fn stream(more: &str) -> Setup {
    let text = format!("{}size = \"64B\"\n{more}", tardy_tests::experiment("stream from a to b"));
    let loaded = load(&Source { name: "x.toml".into(), text }, &[]);
    loaded.unwrap_or_else(|error| panic!("{more}\n{}", error.one_line())).cells.remove(0).setup
}

#[test]
fn a_frame_is_what_is_sent_of_it_and_at_least_the_shortest() {
    // IEEE 802.3: 14 bytes before, 46 at least, 4 of check sum; 8 of preamble and 12 of gap: the
    // shortest frame takes 84.
    assert_eq!([wire_bytes(1, false), wire_bytes(46, false), wire_bytes(47, false)], [84, 84, 85]);
    assert_eq!([wire_bytes(42, true), wire_bytes(43, true)], [84, 85], "a tag takes its place");
    assert_eq!([wire_bytes(1_500, false), wire_bytes(1_500, true)], [1_538, 1_542]);
    assert_eq!(frame_time(1_500, false, 1_000_000_000), Nanos(12_304));
    assert_eq!(frame_time(1, false, 100_000_000), Nanos(6_720));
}

#[test]
fn a_stream_has_the_headers_of_its_port_and_a_tag_only_where_one_is_sent() {
    let bytes = |more: &str| stream(more).streams[0].packet_bytes();
    assert_eq!(bytes(""), 64 + 28);
    assert_eq!(bytes("ip = \"ipv6\"\n"), 64 + 48);
    assert_eq!(bytes("port = \"packet\"\n"), 64, "no IP, no UDP");
    let time = |more: &str| stream(more).streams[0].frame_time(1_000_000_000).0;
    assert_eq!(time("port = \"packet\"\n"), (14 + 64 + 24) * 8);
    assert_eq!(time("port = \"packet\"\nvlan = 5\npcp = 3\n"), (18 + 64 + 24) * 8);
}

/// Where the paths of a set-up end.
fn ends(setup: &Setup, found: &FactsByHost) -> Ends {
    plan(setup, Names::FIRST, found).expect("it can be planned").ends
}

const WIRE: &str = "priority = 3\n[path]\nkind = \"wire\"\na = \"enp1s0\"\nb = \"enp2s0\"\n";

#[test]
fn a_wire_that_is_slower_than_its_windows_were_written_for_is_refused() {
    let setup = |rate: &str| stream(&format!("{WIRE}[shaper]\n{R1}{rate}"));
    let at = |speed: Option<i64>| devices::found(|nic| nic.speed_mbit = speed);
    let refused =
        |setup: &Setup, speed| check(setup, &ends(setup, &at(speed)), &at(speed)).err().map(|error| error.to_string());
    assert_eq!(refused(&setup(""), Some(1_000)), None);
    let slow = refused(&setup(""), Some(100)).expect("refused");
    assert!(slow.contains("enp1s0 runs at 100Mbit and `shaper.port_rate` is 1Gbit"), "{slow}");
    assert!(slow.ends_with("write shaper.port_rate = \"100Mbit\""), "{slow}");
    assert_eq!(refused(&setup("port_rate = \"100Mbit\"\n"), Some(100)), None);
    assert!(refused(&setup("port_rate = \"100Mbit\"\n"), Some(2_500)).expect("refused").contains("2500Mbit"));
    // A link that is down, and a device that does not tell, are believed; so is a shaper that has
    // no use for it.
    assert_eq!(refused(&setup(""), Some(-1)), None);
    assert_eq!(refused(&setup(""), None), None);
    assert_eq!(refused(&stream(WIRE), Some(100)), None);
    // veth says 10 Gbit/s, whatever it does.
    let virtual_one = devices::found(|nic| (nic.speed_mbit, nic.kind) = (Some(10_000), Some("veth".to_owned())));
    assert_eq!(check(&setup(""), &ends(&setup(""), &virtual_one), &virtual_one), Ok(()));
}

#[test]
fn credits_are_kept_without_a_clock_and_gates_are_not() {
    let without = devices::found(|nic| {
        if let Ok(can) = &mut nic.can {
            can.phc = -1;
        }
    });
    let refused = |setup: &Setup, found: &FactsByHost| {
        offload_refusal(setup, &ends(setup, found), found).expect("its stations are there")
    };
    let gates = stream(&format!("{WIRE}[shaper]\n{R1}mode = \"offload\"\n"));
    assert!(refused(&gates, &without).expect("it says why").contains("needs a device with a PTP clock"));
    let credits = "kind = \"cbs\"\nclasses = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\ncbs.offload = true\n";
    assert_eq!(refused(&stream(&format!("{WIRE}[shaper]\n{credits}")), &without), None, "its driver is asked");
    let veth = refused(&stream(&format!("[shaper]\n{credits}")), &without).expect("it says why");
    assert!(!veth.contains("clock"), "{veth}");
}

#[test]
fn a_refused_offload_was_not_told_that_the_device_may_not_take_it() {
    let credits = "kind = \"cbs\"\nclasses = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\ncbs.offload = true\n";
    let setup = stream(&format!("{WIRE}[shaper]\n{credits}"));
    let refused = |on, switchable| {
        let found = devices::found(|nic| nic.tc_offload = Some(Feature { on, switchable }));
        with_the_kernels_refusal(&setup, &ends(&setup, &found), &found, "tc qdisc replace", "Error: not supported.")
            .expect("it is there")
    };
    let kernels = "`tc qdisc replace`: Error: not supported.";
    let mend = "; hw-tc-offload of enp1s0 is off, and its driver may ask for it: ethtool -K enp1s0 hw-tc-offload on";
    assert_eq!(refused(false, true), format!("{kernels}{mend}"), "of the device that streams leave by alone");
    // A feature that is on, or cannot be switched, is not the way to fix it.
    assert_eq!([refused(true, true), refused(false, false)], [kernels, kernels]);
    let silent = devices::found(|nic| nic.tc_offload = None);
    let says =
        with_the_kernels_refusal(&setup, &ends(&setup, &silent), &silent, "tc qdisc replace", "Error: not supported.");
    assert_eq!(says.as_deref(), Ok(kernels));
    let clockless = devices::found(|nic| {
        nic.can = Err("not asked".to_owned());
        nic.tc_offload = Some(Feature { on: false, switchable: true });
    });
    let gates = stream(&format!("{WIRE}[shaper]\n{R1}mode = \"offload\"\n"));
    let both = with_the_kernels_refusal(&gates, &ends(&gates, &clockless), &clockless, "tc", "Error: no.")
        .expect("it is there");
    assert!(both.contains("has is unknown: not asked; the kernel: Error: no.") && both.ends_with(mend), "{both}");
}

#[test]
fn features_of_a_device_are_read_as_ethtool_tells_them() {
    // The loopback has these on every kernel: `ethtool -k lo` tells on [fixed], off [fixed], and
    // one that can be switched.
    let of = |name: &str| feature("lo", name).expect("the loopback tells");
    assert_eq!(of("loopback"), Some(Feature { on: true, switchable: false }));
    assert_eq!(of("hw-tc-offload"), Some(Feature { on: false, switchable: false }));
    assert_eq!(of("rx-gro").map(|feature| feature.switchable), Some(true));
    assert_eq!(of("no such feature"), None);
    assert!(feature("no-such-device", "loopback").is_err());
}

/// Where it is taken on this kernel.
fn at(setup: &Setup, port: Port, launch: Launch, release: Option<&str>) -> Option<RxKernelAt> {
    let mut stream = setup.streams[0].clone();
    (stream.port, stream.launch) = (port, launch);
    rx_kernel_at(&setup.path, &stream, release)
}

#[test]
fn a_kernel_that_clears_launch_times_on_veth_stamps_at_arrival() {
    let veth = setup("kind = \"none\"\n");
    for old in ["6.1.0-40-amd64", "6.8.12", "5.10.0-rt", "4.19.1", "6.1.0-rt7+"] {
        for port in [Port::Udp, Port::Packet] {
            assert_eq!(at(&veth, port, Launch::Strict, Some(old)), Some(Arrival), "{old} {port:?}");
        }
    }
    for new in ["6.9.0", "6.12.57+deb13-amd64", "6.18.44", "7.0.0-rc1"] {
        assert_eq!(at(&veth, Port::Udp, Launch::Strict, Some(new)), Some(LocalDelivery), "{new}");
        assert_eq!(at(&veth, Port::Udp, Launch::Deadline, Some(new)), Some(LocalDelivery), "{new}");
        assert_eq!(at(&veth, Port::Packet, Launch::Strict, Some(new)), Some(PacketSocket), "{new}");
        assert_eq!(at(&veth, Port::Udp, Launch::None, Some(new)), Some(Arrival), "{new}");
        assert_eq!(at(&veth, Port::Sim, Launch::Strict, Some(new)), Some(Arrival), "{new}");
    }
    for unknown in [None, Some(""), Some("six"), Some("6")] {
        assert_eq!(at(&veth, Port::Udp, Launch::Strict, unknown), None, "{unknown:?}");
        assert_eq!(at(&veth, Port::Udp, Launch::None, unknown), Some(Arrival), "nothing moves it: {unknown:?}");
    }
}

#[test]
fn a_packet_socket_is_not_told_as_behind_the_protocols() {
    let packets = fixture::healthy_packets(1, 400);
    let judged = |at: Option<RxKernelAt>| {
        let mut record = fixture::record(1, 400);
        let launching = &mut record.streams.get_mut("ctl").expect("a stream").launching;
        (launching.launch, launching.rx_kernel_at) = (Launch::Strict, at);
        let mut cell =
            CellAnalysis::new("all", [].into(), [("ctl".to_owned(), vec![fixture::LEAD])].into(), Vec::new());
        cell.trial(&record, [("ctl", fixture::batch(0, &packets))]);
        let result = cell.finish().result;
        let told = result.verdicts.iter().find(|verdict| verdict.id == "moved-point");
        assert!(told.is_none_or(|told| told.level == Level::Note));
        (told.map(|told| told.says.clone()), result.streams["ctl"].rx_kernel_at.clone())
    };
    let (says, name) = judged(Some(PacketSocket));
    assert!(
        says.as_ref().is_some_and(|says| says.contains("packet socket") && says.contains("before the IP layer")),
        "{says:?}"
    );
    assert_eq!(name.as_deref(), Some("packet-socket"));
    let (says, name) = judged(Some(LocalDelivery));
    assert!(says.as_ref().is_some_and(|says| says.contains("at local delivery, behind the IP layer")), "{says:?}");
    assert_eq!(name.as_deref(), Some("local-delivery"));
    assert_eq!(judged(Some(Arrival)), (None, Some("arrival".to_owned())));
    assert_eq!(judged(None), (None, None));
}

#[test]
fn an_advice_to_give_all_streams_the_same_launch_could_not_be_followed() {
    let packets = fixture::healthy_packets(1, 400);
    let cell = |id: &str, launch: Launch, at: RxKernelAt| {
        let mut record = fixture::record(1, 400);
        let launching = &mut record.streams.get_mut("ctl").expect("a stream").launching;
        (launching.launch, launching.rx_kernel_at) = (launch, Some(at));
        let mut cell = CellAnalysis::new(id, [].into(), [("ctl".to_owned(), vec![fixture::LEAD])].into(), Vec::new());
        cell.trial(&record, [("ctl", fixture::batch(0, &packets))]);
        cell.finish()
    };
    let says = |cells: [CellAnswer; 2]| {
        let verdicts = tardy_analyze::run::run("x", cells, Vec::new()).verdicts;
        verdicts.into_iter().find(|verdict| verdict.id == "moved-point").expect("they differ").says
    };
    // All have launch times, and it is the path that decides.
    let by_path = says([cell("veth", Launch::Strict, LocalDelivery), cell("tap", Launch::Strict, Arrival)]);
    assert!(by_path.ends_with("it follows from the path, so compare metrics without it, such as scheduled..receive"));
    let by_port = says([cell("udp", Launch::Strict, LocalDelivery), cell("packet", Launch::Strict, PacketSocket)]);
    assert!(by_port.ends_with("give all streams the same launch and port"), "{by_port}");
}
