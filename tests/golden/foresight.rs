// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tardy says before a run begins and while it measures. The machine is an argument of the
//! former: nothing depends on the machine that runs the test. And what it says of a socket that the
//! kernel refuses.

use std::collections::BTreeSet;
use tardy_engine::agent::advice;
use tardy_judge::foresight::{Machine, foresee, unresolved};
use tardy_lab::estimate::estimate;
use tardy_model::copy::Sizes;
use tardy_model::machine::RtLimit;
use tardy_model::point::Metric;
use tardy_model::stream::{Side, live_end};
use tardy_spec::experiment::Experiment;
use tardy_spec::{READY_MADE, Source, load, ready_made};

const HEAD: &str = tardy_tests::part("stream from a to b");

fn experiment(body: &str) -> Experiment {
    let source = Source { name: "x.toml".into(), text: format!("{HEAD}{body}") };
    load(&source, &[]).unwrap_or_else(|error| panic!("{:?}", error.lines()))
}

fn machine(runtime_ms: Option<i64>, release: &str) -> Machine {
    let limit = |ms: i64| RtLimit { period_ns: 1_000_000_000, runtime_ns: ms * 1_000_000 };
    Machine { rt_limit: runtime_ms.map(limit), release: Some(release.to_owned()), ..Machine::default() }
}

/// A kernel with the default limit, from before the fair server.
fn usual() -> Machine {
    machine(Some(950), "6.1.0-28-amd64")
}

fn reported(body: &str, machine: &Machine) -> Vec<String> {
    foresee(&experiment(body), machine).iter().map(ToString::to_string).collect()
}

#[test]
fn a_spinning_af_xdp_receiver_was_advised_to_wait_as_no_such_receiver_can() {
    let spin = "duration = \"5s\"\nport = \"packet\"\ntx.policy = \"fifo:90\"\nrx = { port = \"xdp\", wait = \"spin\", policy = \"fifo:80\" }\n";
    let said = reported(spin, &usual());
    let [one] = &said[..] else { panic!("{said:?}") };
    assert!(one.contains("(write rx.wait = \"poll\", or rx.policy = \"other\", or lift"), "{one}");
    assert_eq!(reported(&spin.replace("\"spin\"", "\"poll\""), &usual()), Vec::<String>::new());
    // Replies have a thread of their own, with a policy of its own.
    let reply = "duration = \"5s\"\nreflect = true\ntx.wait = \"spin\"\nreply.policy = \"fifo:80\"\n";
    let said = reported(reply, &usual());
    let [one] = &said[..] else { panic!("{said:?}") };
    assert!(one.contains("(write tx.wait = \"block\", or reply.policy = \"other\", or lift"), "{one}");
}

#[test]
fn a_wait_that_polls_a_device_which_is_none_was_found_out_by_the_run() {
    let udp = "rx.wait = \"busypoll\"\n";
    let said = reported(udp, &usual());
    let says = "warning: `stream.ctl.rx.wait`: packets of a veth come without a NAPI context, so there is no device to poll, and \
                the run refuses the cell (write path.napi = true, or rx.wait = \"block\")";
    assert_eq!(said, [says]);
    let asked = "kind = \"pingpong\"\nrx.wait = \"block\"\ntx.wait = \"busypoll\"\n";
    assert!(reported(asked, &usual())[0].starts_with("warning: `stream.ctl.tx.wait`: packets"));
    let xdp = "port = \"packet\"\nrx.port = \"xdp\"\nrx.wait = \"busypoll\"\n";
    let new = machine(Some(950), "6.13.0");
    let said = reported(xdp, &new);
    let [one] = &said[..] else { panic!("{said:?}") };
    assert!(one.contains("this kernel, 6.13.0, gives packets of a veth to AF_XDP without a NAPI context"), "{one}");
    assert!(one.ends_with("(write rx.wait = \"poll\", or \"spin\")"), "{one}");
    let quiet = |body: &str, machine: &Machine| assert_eq!(reported(body, machine), Vec::<String>::new(), "{body}");
    quiet(xdp, &machine(Some(950), "6.12.9"));
    let said = reported(&format!("{xdp}rx.core = \"remote\"\n"), &machine(Some(950), "6.12.9"));
    let [one] = &said[..] else { panic!("{said:?}") };
    assert!(one.starts_with("warning: `stream.ctl.rx.core`: a receiver with rx.wait = \"busypoll\" polls"), "{one}");
    assert!(one.ends_with("(write rx.core = \"same\", or another wait)"), "{one}");
    quiet(&format!("{udp}[path]\nnapi = true\n"), &new);
    quiet("rx.wait = \"spin\"\n", &new);
    quiet(&format!("port = \"sim\"\n{udp}"), &new);
}

#[test]
fn figures_of_a_thread_that_polls_a_device_were_of_the_devices_interrupts_too() {
    let wire = "[path]\nkind = \"wire\"\na = \"x0\"\nb = \"x1\"\n";
    let interrupting = Machine { interrupting: ["x1".to_owned(), "x7".to_owned()].into(), ..usual() };
    let said = reported(&format!("rx.wait = \"busypoll\"\n{wire}"), &interrupting);
    let says = "warning: `stream.ctl.rx.wait`: interrupts of x1 deliver packets next to the thread that polls it, for its \
                napi_defer_hard_irqs or gro_flush_timeout is 0 (echo 2 >/sys/class/net/x1/napi_defer_hard_irqs; echo \
                200000 >/sys/class/net/x1/gro_flush_timeout)";
    assert_eq!(said, [says]);
    let asked = "kind = \"pingpong\"\ntx.wait = \"busypoll\"\n";
    // The end that asks polls the other device, which does not interrupt.
    assert_eq!(reported(&format!("{asked}{wire}"), &interrupting), Vec::<String>::new());
    let both = Machine { interrupting: ["x0".to_owned(), "x1".to_owned()].into(), ..usual() };
    let said = reported(&format!("{asked}rx.wait = \"busypoll\"\n{wire}"), &both);
    let [rx, tx] = &said[..] else { panic!("{said:?}") };
    assert!(rx.starts_with("warning: `stream.ctl.rx.wait`: interrupts of x1 "), "{rx}");
    assert!(tx.starts_with("warning: `stream.ctl.tx.wait`: interrupts of x0 "), "{tx}");
    assert_eq!(reported(wire, &interrupting), Vec::<String>::new(), "it does not poll");
    assert_eq!(reported(&format!("rx.wait = \"busypoll\"\n{wire}"), &usual()), Vec::<String>::new());
}

#[test]
fn an_exact_run_had_too_few_trials_to_be_compared_and_only_compare_reported_it() {
    let exact = Machine { is_exact: true, ..usual() };
    let said = reported("", &exact);
    let says = "note: `trials`: `tardy compare` claims nothing about two exact runs of 5 trials: it needs 20 \
                phases, and a trial is one (write --trials 20 if the run is to be compared)";
    assert_eq!(said, [says]);
    let source = Source { name: "x.toml".into(), text: format!("trials = 20\n{HEAD}") };
    assert_eq!(foresee(&load(&source, &[]).expect("it loads"), &exact), []);
    assert_eq!(reported("", &usual()), Vec::<String>::new());
}

#[test]
fn advice_about_sudo_was_the_same_for_root() {
    use tardy_sys::process::{be_root, not_be_root};
    assert!(be_root(false).contains("sudo") && !be_root(true).contains("sudo"));
    assert!(not_be_root(true).contains("sudo") && !not_be_root(false).contains("sudo"));
    assert!(!advice(libc::EPERM).contains("sudo"), "an agent is root already");
}

#[test]
fn a_thread_that_spins_beyond_the_limit_was_found_out_after_the_run() {
    let spin = "duration = \"5s\"\ntx.policy = \"fifo:90\"\nrx = { wait = \"spin\", policy = \"fifo:80\" }\n";
    let said = reported(spin, &usual());
    assert_eq!(
        said,
        [
            "warning: `stream.ctl.rx.wait`: ctl.rx, which spins as fifo:80, would be stopped for 50ms of each 1s: realtime threads may run 950ms of \
          it (sched_rt_runtime_us), and the rule rt-bandwidth makes every trial not valid (write rx.wait = \"block\", or rx.policy = \"other\", or \
          lift the limit: sysctl kernel.sched_rt_runtime_us=-1)"
        ]
    );
    // Each cause by itself makes the warning, and without it there is none.
    let quiet =
        |body: &str, machine: &Machine| assert_eq!(reported(body, machine), Vec::<String>::new(), "{body} {machine:?}");
    quiet(spin, &machine(None, "6.1.0"));
    quiet(spin, &machine(Some(1_000), "6.1.0"));
    quiet(&spin.replace("5s", "500ms"), &usual());
    quiet(&spin.replace("fifo:80", "other"), &usual());
    quiet(&spin.replace("\"spin\"", "\"poll\""), &usual());
    quiet(&format!("port = \"sim\"\n{spin}"), &usual());
    quiet(spin, &Machine::default());
    assert_eq!(reported(&spin.replace("fifo:80", "rr:10"), &usual()).len(), 1);
    // A limit of half the time stops a sender that spins for most of each cycle.
    let sender = "duration = \"5s\"\ncycle = \"1ms\"\ntx = { spin = \"800us\", policy = \"fifo:90\" }\n";
    quiet(sender, &usual());
    let said = reported(sender, &machine(Some(500), "6.1.0"));
    assert!(
        said[0].contains("`stream.ctl.tx.spin`: ctl.tx,") && said[0].contains("write a tx.spin below 900us"),
        "{said:?}"
    );
    // How long a ping-pong lasts nobody knows.
    let asks = "kind = \"pingpong\"\ntx = { wait = \"spin\", policy = \"fifo:90\", cpu = 0 }\n";
    assert!(reported(asks, &usual())[0].contains("`stream.ctl.tx.wait`"), "{:?}", reported(asks, &usual()));
}

#[test]
fn the_fair_server_stops_a_spinner_whatever_the_limit_is() {
    let spin = "duration = \"5s\"\ntx.policy = \"fifo:90\"\nrx = { wait = \"spin\", policy = \"fifo:80\" }\n";
    for machine in [machine(None, "6.12.0"), machine(Some(950), "6.18.44-fc-v595"), machine(None, "7.0")] {
        let said = reported(spin, &machine);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("fair server") && said[0].contains("docs/how-to/isolation.md"), "{said:?}");
        assert!(said[0].contains(machine.release.as_deref().expect("given")), "{said:?}");
    }
    assert!(!reported(spin, &machine(Some(950), "6.11.9"))[0].contains("fair server"));
    assert!(!reported(spin, &machine(Some(950), "not fetched yet"))[0].contains("fair server"));
}

#[test]
fn a_cycle_that_nothing_can_tell_or_keep() {
    let said = |body: &str| reported(&format!("count = 2_000_000\n{body}"), &usual());
    let cycle = |body: &str| said(body).iter().filter(|line| line.contains("`stream.ctl.cycle`")).count();
    assert_eq!(cycle("cycle = \"500ns\"\n"), 1);
    assert!(said("cycle = \"500ns\"\n")[0].contains("docs/method/ruler.md"), "{:?}", said("cycle = \"500ns\"\n"));
    // That no machine sends so often is an assumption.
    let often = said("cycle = \"1us\"\ntx.policy = \"fifo:90\"\n");
    let [one] = &often[..] else { panic!("{often:?}") };
    assert!(
        one.starts_with("note: `stream.ctl.cycle`: a sender takes 5200ns for a packet with kernel stamps"),
        "{one}"
    );
    assert!(one.contains("docs/performance.md") && one.contains("Only a run measures it here"), "{one}");
    let bare = "cycle = \"4us\"\ntx.policy = \"fifo:90\"\nstamps = [\"receive\"]\nmetrics = [\"scheduled..receive\"]\n";
    assert_eq!(cycle(bare), 0);
    assert!(said(&bare.replace("4us", "3us"))[0].contains("3300ns for a packet without kernel stamps"));
    assert_eq!(cycle("cycle = \"6us\"\ntx.policy = \"fifo:90\"\n"), 0);
    assert_eq!(cycle("cycle = \"50us\"\n"), 1, "the timer slack of policy other");
    assert_eq!(cycle("cycle = \"51us\"\n"), 0);
    assert_eq!(cycle("cycle = \"50us\"\ntx.policy = \"fifo:90\"\n"), 0);
    assert_eq!(cycle("cycle = \"50us\"\ntx.spin = \"50us\"\n"), 0);
    assert_eq!(cycle("cycle = \"500ns\"\nport = \"sim\"\n"), 0);
}

#[test]
fn a_sender_was_expected_to_keep_a_cycle_below_what_the_timers_of_its_machine_can() {
    let said = |body: &str, machine: Machine| reported(&format!("count = 2_000_000\n{body}"), &machine);
    // The slack is this machine's, where it is known.
    let other = "cycle = \"80us\"\n";
    assert_eq!(said(other, usual()), Vec::<String>::new());
    let slow = said(other, Machine { timer_slack_ns: Some(100_000), ..usual() });
    let [one] = &slow[..] else { panic!("{slow:?}") };
    assert!(one.contains("policy other 100us late, its timer slack (as on this machine)"), "{one}");
    let quick = Machine { timer_slack_ns: Some(1), ..usual() };
    assert_eq!(said("cycle = \"50us\"\n", quick), Vec::<String>::new());
    assert!(said("cycle = \"50us\"\n", usual())[0].contains("(assumed: the kernel's default)"));
    // Without high-resolution timers no policy helps a sender that sleeps.
    let coarse = || Machine { timer_resolution_ns: Some(4_000_000), ..usual() };
    let fifo = "cycle = \"1ms\"\ntx.policy = \"fifo:90\"\n";
    let late = said(fifo, coarse());
    let [one] = &late[..] else { panic!("{late:?}") };
    assert!(
        one.starts_with("warning: `stream.ctl.cycle`: this kernel has no high-resolution timers (clock_getres: 4ms)"),
        "{one}"
    );
    assert_eq!(said(&fifo.replace("1ms", "5ms"), coarse()), Vec::<String>::new());
    assert_eq!(said(fifo, Machine { timer_resolution_ns: Some(1), ..usual() }), Vec::<String>::new());
    assert_eq!(said("cycle = \"1ms\"\ntx.spin = \"1ms\"\n", coarse()), Vec::<String>::new(), "it never sleeps");
    assert_eq!(said("cycle = \"1ms\"\nport = \"sim\"\n", coarse()), Vec::<String>::new());
    // A deadline thread has a budget.
    let spins = "cycle = \"1ms\"\ntx = { policy = \"deadline:200us/1ms/1ms\", cpu = \"any\", spin = \"500us\" }\n";
    let stopped = said(spins, usual());
    let [one] = &stopped[..] else { panic!("{stopped:?}") };
    assert!(one.contains("`stream.ctl.tx.spin`: the sender spins for 500us of each cycle of 1ms"), "{one}");
    assert!(one.contains("has run for 200us of each 1ms"), "{one}");
    assert_eq!(said(&spins.replace("500us", "100us"), usual()), Vec::<String>::new());
}

#[test]
fn percentiles_of_the_table_that_the_packets_cannot_resolve_were_found_out_after_the_run() {
    let said = |body: &str| unresolved(&experiment(body)).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        said("count = 200\n"),
        [
            "note: `stream.ctl.count`: tables and page will show p99.9, p99.99 as not resolved, of 200 packets in each of 5 trials: 10 separate \
             events must lie beyond a percentile (a count of 2_000 for p99.9, 20_000 for p99.99, or more if events come in bursts)",
            "note: `stream.ctl.count`: p99 is resolved of 200 packets in each of 5 trials only if no two late packets belong to one event: 10 packets \
             lie beyond it, and 10 separate events must (a count of 400 leaves room)"
        ]
    );
    assert_eq!(said("count = 40_000\n"), Vec::<String>::new(), "the count that leaves room is enough");
    assert!(said("count = 19_999\n")[0].contains("show p99.99 as"));
    // One line for each stream, however many cells there are and whatever metrics are asked for.
    let of_two = said(tardy_tests::experiment("few packets and many"));
    let [one, _] = &of_two[..] else { panic!("{of_two:?}") };
    assert!(one.contains("of as few as 200 packets in each of 5 trials"), "{one}");
}

#[test]
fn a_count_that_just_suffices_if_no_two_late_packets_come_together_was_enough() {
    let said = |trials: u32, count: u32| {
        let text = format!("trials = {trials}\n{HEAD}count = {count}\n");
        let experiment = load(&Source { name: "x.toml".into(), text }, &[]).expect("it loads");
        unresolved(&experiment).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        said(1, 10_000)[1],
        "note: `stream.ctl.count`: p99.9 is resolved of 10_000 packets in one trial only if no two late packets belong to one event: \
         10 packets lie beyond it, and 10 separate events must (a count of 20_000 leaves room)"
    );
    assert!(
        said(5, 2_200)[1].contains("only if no more than one late packet belongs to the event of another: 11 packets")
    );
    assert!(said(5, 20_000)[0].contains("p99.99 is resolved of 20_000 packets"), "{:?}", said(5, 20_000));
    assert!(said(5, 20_000)[0].ends_with("(a count of 40_000 leaves room)"));
    let close = |count| said(1, count).iter().filter(|line| line.contains("only if")).count();
    assert_eq!([9_999, 10_000, 19_999, 20_000].map(close), [0, 1, 1, 0]);
}

#[test]
fn a_sender_with_the_default_slack_sent_late_to_a_realtime_receiver_and_no_plan_said_so() {
    let body = "count = 40_000\nrx.policy = \"fifo:80\"\n";
    let says = "note: `stream.ctl.tx.policy`: the receiver is fifo:80 and the sender is other: the kernel may end each of its sleeps 50us \
                late, its timer slack (assumed: the kernel's default), so packets leave that late, and scheduled..wakeup shows it \
                (docs/method/schedule.md) (write stream.ctl.tx.policy = \"fifo:90\")";
    assert_eq!(reported(body, &usual()), [says]);
    for policy in ["rr:1", "deadline:1ms/2ms/2ms\"\nrx.cpu = \"any"] {
        assert_eq!(reported(&body.replace("fifo:80", policy), &usual()).len(), 1, "{policy}");
    }
    let quiet = |body: &str, machine: &Machine| assert_eq!(reported(body, machine), Vec::<String>::new(), "{body}");
    quiet(&body.replace("fifo:80", "other"), &usual());
    quiet(&format!("{body}tx.policy = \"fifo:90\"\n"), &usual());
    quiet(&format!("{body}tx.spin = \"60us\"\n"), &usual());
    quiet(&format!("{body}port = \"sim\"\n"), &usual());
    quiet(&format!("kind = \"pingpong\"\n{body}"), &usual());
    quiet(body, &Machine { timer_slack_ns: Some(1), ..usual() });
    // Where the slack makes packets of several cycles leave at once, that alone is reported.
    let often = reported(&format!("{body}cycle = \"50us\"\n"), &usual());
    assert!(often.len() == 1 && often[0].starts_with("warning: `stream.ctl.cycle`"), "{often:?}");
}

#[test]
fn a_percentile_that_the_packets_cannot_resolve_was_found_out_after_the_run() {
    let body = "count = 1_000\n[expect.ctl]\n\"scheduled..receive\" = [\"p99 < 1ms\", \"p99.9 < 2ms\", \"max < 1s\"]\nlost = 0\n";
    assert_eq!(
        reported(body, &usual()),
        [
            "warning: `expect.ctl.scheduled..receive`: p99.9 cannot be reported from 1_000 packets in each of 5 trials, so the expectation cannot be \
          met: 10 separate events must lie beyond it, for which it takes about 10_000 packets in all trials together, more if they come in \
          bursts (write stream.ctl.count = 2_000, which is per trial, or trials = 10)"
        ]
    );
    // The count that it names is enough, and so is the number of trials.
    assert_eq!(reported(&body.replace("1_000", "2_000"), &usual()), Vec::<String>::new());
    let trials = Source { name: "x.toml".into(), text: format!("trials = 10\n{HEAD}{body}") };
    assert_eq!(foresee(&load(&trials, &[]).expect("it loads"), &usual()), []);
    // Of one cell among several it says of which.
    let cells = format!("{body}[matrix]\n\"stream.ctl.count\" = [100, 1_000, 10_000]\n");
    let said = reported(&cells, &usual());
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains(", in cell count=100 (") && said[1].contains(", in cell count=1000 ("), "{said:?}");
    assert!(said[0].contains("write stream.ctl.count = 2_000, which is per trial, or trials = 100"), "{said:?}");
}

#[test]
fn few_trials_are_a_note_behind_the_warnings() {
    let text = format!(
        "trials = 2\n{HEAD}count = 100\n[expect.ctl]\n\"scheduled..receive\" = \"p50 < 1ms\"\ndelta = \"p99.99 < 1ms\"\n"
    );
    let said = foresee(&load(&Source { name: "x.toml".into(), text }, &[]).expect("it loads"), &usual());
    let said: Vec<String> = said.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("warning: `expect.ctl.delta`: p99.99 cannot be reported"), "{said:?}");
    assert_eq!(
        said[1],
        "note: `trials`: `repeats` cannot be judged from 2 of each cell: it needs 5 (write trials = 5 or more)"
    );
}

#[test]
fn the_estimate_says_what_it_assumes() {
    let of = |body: &str| estimate(&experiment(body), false, &Sizes::USUAL);
    assert_eq!(
        of("count = 10_000\ncycle = \"500us\"\n"),
        "estimate: about 28 s and 1.2 MB on disk: 1 cell × 5 trials of 5 s, 0.3 s around each, 8.7 bytes a packet"
    );
    let two = of("cycle = \"1ms\"\n[matrix]\n\"stream.ctl.count\" = [1_000, 3_600_000]\n");
    assert!(
        two.contains("2 cells × 5 trials of 1 s to 60 min") && two.starts_with("estimate: about 5 h and 158 MB"),
        "{two}"
    );
    // It said 0 s.
    let short = of("count = 2_500\ncycle = \"10us\"\n");
    assert!(short.contains("5 trials of 25 ms, 0.3 s around each"), "{short}");
    let shorter = of("count = 1\ncycle = \"10us\"\n");
    assert!(shorter.contains("5 trials of 10 µs, 0.3 s around each"), "{shorter}");
    let load = of("count = 1_000\ncycle = \"1ms\"\n[load.x]\nkind = \"cpu\"\nfrom = \"a\"\nstart = \"-1s\"\n");
    assert!(load.contains("5 trials of 2 s"), "{load}");
    let rounds = of("kind = \"pingpong\"\ncount = 20_000\n");
    assert!(
        rounds.contains("of 3.5 s, 0.3 s around each, 50 µs a round trip, 2.5 that are not measured for each"),
        "{rounds}"
    );
    // Without stamps that come back there are no pauses.
    let plain = of("kind = \"pingpong\"\ncount = 20_000\nstamps = [\"send\", \"reply_receive\"]\n");
    assert!(plain.contains("of 1 s, 0.3 s around each, 50 µs a round trip, 8.7"), "{plain}");
    assert!(of("port = \"sim\"\n").contains("about seconds and") && of("port = \"sim\"\n").contains("simulated"));
    assert!(estimate(&experiment(""), true, &Sizes::USUAL).contains("by the guest's own clock"));
}

#[test]
fn nothing_was_said_of_how_long_copies_take_and_how_much_memory() {
    let of = |keys: &[&str]| {
        let sets: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let experiment = load(&ready_made("copy").expect("listed"), &sets).expect("it loads");
        estimate(&experiment, false, &Sizes::USUAL)
    };
    // 64 MiB on each side, twice the last cache, and a huge page for each.
    assert_eq!(
        of(&[]),
        "estimate: about 2.8 s, 139 MB of memory and 0.8 MB on disk: 1 cell × 5 trials of 39 ms, all threads together 5 GB/s and \
         each trial no longer than copy.longest, 0.3 s around each, memory mapped at 2 GB/s, 4 bytes a pass"
    );
    let long = of(&["copy.bytes=1GiB", "copy.longest=10s"]);
    assert!(long.contains("103 GB of memory") && long.contains("5 trials of 10 s"), "{long}");
    let drawn = of(&["copy.backend=sim"]);
    assert!(drawn.starts_with("estimate: about seconds, 0.2 MB of memory and 0.8 MB on disk"), "{drawn}");
}

#[test]
fn nothing_is_foreseen_of_the_ready_made_experiments_but_what_is_so() {
    for (name, _) in READY_MADE {
        let experiment = load(&ready_made(name).expect("listed"), &[]).expect("it loads");
        let said: Vec<String> = foresee(&experiment, &usual()).iter().map(ToString::to_string).collect();
        assert!(said.iter().all(|line| line.contains("wait")), "{name}: {said:#?}");
        assert!(estimate(&experiment, false, &Sizes::USUAL).starts_with("estimate: about "), "{name}");
    }
}

#[test]
fn warnings_of_thousands_of_cells_were_each_compared_with_all_others() {
    let counts: Vec<String> = (100..400).map(|count| count.to_string()).collect();
    let body = format!(
        "[expect.ctl]\n\"scheduled..receive\" = \"p99.9 < 1ms\"\n[matrix]\n\"stream.ctl.count\" = [{}]\n",
        counts.join(", ")
    );
    let reported = reported(&body, &usual());
    assert_eq!(reported.len(), 51, "{:?}", reported.last());
    assert!(reported[50].contains("250 more warnings, of other cells, are not listed"), "{}", reported[50]);
}

/// The stream of an experiment, and what leads of it.
fn leads(body: &str) -> (Option<Side>, String) {
    let experiment = experiment(body);
    let stream = &experiment.cells[0].setup.streams[0];
    let metric = stream.leading().expect("one can be measured");
    (live_end(stream.kind, metric), metric.to_string())
}

#[test]
fn the_progress_line_showed_another_metric_than_the_one_that_leads_in_the_table() {
    let (rx, reply, tx) = (Some(Side::Rx), Some(Side::Reply), Some(Side::Tx));
    for (body, end, metric) in [
        ("", rx, "scheduled..rx_kernel"),
        ("metrics = [\"scheduled..receive\"]\nstamps = [\"receive\"]\n", rx, "scheduled..receive"),
        ("port = \"packet\"\nrx = { port = \"xdp\", wait = \"poll\" }\n", rx, "scheduled..rx_xdp"),
        ("reflect = true\n", reply, "scheduled..reply_receive"),
        ("kind = \"pingpong\"\n", tx, "send..reply_receive"),
    ] {
        assert_eq!(leads(body), (end, metric.to_owned()), "{body}");
    }
}

#[test]
fn the_progress_line_showed_the_usual_metric_where_no_end_could_compute_what_leads() {
    // `delta` is no latency: a file cannot have it lead.
    for metric in Metric::DEFAULT.iter().filter(|metric| **metric != Metric::Delta).map(ToString::to_string) {
        let (end, leading) = leads(&format!("lead = \"{metric}\"\n"));
        assert_eq!(leading, metric);
        // The line then has its figures from the latest trial.
        assert_eq!(end.is_some(), metric == "scheduled..rx_kernel", "{metric}");
    }
    assert_eq!(leads("metrics = [\"delta\"]\n"), (None, "delta".to_owned()));
    assert_eq!(leads("lead = \"scheduled..receive\"\n"), (Some(Side::Rx), "scheduled..receive".to_owned()));
    let limit = "[expect.ctl]\n\"rx_kernel..receive\" = \"p50 < 1ms\"\n";
    assert_eq!(leads(limit), (None, "rx_kernel..receive".to_owned()));
}

#[test]
fn headline_page_progress_line_and_repeats_follow_one_rule() {
    let of = |names: &[&str]| names.iter().map(|name| name.parse().expect("a metric")).collect::<Vec<Metric>>();
    let leading = |named: Option<&str>, answered, available: &[&str]| {
        let named = named.map(|name| name.parse().expect("a metric"));
        Metric::leading(named, answered, &of(available)).map(|metric| metric.to_string())
    };
    let usual = ["delta", "rx_kernel..receive", "scheduled..rx_kernel", "scheduled..wakeup"];
    assert_eq!(leading(None, false, &usual).as_deref(), Some("scheduled..rx_kernel"));
    assert_eq!(leading(Some("delta"), false, &usual).as_deref(), Some("delta"));
    assert_eq!(leading(Some("scheduled..receive"), false, &usual).as_deref(), Some("scheduled..rx_kernel"));
    assert_eq!(leading(None, false, &["delta", "rx_kernel..receive"]).as_deref(), Some("rx_kernel..receive"));
    assert_eq!(leading(None, true, &["transit", "send..reply_receive"]).as_deref(), Some("send..reply_receive"));
    assert_eq!(leading(None, false, &["delta"]).as_deref(), Some("delta"));
    assert_eq!(leading(None, false, &[]), None);
}

#[test]
fn every_refusal_of_a_socket_was_put_down_to_a_taken_address() {
    let known = [
        libc::EADDRINUSE,
        libc::EADDRNOTAVAIL,
        libc::EPERM,
        libc::EAFNOSUPPORT,
        libc::ENOBUFS,
        libc::EMFILE,
        libc::EINVAL,
        libc::EIO,
    ];
    let said: BTreeSet<&str> = known.into_iter().map(advice).collect();
    assert_eq!(said.len(), known.len(), "each has an advice of its own: {said:?}");
    assert!(advice(libc::EADDRINUSE).contains("another program"));
    let others = known.into_iter().filter(|errno| *errno != libc::EADDRINUSE);
    assert!(others.map(advice).all(|says| !says.contains("another program")));
    assert_eq!(advice(libc::ENOMEM), advice(libc::ENOBUFS));
}
