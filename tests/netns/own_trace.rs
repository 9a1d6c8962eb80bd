// SPDX-License-Identifier: MIT OR Apache-2.0
//! No figure shows tardy's own work, whatever the port, the wait, the kind of stream, the policy
//! and the CPUs: pairwise, and each combination in `make soak`.

use crate::command::{Place, can_run};
use std::collections::BTreeSet;
use std::fmt::Write;
use tardy_model::path::Devices;
use tardy_spec::{Source, load};

const TRIALS: usize = 5;
const COUNT: usize = 600;
/// Enough for the comparison of each 64th round trip: 64 blocks of 256 in the trials together.
const ROUND_TRIPS: usize = 3_600;
/// From here on a ready-made experiment has many cells.
const MANY_CELLS: usize = 8;
/// A trial of a ready-made experiment takes no longer.
const LONGEST_NS: i64 = 600_000_000;

/// What is varied, and its values. With `busypoll` the path has NAPI (`path.napi`): packets of a
/// veth come without a NAPI context else.
const FACTORS: [(&str, &[&str]); 5] = [
    ("port", &["udp", "tcp", "packet", "xdp"]),
    ("wait", &["block", "poll", "select", "epoll", "spin", "busypoll"]),
    ("kind", &["cyclic", "reflected", "pingpong"]),
    ("policy", &["other", "fifo", "rr", "deadline"]),
    ("cpus", &["same", "different", "any"]),
];

/// A value of each factor, by its place among the factor's values.
type Combination = [usize; FACTORS.len()];

fn value(combination: &Combination, factor: usize) -> &'static str {
    FACTORS[factor].1[combination[factor]]
}

fn name(combination: &Combination) -> String {
    (0..FACTORS.len()).map(|factor| value(combination, factor)).collect::<Vec<_>>().join("-")
}

/// The case's keys as TOML.
fn case(combination: &Combination) -> String {
    let [port, wait, kind, policy, cpus] = std::array::from_fn(|factor| value(combination, factor));
    let mut set: Vec<(&str, String)> = Vec::new();
    let text = |value: &str| format!("\"{value}\"");
    // What is received through AF_XDP is sent as frames.
    set.push(("port", text(if port == "xdp" { "packet" } else { port })));
    if port == "xdp" {
        set.push(("rx.port", text(port)));
    }
    set.push(("kind", text(if kind == "pingpong" { kind } else { "cyclic" })));
    set.push(("rx.wait", text(wait)));
    if wait == "busypoll" {
        set.push(("path.napi", "true".to_owned()));
    }
    set.push(("rx.cpu", text(cpus)));
    if cpus == "any" {
        set.push(("tx.cpu", text(cpus)));
    }
    let (tx, rx) = match policy {
        "fifo" => ("fifo:90", "fifo:80"),
        "rr" => ("rr:90", "rr:80"),
        "deadline" => ("deadline:200us/1ms/1ms", "deadline:200us/1ms/1ms"),
        other => (other, other),
    };
    set.push(("tx.policy", text(tx)));
    set.push(("rx.policy", text(rx)));
    if kind != "cyclic" {
        set.push(("tx.wait", text(wait)));
    }
    if kind == "reflected" {
        set.push(("reflect", "true".to_owned()));
    }
    match kind {
        "pingpong" => set.push(("count", ROUND_TRIPS.to_string())),
        _ => set.push(("cycle", text("500us"))),
    }
    let whole = |key: &str| if key.starts_with("path.") { key.to_owned() } else { format!("stream.ctl.{key}") };
    let set: Vec<String> = set.into_iter().map(|(key, value)| format!("\"{}\" = {value}", whole(key))).collect();
    format!("[[case]]\nname = \"{}\"\nset = {{ {} }}\n", name(combination), set.join(", "))
}

fn experiment(combinations: &[Combination]) -> String {
    let stream = tardy_tests::experiment("stream from a to b");
    let mut text =
        format!("name = \"own-trace\"\ntrials = {TRIALS}\n{stream}count = {COUNT}\n[path]\nkind = \"veth\"\n");
    combinations.iter().for_each(|combination| _ = write!(text, "{}", case(combination)));
    text
}

/// A reflected stream whose ends both spin as realtime threads, from before the warm-up on, leaves
/// a machine of two CPUs none for the stations' control threads: the run ends with that reason.
fn starves_the_stations(combination: &Combination) -> bool {
    let [wait, kind, policy] = [1, 2, 3].map(|factor| value(combination, factor));
    wait == "spin" && kind == "reflected" && ["fifo", "rr"].contains(&policy)
}

/// Newer kernels give packets of a veth to AF_XDP without the NAPI context that `busypoll` polls,
/// and the run refuses the cell. The exact guest has such cells on a kernel that gives one.
fn polls_no_device(combination: &Combination) -> bool {
    [0, 1].map(|factor| value(combination, factor)) == ["xdp", "busypoll"]
}

fn is_legal(combination: &Combination) -> bool {
    if starves_the_stations(combination) || polls_no_device(combination) {
        return false;
    }
    let text = experiment(&[*combination]);
    load(&Source { name: "own-trace.toml".into(), text }, &[]).is_ok()
}

/// Every combination that an experiment file may ask for.
fn legal() -> Vec<Combination> {
    let mut all: Vec<Combination> = vec![[0; FACTORS.len()]];
    for (factor, (_, values)) in FACTORS.iter().enumerate() {
        let with = |combination: Combination| {
            (0..values.len()).map(move |value| {
                let mut combination = combination;
                combination[factor] = value;
                combination
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all.retain(is_legal);
    all
}

/// A pair of values of two factors.
type Pair = (usize, usize, usize, usize);

fn pairs(combination: &Combination) -> BTreeSet<Pair> {
    let factors = || 0..FACTORS.len();
    let both = factors().flat_map(|a| factors().filter(move |b| a < *b).map(move |b| (a, b)));
    both.map(|(a, b)| (a, combination[a], b, combination[b])).collect()
}

/// Its values, each as a pair with itself.
fn values(combination: &Combination) -> BTreeSet<Pair> {
    combination.iter().enumerate().map(|(factor, value)| (factor, *value, factor, *value)).collect()
}

/// Few combinations that hold everything which some legal one holds (pairs of values, or values):
/// each time the one with the most that is still missing.
fn covering(all: &[Combination], held: fn(&Combination) -> BTreeSet<Pair>) -> Vec<Combination> {
    let mut missing: BTreeSet<Pair> = all.iter().flat_map(held).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |combination: &&Combination| held(combination).intersection(&missing).count();
        // The first of equals, so that the choice is the same each time.
        let best = *all.iter().rev().max_by_key(gain).expect("what is missing comes from combinations");
        held(&best).iter().for_each(|pair| _ = missing.remove(pair));
        chosen.push(best);
    }
    chosen
}

#[test]
fn own_trace_is_silent_whatever_the_port_the_wait_the_kind_the_policy_and_the_cpus() {
    if !can_run("own_trace_is_silent_whatever_the_port_the_wait_the_kind_the_policy_and_the_cpus") {
        return;
    }
    let legal = legal();
    // Every value of every factor has its place, so that no rule of the file's takes a part of the
    // test away unseen.
    for (factor, (what, values)) in FACTORS.iter().enumerate() {
        let used: BTreeSet<usize> = legal.iter().map(|combination| combination[factor]).collect();
        assert_eq!(used.len(), values.len(), "{what}: {used:?}");
    }
    // `make soak` tries every pair of values, which takes minutes.
    let each = covering(&legal, values);
    let paired = covering(&legal, pairs);
    assert!(each.len() >= 4 && each.len() < paired.len(), "{} of {}", each.len(), paired.len());
    assert!(paired.len() >= 15 && paired.len() < legal.len() / 2, "{} of {}", paired.len(), legal.len());
    let chosen = if std::env::var_os("TARDY_SOAK").is_some() { paired } else { each };
    let place = Place::new();
    let file = place.path("own-trace.toml");
    std::fs::write(&file, experiment(&chosen)).expect("it is written");
    let run = place.call(&mut place.run(&[file.to_str().expect("a path in UTF-8")]));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), chosen.len());
    for cell in cells {
        let finished = cell["trials"].as_array().map_or(0, Vec::len);
        let received = cell["streams"]["ctl"]["outcomes"]["received"].as_u64();
        assert_eq!((finished, received > Some(0)), (TRIALS, true), "{}: {}", cell["id"], run.stderr);
    }
    let verdicts = run.results["verdicts"].as_array().expect("verdicts");
    let traces: Vec<&serde_json::Value> = verdicts.iter().filter(|verdict| verdict["id"] == "own-trace").collect();
    assert!(traces.is_empty(), "{traces:#?}");
    // Judged from the folder, it gets the same verdicts.
    let again = place.call(place.command("report").arg(place.out()).args(["--format", "json"]));
    let again: serde_json::Value = serde_json::from_str(&again.stdout).expect("JSON and nothing else");
    assert_eq!(again["verdicts"], run.results["verdicts"]);
}

#[test]
fn own_trace_is_silent_on_each_ready_made_experiment_that_needs_no_queue_discipline() {
    if !can_run("own_trace_is_silent_on_each_ready_made_experiment_that_needs_no_queue_discipline") {
        return;
    }
    let mut runs = 0;
    for name in tardy_spec::READY_MADE.iter().map(|(name, _)| *name) {
        let source = tardy_spec::ready_made(name).expect("it is ready-made");
        let experiment = load(&source, &[]).expect("it loads");
        let is_plain = |cell: &tardy_spec::experiment::Cell| {
            let devices = cell.setup.path.traits().devices;
            matches!(cell.setup.shaper, tardy_model::shaper::Shaper::None)
                && devices == (Devices::Made { driver: None })
        };
        let copies = |cell: &tardy_spec::experiment::Cell| cell.setup.copy.is_some();
        if !experiment.cells.iter().all(is_plain) || experiment.cells.iter().any(copies) {
            continue;
        }
        // Those of many cells try each wait and each core, which the test above does in the soak.
        if experiment.cells.len() > MANY_CELLS && std::env::var_os("TARDY_SOAK").is_none() {
            continue;
        }
        runs += 1;
        let streams = &experiment.cells[0].setup.streams;
        let set = |stream: &tardy_model::stream::Stream| {
            let in_time = LONGEST_NS.checked_div(stream.cycle.0).unwrap_or(i64::MAX);
            format!("stream.{}.count={}", stream.name, in_time.min(1_200))
        };
        let sets: Vec<String> = streams.iter().map(set).collect();
        // With fewer trials the first and the last packets have no verdict.
        let mut args = vec![name, "--trials", "5"];
        sets.iter().for_each(|set| args.extend(["--set", set.as_str()]));
        let place = Place::new();
        let run = place.call(&mut place.run(&args));
        run.ran();
        assert_eq!(run.own_traces(), Vec::<&serde_json::Value>::new(), "{name}");
        let observed = run.ids("note").into_iter().filter(|id| id == "observer").count();
        let measured = experiment.cells.iter().any(|cell| tardy_lab::observer::can_measure(&cell.setup));
        assert_eq!(observed == 1, measured, "{name}: what tx stamps add is reported: {:?}", run.ids("note"));
    }
    assert!(runs >= 3, "{runs}");
}

#[test]
fn the_second_request_behind_a_pause_took_longer_over_tcp() {
    if !can_run("the_second_request_behind_a_pause_took_longer_over_tcp") {
        return;
    }
    // How many requests lie between two pauses.
    let apart = |port: &str| {
        let place = Place::new();
        let file = place.path("pingpong.toml");
        let stream = tardy_tests::experiment("stream from a to b");
        let text =
            format!("trials = 1\n{stream}kind = \"pingpong\"\nport = \"{port}\"\ncount = 100\nrx.cpu = \"same\"\n");
        std::fs::write(&file, text).expect("it is written");
        place.call(&mut place.run(&[file.to_str().expect("a path in UTF-8")])).ran();
        let record = std::fs::read_to_string(place.out().join("trials/all/1/trial.json")).expect("a record");
        let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        let between = record["streams"]["ctl"]["own_between"].as_array().expect("pauses").clone();
        let asking = between.iter().filter(|between| between["side"] == "tx");
        let pauses: usize = asking.map(|between| between["spans"].as_array().map_or(0, Vec::len)).sum();
        100.0 / pauses as f64
    };
    // A few pauses come before the first request.
    let (tcp, udp) = (apart("tcp"), apart("udp"));
    assert!((0.8..=1.0).contains(&tcp) && (1.5..=2.0).contains(&udp), "{tcp} {udp}");
}

#[test]
fn the_last_packet_of_a_trial_was_the_worst_where_sender_and_receiver_share_a_cpu() {
    if !can_run("the_last_packet_of_a_trial_was_the_worst_where_sender_and_receiver_share_a_cpu") {
        return;
    }
    let place = Place::new();
    let sets = ["--set", "stream.ctl.rx.cpu=same", "--set", "stream.ctl.count=1000"];
    let run = place.call(place.run(&["host-to-host", "--trials", "10"]).args(sets));
    run.ran();
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 10);
    for metric in ["scheduled..rx_kernel", "rx_kernel..receive"] {
        let worst = |trial: &serde_json::Value| trial["streams"]["ctl"]["metrics"][metric]["max_seq"].as_u64();
        assert!(trials.iter().all(|trial| worst(trial).is_some()), "{metric}");
        let last = trials.iter().filter(|trial| worst(trial) == Some(999)).count();
        assert!(last <= 1, "{metric}: in {last} of 10 trials");
    }
}
