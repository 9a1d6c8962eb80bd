// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries that follow each other are one window for who waits, and two for a launch time.

use super::setup;
use crate::analyze::fixture;
use tardy_analyze::gates::GatePass;
use tardy_lab::orders::random_of;
use tardy_lab::shaper::launching;
use tardy_model::gates::{Gates, Window};
use tardy_spec::{Source, load};

/// Class 1, of priority 3, is open for 100 µs of each 500: 20 in one entry, 80 in the next.
const SEAM: &str = "kind = \"taprio\"\nclasses = 2\nmap = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n\
entries = [\"0 400us\", \"1 20us\", \"0,1 80us\"]\n";

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
        let text = format!(
            "[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\npriority = 3\nlaunch = \"strict\"\ntx.advance = \"3ms\"\n\
             [shaper]\n{}",
            SEAM.replace("\"1 20us\", \"0,1 80us\"", entries)
        );
        load(&Source { name: "x.toml".into(), text }, &[]).err().map(|error| error.one_line())
    };
    assert_eq!(of("\"1 99us\", \"0,1 1us\""), None);
    let refused = of("\"none 98us\", \"1 1us\", \"0,1 1us\"").expect("refused");
    assert!(refused.contains("with room for the frame in one entry"), "{refused}");
}
