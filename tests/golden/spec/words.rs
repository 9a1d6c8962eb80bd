// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of kinds: what a file may write is what there is, each of which is built from its word.

use super::good;
use tardy_model::load::LoadWord;
use tardy_model::path::PathKind;
use tardy_model::port::Port;
use tardy_model::shaper::ShaperWord;
use tardy_model::station::StationKind;
use tardy_model::stream::{Launch, Wait};
use tardy_spec::schema::{KEYS, Kind};

fn built(pattern: &str) -> &'static [&'static str] {
    let key = KEYS.iter().find(|key| key.pattern == pattern).expect("a key");
    match &key.kind {
        Kind::Choice { built, .. } => built,
        other => panic!("{pattern} is {other:?}"),
    }
}

/// What a file may write that there is not, and the other way round.
fn differ(patterns: &[&str], kinds: &[&str]) -> Vec<String> {
    let of = |pattern: &&str| {
        let written = built(pattern);
        let lacks = kinds.iter().filter(|kind| !written.contains(kind)).map(|kind| format!("no `{kind}`"));
        let more = written.iter().filter(|word| !kinds.contains(word)).map(|word| format!("`{word}` is nothing"));
        lacks.chain(more).map(|what| format!("{pattern}: {what}")).collect::<Vec<_>>()
    };
    patterns.iter().flat_map(of).collect()
}

#[test]
fn a_word_of_the_file_was_no_kind_or_a_kind_had_no_word() {
    let none: [String; 0] = [];
    assert_eq!(differ(&["path.kind"], &PathKind::ALL.map(|kind| kind.traits().name)), none);
    assert_eq!(differ(&["station.*.kind"], &StationKind::ALL.map(|kind| kind.traits().name)), none);
    assert_eq!(differ(&["stream.*.port", "stream.*.tx.port", "stream.*.rx.port"], &Port::ALL.map(Port::name)), none);
    assert_eq!(differ(&["stream.*.tx.wait", "stream.*.rx.wait"], &Wait::ALL.map(Wait::name)), none);
    assert_eq!(differ(&["stream.*.launch"], &Launch::ALL.map(Launch::name)), none);
    assert_eq!(differ(&["shaper.kind"], &ShaperWord::ALL.map(ShaperWord::name)), none);
    assert_eq!(differ(&["load.*.kind"], &LoadWord::ALL.map(LoadWord::name)), none);
    assert_eq!(differ(&["stream.*.port"], &["udp", "pigeon"]).len(), 5, "the comparison sees both ways");
}

#[test]
fn no_word_is_both_there_and_planned() {
    for key in KEYS {
        let Kind::Choice { built, later } = &key.kind else { continue };
        let both: Vec<_> = built.iter().filter(|word| later.contains(word)).collect();
        assert!(both.is_empty(), "{} has {both:?} and plans it", key.pattern);
    }
}

#[test]
fn a_kind_that_nothing_maps_became_another() {
    for path in built("path.kind") {
        let devices = if *path == "wire" { "a = \"eth8\"\nb = \"eth9\"\n" } else { "" };
        // A way into a virtual machine leads to one.
        let is_guest = PathKind::of(path).and_then(|kind| kind.traits().devices.backend()).is_some();
        let machine = if is_guest { vec!["station.b.kind=guest"] } else { Vec::new() };
        let setup = good(&format!("[path]\nkind = \"{path}\"\n{devices}"), &machine).cells.remove(0).setup;
        assert_eq!(setup.path.traits().name, *path);
    }
    for station in built("station.*.kind") {
        let path = if *station == "guest" { "tap" } else { "veth" };
        let set = [format!("station.b.kind={station}"), format!("path.kind={path}")];
        let setup = good("", &set.each_ref().map(String::as_str)).cells.remove(0).setup;
        assert_eq!(setup.stations["b"].kind.traits().name, *station);
    }
    for port in built("stream.*.port") {
        let kind = match *port {
            "tcp" => "kind = \"pingpong\"\n",
            "xdp" => "rx.wait = \"poll\"\n",
            _ => "",
        };
        let setup = good(&format!("{kind}port = \"{port}\"\n"), &[]).cells.remove(0).setup;
        assert_eq!(setup.streams[0].port.name(), *port);
    }
    for wait in built("stream.*.rx.wait") {
        let by_xdp = if *wait == "scheduled" { "port = \"packet\"\nrx.port = \"xdp\"\n" } else { "" };
        assert_eq!(
            good(&format!("{by_xdp}rx.wait = \"{wait}\"\n"), &[]).cells[0].setup.streams[0].rx.wait.name(),
            *wait
        );
    }
    let of_shaper = |kind: &str| match kind {
        "none" => "",
        "etf" => "etf.delta = \"300us\"\n",
        "taprio" => "classes = 2\nentries = [\"0 500us\", \"1 500us\"]\n",
        "mqprio" => "classes = 2\n",
        "cbs" => "classes = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\n",
        other => panic!("write what shaper `{other}` needs"),
    };
    for kind in built("shaper.kind") {
        let launch = if matches!(*kind, "etf") { "launch = \"strict\"\ntx.advance = \"3ms\"\n" } else { "" };
        let setup = good(&format!("{launch}[shaper]\nkind = \"{kind}\"\n{}", of_shaper(kind)), &[]);
        assert_eq!(setup.cells[0].setup.shaper.kind(), *kind);
    }
    for kind in built("load.*.kind") {
        let to = if matches!(*kind, "cpu" | "memory" | "command") { "" } else { "to = \"b\"\n" };
        let command = if *kind == "command" { "command = [\"true\"]\n" } else { "" };
        let load = good(&format!("[load.bulk]\nkind = \"{kind}\"\nfrom = \"a\"\n{to}{command}"), &[]);
        assert_eq!(load.cells[0].setup.loads[0].kind.name(), *kind);
    }
}
