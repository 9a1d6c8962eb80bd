// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiment files: what is read, what is refused and in which words, and what the effective file
//! keeps.

mod all_at_once;
mod nics;
mod streams;

use proptest::prelude::*;
use std::fs;
use std::io::Write as _;
use tardy_model::expect::{Count, Limit};
use tardy_model::path::PathKind;
use tardy_model::point::{Metric, Point};
use tardy_model::port::{Port, Sim};
use tardy_model::shaper::Shaper;
use tardy_model::station::StationKind;
use tardy_model::stream::{CpuChoice, Overrun, Policy, Wait};
use tardy_model::time::Nanos;
use tardy_spec::experiment::{Experiment, Path as Joined, Station};
use tardy_spec::schema::{KEYS, show_duration};
use tardy_spec::{LARGEST, READY_MADE, Reason, Source, SpecError, load, read, ready_made, resolve};

const HEAD: &str = tardy_tests::part("stream from a to b");
const SECOND: &str = tardy_tests::part("second stream");
const BACK: &str = tardy_tests::part("stream back");

fn source(text: &str) -> Source {
    Source { name: "x.toml".into(), text: text.into() }
}

pub(super) fn try_load(body: &str, set: &[&str]) -> Result<Experiment, SpecError> {
    let set: Vec<String> = set.iter().map(|argument| (*argument).to_owned()).collect();
    load(&source(&format!("{HEAD}{body}")), &set)
}

/// Loads what must be right, and holds that its effective file gives the same experiment again.
#[track_caller]
pub(super) fn good(body: &str, set: &[&str]) -> Experiment {
    let experiment = try_load(body, set).unwrap_or_else(|error| panic!("{body}\n{}", error.one_line()));
    let again = load(&source(&experiment.effective), &[])
        .unwrap_or_else(|error| panic!("{}\n{}", experiment.effective, error.one_line()));
    assert_eq!(again, experiment, "the effective file of\n{body}\n{set:?}");
    experiment
}

#[track_caller]
pub(super) fn wrong(body: &str, set: &[&str]) -> String {
    match try_load(body, set) {
        Ok(_) => panic!("accepted: {body} {set:?}"),
        Err(error) => error.one_line(),
    }
}

fn ids(experiment: &Experiment) -> Vec<&str> {
    experiment.cells.iter().map(|cell| cell.id.as_str()).collect()
}

#[test]
fn wrong_files_are_refused_with_place_and_mend() {
    let (_, blocks) = include_str!("../data/wrong.txt").split_once("====\n").expect("a head");
    let mut seen = 0;
    for block in blocks.split("----\n") {
        let mut parts = block.trim_end().split("\n=> ");
        let body = parts.next().expect("a block begins with a body");
        let text = match body.strip_prefix("WHOLE FILE\n") {
            Some(whole) => whole.to_owned() + "\n",
            None => format!("{HEAD}{body}\n"),
        };
        let got = load(&source(&text), &[]).map(|experiment| ids(&experiment).join(" "));
        let said: Vec<String> = parts.map(str::to_owned).collect();
        assert_eq!(got.map_err(|error| error.lines()), Err(said), "{body}");
        seen += 1;
    }
    assert!(seen > 270, "{seen}");
}

#[test]
fn an_error_has_a_picture_a_place_and_a_reason() {
    let error = try_load("cycel = \"1ms\"\n", &[]).expect_err("an unknown key");
    assert_eq!(error.reason, Reason::UnknownKey);
    assert_eq!((error.place().file.as_str(), error.place().line, error.place().column), ("x.toml", Some(6), Some(1)));
    use std::error::Error as _;
    assert_eq!((error.to_string().as_str(), &*error.help), (&*error.message, "did you mean `cycle`?"));
    assert!(error.source().is_none());
}

#[test]
fn every_default_is_filled_in() {
    let experiment = good("", &[]);
    assert_eq!((experiment.name.as_str(), experiment.trials, experiment.seed), ("x", 5, 1));
    let [cell] = experiment.cells.as_slice() else { panic!("{:?}", ids(&experiment)) };
    assert_eq!((cell.id.as_str(), cell.axes.len(), cell.expect.len()), ("all", 0, 0));
    assert_eq!(cell.setup.stations.values().collect::<Vec<_>>(), [&Station::here(StationKind::Netns); 2]);
    assert_eq!((&cell.setup.path, &cell.setup.shaper), (&Joined::made(PathKind::Veth, 4, 1500), &Shaper::None));
    let stream = &cell.setup.streams[0];
    assert_eq!((stream.port, stream.overrun, stream.rx.wait), (Port::Udp, Overrun::Burst, Wait::Block));
    assert_eq!((stream.cycle, stream.deadline), (Nanos::from_micros(500), Nanos::from_micros(500)));
    assert_eq!((stream.count, stream.size, stream.priority), (10_000, 64, 0));
    assert_eq!((stream.max_loss, stream.warmup), (0.001, Nanos::from_secs(2)));
    assert_eq!((stream.tx.cpu, stream.rx.cpu), (CpuChoice::Auto, CpuChoice::Different));
    assert_eq!((stream.tx.policy, stream.rx.policy), (Policy::Other, Policy::Other));
    assert_eq!((stream.tx.advance, stream.tx.spin), (Nanos::ZERO, Nanos::ZERO));
    assert_eq!(stream.metrics, Metric::DEFAULT);
    assert_eq!(stream.stamps, [Point::Wakeup, Point::Send, Point::TxKernel, Point::RxKernel, Point::Receive]);
    assert_eq!(good("port = \"sim\"", &[]).cells[0].setup.streams[0].sim, Sim::default());
}

#[test]
fn host_to_host_is_as_its_table_says() {
    let source = ready_made("host-to-host").expect("it is ready-made");
    let experiment = load(&source, &[]).expect("it loads");
    assert_eq!((experiment.name.as_str(), experiment.trials, ids(&experiment)), ("host-to-host", 5, vec!["all"]));
    let cell = &experiment.cells[0];
    let stream = &cell.setup.streams[0];
    assert_eq!((stream.name.as_str(), stream.count, stream.cycle), ("ctl", 10_000, Nanos::from_micros(500)));
    assert_eq!((stream.tx.policy, stream.rx.policy), (Policy::Fifo(90), Policy::Fifo(80)));
    assert_eq!(cell.expect.len(), 1);
    assert_eq!(cell.expect[0].limit, Limit::Count { count: Count::Lost, at_most: 0 });
    for (name, _) in READY_MADE {
        let experiment = load(&ready_made(name).expect("listed"), &[]).expect("a ready-made experiment loads");
        assert_eq!(&experiment.name, name);
    }
}

#[test]
fn a_path_is_an_axis_like_any_other() {
    let keys = "[path]\na = \"eth1\"\nb = \"eth2\"\nqueues = 2\n";
    let cells = good(&format!("{keys}[matrix]\n\"path.kind\" = [\"veth\", \"wire\"]"), &[]).cells;
    let named = ["eth1", "eth2"].map(str::to_owned).to_vec();
    let wire = |take| Joined { named: named.clone(), take, ..Joined::given(PathKind::Wire, 1500) };
    assert_eq!([&cells[0].setup.path, &cells[1].setup.path], [&Joined::made(PathKind::Veth, 2, 1500), &wire(false)]);
    let cases = "[[case]]\nname = \"pair\"\n[[case]]\nname = \"cards\"\n\
                 set = { path.kind = \"wire\", path.a = \"eth1\", path.b = \"eth2\", path.take = true }";
    let cells = good(cases, &[]).cells;
    assert_eq!([&cells[0].setup.path, &cells[1].setup.path], [&Joined::made(PathKind::Veth, 4, 1500), &wire(true)]);
    let set = ["path.kind=wire", "path.a=eth1", "path.b=eth2"];
    assert!(!good("", &set).effective.contains("queues"), "the devices have their own");
    assert!(!good("", &[]).effective.contains("take"));
}

#[test]
fn cells_are_cases_times_axes_with_short_unique_ids() {
    let wait = "[matrix]\n\"stream.ctl.rx.wait\" = [\"block\", \"poll\"]";
    let experiment = good(wait, &[]);
    assert_eq!(ids(&experiment), ["rx.wait=block", "rx.wait=poll"]);
    assert_eq!(experiment.cells[1].axes["stream.ctl.rx.wait"], "poll");
    assert_eq!(experiment.cells[1].setup.streams[0].rx.wait, Wait::Poll);

    let cases = "[[case]]\nname = \"A-only\"\n[[case]]\nname = \"A+B\"\nset = { stream.ctl.rx.cpu = \"same\" }\n";
    let experiment = good(&format!("{cases}[matrix.path]\nqueues = [1, 2]\nmtu = [9000]"), &[]);
    let four =
        ["A-only,queues=1,mtu=9000", "A-only,queues=2,mtu=9000", "A-B,queues=1,mtu=9000", "A-B,queues=2,mtu=9000"];
    assert_eq!(ids(&experiment), four);
    assert_eq!(experiment.cells[2].axes["case"], "A+B");
    assert_eq!(experiment.cells[2].setup.streams[0].rx.cpu, CpuChoice::Same);
    assert_eq!(experiment.cells[3].setup.path, Joined::made(PathKind::Veth, 2, 9000));

    // A suffix that ends another key of the experiment is too short.
    let bulk = BACK.replace(".back]", ".bulk]");
    let experiment = good(&format!("{bulk}[matrix]\n\"stream.ctl.cycle\" = [\"1ms\", \"2.5ms\"]"), &[]);
    assert_eq!(ids(&experiment), ["ctl.cycle=1ms", "ctl.cycle=2.5ms"]);
    assert_eq!(ids(&good("[matrix]\n\"stream.ctl.cycle\" = [\"1ms\", \"2ms\"]", &[])), ["cycle=1ms", "cycle=2ms"]);
    let both = "[matrix]\n\"stream.ctl.tx.cpu\" = [0, \"any\"]\n\"path.kind\" = [\"veth\"]";
    assert_eq!(ids(&good(both, &[])), ["tx.cpu=0,path.kind=veth", "tx.cpu=any,path.kind=veth"]);
    let policy = "[matrix]\n\"stream.ctl.tx.policy\" = [\"fifo:90\", \"rr:1\"]";
    assert_eq!(ids(&good(policy, &[])), ["tx.policy=fifo-90", "tx.policy=rr-1"]);
    let stamps = "[matrix]\n\"stream.ctl.stamps\" = [[], [\"rx_kernel\", \"receive\"]]";
    let experiment = good(stamps, &[]);
    assert_eq!(ids(&experiment), ["stamps=none", "stamps=rx_kernel-receive"]);
    assert_eq!(experiment.cells[0].setup.streams[0].metrics, []);
    assert_eq!(experiment.cells[1].setup.streams[0].metrics.len(), 3);

    assert_eq!(ids(&good("[matrix]\n\"path.queues\" = [2]", &[])), ["all"]);
    assert_eq!(good("[matrix]\n\"path.queues\" = [2]", &[]).cells[0].axes["path.queues"], "2");
    let axis = (1..=64).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let large = format!("[matrix]\n\"path.queues\" = [{axis}]\n\"stream.ctl.count\" = [{axis}]");
    assert_eq!(good(&large, &[]).cells.len(), 4096);
}

#[test]
fn set_overrides_the_file_its_cases_and_its_axes() {
    let body = "[[case]]\nname = \"idle\"\n[[case]]\nname = \"deep\"\nset = { \"path.queues\" = 8 }\n\
                [matrix]\n\"stream.ctl.rx.wait\" = [\"block\", \"poll\"]";
    let experiment = good(body, &["stream.ctl.rx.wait=poll", "trials=3", "name=short", "seed=7"]);
    assert_eq!(ids(&experiment), ["idle", "deep"]);
    assert!(experiment.cells.iter().all(|cell| cell.setup.streams[0].rx.wait == Wait::Poll));
    assert_eq!((experiment.trials, experiment.name.as_str(), experiment.seed), (3, "short", 7));
    let queues =
        |set: &[&str]| -> Vec<Joined> { good(body, set).cells.into_iter().map(|cell| cell.setup.path).collect() };
    assert_eq!(queues(&["path.queues=2"]), vec![Joined::made(PathKind::Veth, 2, 1500); 4]);
    assert_eq!(queues(&["path={queues = 3, mtu = 9000}"]), vec![Joined::made(PathKind::Veth, 3, 9000); 4]);
    let stream = |set: &[&str]| good("", set).cells[0].setup.streams[0].clone();
    assert_eq!(stream(&["stream.ctl.cycle=1ms", "stream.ctl.cycle=2ms"]).cycle, Nanos::from_millis(2));
    assert_eq!(stream(&["stream.ctl.tx.cpu=0x1"]).tx.cpu, CpuChoice::Number(1));
    assert_eq!(stream(&["stream.ctl.stamps=[\"receive\"]"]).stamps, [Point::Receive]);
    assert_eq!(good("", &["name=2026-11-21"]).name, "2026-11-21");
    let limits = good("", &["expect.ctl.scheduled..rx_kernel=p99 <= 80us", "expect.ctl.lost=0"]);
    assert_eq!(limits.cells[0].expect.len(), 2);

    for (set, said) in [
        (
            "stream.ctl.cycle=500",
            "`stream.ctl.cycle` is a duration and needs a unit (add one, in quotes, as in \"500us\": ns, us, ms, s, min, h, or \
             Hz, kHz, MHz)",
        ),
        ("stream.ctl.cycel=1ms", "there is no key `stream.ctl.cycel` (did you mean `cycle`?)"),
        ("stream.ctl.cnt=5", "there is no key `stream.ctl.cnt` (did you mean `count`?)"),
        ("stream.clt.cycle=1ms", "there is no stream `clt` (did you mean `ctl`?)"),
        ("trials", "this is not KEY=VALUE (write KEY=VALUE, as stream.ctl.count=400)"),
        ("trials=many", "`trials` is text; it must be a whole number (write a number, from 1)"),
        (
            "matrix.path.queues=[1]",
            "cases and axes cannot be set (set the key itself, as stream.ctl.cycle=1ms: that pins its axis)",
        ),
        (
            "stream.ctl.tx.advance=1ms",
            "`stream.ctl.tx.advance` of 1ms is not below the cycle, 500us (write an advance below one cycle)",
        ),
        (
            "=1",
            "there is no key `` (known here: name, trials, kind, seed, reference, station, path, cpu, clocks, shaper, stream, load, copy, validity, expect, case, matrix)",
        ),
    ] {
        assert_eq!(wrong("", &["trials=4", set]), format!("--set {set}: {said}"));
    }
    assert!(wrong("", &["na\nme=1"]).starts_with("--set na\\nme=1: there is no key `na\\nme`"));
}

#[test]
fn a_case_says_whether_a_machine_may_lack_it() {
    let body = "[[case]]\nname = \"x\"\noptional = true\n[[case]]\nname = \"y\"\n[matrix]\n\"stream.ctl.cycle\" = [\"1ms\", \"2ms\"]";
    let optional: Vec<bool> = good(body, &[]).cells.iter().map(|cell| cell.optional).collect();
    assert_eq!(optional, [true, true, false, false]);
    let said = wrong("[[case]]\nname = \"x\"\noptional = \"yes\"", &[]);
    assert!(said.contains("must be true or false") && said.contains("write optional = true"), "{said}");
    assert!(wrong("[[case]]\nname = \"x\"\noptionl = true", &[]).contains("did you mean `optional`?"));
}

#[test]
fn the_effective_file_of_every_ready_made_experiment_is_read_as_the_same() {
    for (name, text) in tardy_spec::READY_MADE {
        let source = |text: &str| Source { name: format!("{name}.toml"), text: text.to_owned() };
        let experiment = load(&source(text), &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
        let again = load(&source(&experiment.effective), &[]);
        let again = again.unwrap_or_else(|error| panic!("{name}: {}\n{}", error.one_line(), experiment.effective));
        assert_eq!(again, experiment, "{name}");
    }
}

#[test]
fn effective_keeps_what_depends_on_the_cell() {
    let experiment = good("[matrix]\n\"stream.ctl.cycle\" = [\"1ms\", \"2ms\"]", &[]);
    assert!(experiment.effective.contains("deadline = \"cycle\""), "{}", experiment.effective);
    assert_eq!(experiment.cells[1].setup.streams[0].deadline, Nanos::from_millis(2));
    assert!(good("", &[]).effective.contains("deadline = \"500us\""));
    let two = [BACK.replace(".back]", ".z]"), BACK.replace(".back]", ".a1]")].concat();
    for body in [
        "duration = \"1s\"\n[matrix]\n\"stream.ctl.cycle\" = [\"1ms\", \"2ms\"]",
        "[[case]]\nname = \"x\"\nset = { \"stream.ctl.deadline\" = \"cycle\", \"stream.ctl.metrics\" = \"default\" }",
        "[[case]]\nname = \"x\"\n[[case]]\nname = \"s\"\nset = { \"stream.ctl.port\" = \"sim\", \"stream.ctl.sim.loss\" = \"1%\" }",
        "port = \"sim\"\nsim = { step = \"-1ms\", drop = [3, 4], hog = 1e-7, refuse_policy = true }",
        "[matrix]\n\"stream.ctl.stamps\" = [[\"receive\"], [\"wakeup\"]]",
        &format!("{two}[expect.z]\nlost = 1"),
        "[[case]]\nname = \"quo\\\"te \\\\ µ\"\n[[case]]\nname = \"b\"",
        "[expect.ctl]\n\"scheduled..send\" = \"p50 < 1s\"\n[matrix]\n\"expect.ctl.lost\" = [0, 1]",
    ] {
        good(body, &[]);
    }
    let streams = good(&two, &[]);
    let names: Vec<_> = streams.cells[0].setup.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["ctl", "z", "a1"], "in the order of the file");
}

#[test]
fn files_that_are_none_are_refused_without_reading_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let said = |name: &str| {
        let error = read(&path(name)).expect_err("it is no experiment file");
        assert_eq!(error.reason, Reason::Unreadable);
        error.one_line().replace(&format!("{}/", folder.path().display()), "")
    };
    fs::write(path("empty.toml"), " \n\n").expect("written");
    fs::write(path("binary.toml"), b"name = \"x\"\n\xff\x00").expect("written");
    fs::write(path("nul.toml"), b"name\0").expect("written");
    fs::write(path("host.toml"), HEAD).expect("written");
    fs::create_dir_all(path("run")).expect("made");
    fs::write(path("run/experiment.toml"), HEAD).expect("written");
    fs::File::create(path("large.toml")).and_then(|file| file.set_len(100_000_000)).expect("a sparse file");
    assert_eq!(
        said("empty.toml"),
        "empty.toml: the file is empty (start from a ready-made experiment: host-to-host, roundtrip-load, vm-roundtrip, vm-oneway, vm-car, quiet-guest, car, tsn-qdiscs, etf-drops, mqprio-etf, igb, waits, afxdp-delay, afxdp-triggered, copy, copy-parallel, copy-sizes)"
    );
    assert_eq!(
        said("binary.toml"),
        "binary.toml: the file is binary: byte 11 is 0xff (name an experiment file: UTF-8 text in TOML)"
    );
    assert!(said("nul.toml").contains("byte 4 is 0x00"));
    assert_eq!(said("hots.toml"), "hots.toml: there is no such file (did you mean `host.toml`?)");
    assert_eq!(said("run"), "run: this is a directory (this is a run folder; its experiment is run/experiment.toml)");
    assert_eq!(
        said("large.toml"),
        "large.toml: the file is 100000000 bytes large; an experiment file has at most 1048576 bytes (name an experiment file (TOML), not a run's data)"
    );
    fs::write(path("limit.toml"), format!("{HEAD}#{}", " ".repeat(LARGEST as usize - HEAD.len() - 1)))
        .expect("written");
    assert!(load(&read(&path("limit.toml")).expect("just small enough"), &[]).is_ok());
    fs::OpenOptions::new()
        .append(true)
        .open(path("limit.toml"))
        .and_then(|mut file| file.write_all(b" "))
        .expect("longer");
    assert!(said("limit.toml").contains("1048577 bytes"));
    assert_eq!(load(&source("# nothing\n"), &[]).expect_err("no station").reason, Reason::MissingKey);
    assert_eq!(load(&source(""), &[]).expect_err("empty").reason, Reason::Unreadable);
}

#[test]
fn a_large_file_is_judged_quickly() {
    let many = |row: &dyn Fn(usize) -> String| (0..20_000).map(row).collect::<String>();
    let started = std::time::Instant::now();
    let stream = |n: usize| SECOND.replace(".second]", &format!(".s{n}]"));
    let streams = many(&stream);
    assert_eq!(wrong(&streams, &[]), "x.toml:768:9: there are more than 255 of `stream` (leave some out)");
    let few = many(&|n| if n < 254 { stream(n) } else { String::new() });
    assert_eq!(good(&few, &[]).cells[0].setup.streams.len(), 255);
    let cases = many(&|n| format!("[[case]]\nname = \"c{n}\"\n"));
    assert!(wrong(&cases, &[]).contains("make 20000 cells; an experiment has at most 10000"));
    let keys = many(&|n| format!("k{n} = 1\n"));
    assert!(wrong(&keys, &[]).starts_with("x.toml:6:1: there is no key `stream.ctl.k0`"));
    let deep = format!("drop = {}", "[".repeat(900_000));
    assert!(wrong(&deep, &[]).contains("this is not TOML"));
    let limits = (1..30).map(|n| format!("\"p50 < {n}us\"")).collect::<Vec<_>>().join(", ");
    let long = format!("[matrix]\n\"expect.ctl.delta\" = [[{limits}], \"p50 < 1us\"]");
    assert!(wrong(&long, &[]).contains("characters, more than 200 (shorten names, or make named cases of the axes)"));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn an_experiment_is_named_or_a_path() {
    assert_eq!(resolve("host-to-host").expect("ready-made").name, "experiments/host-to-host.toml");
    let error = resolve("host-to-hots").expect_err("a slip");
    assert_eq!(error.reason, Reason::NoSuchExperiment);
    assert_eq!(
        error.one_line(),
        "host-to-hots: no ready-made experiment and no file has this name (did you mean `host-to-host`?)"
    );
    let far = resolve("zzz").expect_err("nothing").one_line();
    assert!(
        far.ends_with("(give the path of a file, or one of the ready-made: host-to-host, roundtrip-load, vm-roundtrip, vm-oneway, vm-car, quiet-guest, car, tsn-qdiscs, etf-drops, mqprio-etf, igb, waits, afxdp-delay, afxdp-triggered, copy, copy-parallel, copy-sizes)"),
        "{far}"
    );
    assert_eq!(resolve("/nowhere/x.toml").expect_err("missing").reason, Reason::Unreadable);
    assert_eq!(resolve("/dev/zero").expect_err("endless").reason, Reason::Unreadable);
}

#[test]
fn the_json_schema_has_every_key_and_host_to_host() {
    let schema = tardy_spec::schema::json_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in KEYS {
        let mut at = &schema;
        for segment in key.pattern.split('.') {
            at = if segment == "*" { &at["additionalProperties"] } else { &at["properties"][segment] };
            // A word may stand instead of the table.
            at = at["anyOf"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "object")).unwrap_or(at);
        }
        assert_eq!(at["description"], key.doc, "{}", key.pattern);
    }
    let stream = &schema["properties"]["stream"]["additionalProperties"];
    assert_eq!(stream["additionalProperties"], false);
    assert_eq!(stream["required"], serde_json::json!(["from", "to"]));
    assert_eq!(stream["not"]["required"], serde_json::json!(["count", "duration"]));
    assert_eq!(stream["properties"]["rx"]["properties"]["wait"]["default"], "block");
    assert_eq!(stream["properties"]["count"]["minimum"], 1);
    assert_eq!(schema["properties"]["station"]["additionalProperties"]["properties"]["kind"]["enum"][0], "netns");
    // The keys of the effective file, and so of host-to-host, are all in it.
    let effective = load(&ready_made("host-to-host").expect("listed"), &[]).expect("it loads").effective;
    let mut table = Vec::new();
    for line in effective.lines() {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = header.split('.').collect();
        } else if let Some((field, _)) = line.split_once(" = ") {
            let mut at = &schema;
            for part in table.iter().chain([&field]) {
                at = at["properties"].get(*part).unwrap_or(&at["additionalProperties"]);
            }
            assert!(at["description"].is_string(), "{table:?} {field}");
        }
    }
}

/// Pieces that are nearly an experiment.
fn scrap() -> impl Strategy<Value = String> {
    let words = "name trials station stream path expect matrix case set ctl a b rx tx cpu wait sim cycle count duration \
                 stamps metrics = . , [ ] [[ ]] { } \" \n # 1 0 -1 1e9 0x true \"500us\" \"1KiB\" \"fifo:9\" \"p99<1us\" \
                 \"scheduled..receive\" [\"block\",\"poll\"] 2026-01-01 µ \\ \u{0} ''' \"\"\"";
    let words: Vec<String> = words.split(' ').map(str::to_owned).chain(["\n".into(), " ".into()]).collect();
    proptest::collection::vec(proptest::sample::select(words), 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", scrap in scrap(), set in ".{0,40}", key in scrap()) {
        for text in [text.clone(), scrap.clone(), format!("{HEAD}{text}"), format!("{HEAD}{scrap}")] {
            for set in [vec![], vec![set.clone()], vec![key.clone()], vec![format!("stream.ctl.{key}={set}")]] {
                if let Err(error) = load(&source(&text), &set) {
                    let line = error.one_line();
                    prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                    prop_assert!(!error.help.is_empty() && !error.message.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_damaged_file_is_refused_or_its_effective_file_is_the_same(at in 0usize..3000, cut in 0usize..12, put in "[a-z0-9\"=.\\[\\]{} \n]{0,4}") {
        let mut text: Vec<char> = READY_MADE[0].1.chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, put.chars());
        if let Ok(experiment) = load(&source(&text.into_iter().collect::<String>()), &[]) {
            let again = load(&source(&experiment.effective), &[]).map_err(|error| TestCaseError::fail(error.one_line()))?;
            prop_assert_eq!(again, experiment);
        }
    }

    #[test]
    fn any_quantity_round_trips(ns in 1i64..86_400_000_000_000, count in 1u32.., size in 24i64..=1472, drop in proptest::collection::vec(0u32.., 0..5)) {
        let (shown, most) = (show_duration(Nanos(ns)), 1 + count % 30);
        let body = format!("cycle = \"{shown}\"\ncount = {most}\nsize = \"{size}B\"\nport = \"sim\"\nsim.drop = {drop:?}");
        let stream = good(&body, &[]).cells[0].setup.streams[0].clone();
        prop_assert_eq!((stream.cycle, stream.count, i64::from(stream.size), stream.sim.drop), (Nanos(ns), most, size, drop));
    }
}

#[test]
fn validity_sets_a_rules_limit_and_level_and_says_what_it_may_not() {
    use tardy_model::validity::{RuleLimit, Setting};
    use tardy_model::verdict::Level;
    let set = |body: &str, more: &[&str]| good(body, more).validity.set;
    let warning = Setting { limit: None, level: Some(Level::Warning) };
    let both = Setting { limit: Some(RuleLimit::Share(0.6)), level: Some(Level::Warning) };
    assert_eq!(set("", &[]), [].into());
    assert_eq!(set("[validity]\ncompeting-cpu = \"warning\"\n", &[]), [("competing-cpu".into(), warning)].into());
    let long = "[validity]\ncompeting-cpu = { limit = \"60%\", level = \"warning\" }\n";
    assert_eq!(set(long, &[]), [("competing-cpu".into(), both)].into());
    assert_eq!(set("", &["validity.competing-cpu=warning"]), [("competing-cpu".into(), warning)].into());
    let dotted = ["validity.competing-cpu.limit=0.6", "validity.competing-cpu.level=warning"];
    assert_eq!(set("", &dotted), [("competing-cpu".into(), both)].into());
    let timer = Setting { limit: Some(RuleLimit::Ns(5_000_000)), level: None };
    assert_eq!(set("[validity.guest-timer]\nlimit = \"5ms\"\n", &[]), [("guest-timer".into(), timer)].into());
    let refused = |body: &str, says: &str| {
        let error = wrong(body, &[]);
        assert!(error.contains(says), "{error}");
    };
    refused(
        "[validity]\ncompeting-cpus = \"note\"\n",
        "there is no rule of validity `competing-cpus` (did you mean `competing-cpu`?)",
    );
    refused("[validity]\nsteal = \"warn\"\n", "`validity.steal.level`: `warn` is not known (did you mean `warning`?)");
    refused("[validity]\nsteal = { limits = \"60%\" }\n", "did you mean `limit`?");
    refused("[validity]\nsteal = { limit = \"5ms\" }\n", "is a share of the time");
    refused("[validity]\nguest-timer = { limit = \"5%\" }\n", "is a duration");
    refused("[validity]\npolicy = { limit = \"5%\" }\n", "has no limit that can be set");
    refused("[validity]\nrecorder = \"warning\"\n", "recorder can only be invalid");
    refused("[validity]\nloss = \"note\"\n", "loss can only be invalid");
    for wrong in ["loss = \"note\"", "loss = { limit = \"5%\" }"] {
        refused(&format!("[validity]\n{wrong}\n"), "write max_loss into the stream's table");
    }
    refused(
        "[[case]]\nname = \"x\"\nset = { \"validity.steal.level\" = \"note\" }\n",
        "holds for the whole experiment",
    );
}
