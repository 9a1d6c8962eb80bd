// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of XDP and tc programs on a path, each by a program that has it: it is named before the
//! first packet, with what was measured of it.

use crate::command::{Finished, Place, can_run, machine, same};
use crate::packet::device;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tardy_bpf::pitfalls::{cost, line_cost, scan, without};
use tardy_bpf::program::OBJECT;

/// One program, chosen by the word that is defined. iproute2 attaches it by its section.
const FAULTY: &str = r#"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#define SEC(name) __attribute__((section(name), used))
static long (*const print)(const char *, __u32, ...) = (void *)BPF_FUNC_trace_printk;
static long (*const redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
static long (*const push)(struct __sk_buff *, __u16, __u16) = (void *)BPF_FUNC_skb_vlan_push;
char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifdef PRINTS
SEC("xdp") int prints_each(struct xdp_md *ctx)
{
	char text[] = "a packet of %d bytes\n";

	print(text, sizeof(text), (int)(ctx->data_end - ctx->data));
	return XDP_PASS;
}
#endif
#ifdef REDIRECTS
/* ARP and such still pass. */
SEC("xdp") int into_nothing(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;

	if ((void *)(data + 14) > (void *)(long)ctx->data_end || data[12] != 0x88)
		return XDP_PASS;
	return redirect(TARGET, 0);
}
#endif
#ifdef FORWARDS
SEC("xdp") int forwards(struct xdp_md *ctx) { return redirect(TARGET, 0); }
#endif
#ifdef ABORTS
/* Nobody has filled the map. */
struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	int (*max_entries)[4];
	__u32 *key;
	__u32 *value;
} ports SEC(".maps");
static long (*const redirect_map)(void *, __u64, __u64) = (void *)BPF_FUNC_redirect_map;
SEC("xdp") int by_map(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;

	if ((void *)(data + 14) > (void *)(long)ctx->data_end || data[12] != 0x88)
		return XDP_PASS;
	return redirect_map(&ports, 3, 0);
}
#endif
#ifdef TAKES
/* IPv4, and frames of port packet; ARP passes. */
SEC("tc") int takes(struct __sk_buff *skb)
{
	return skb->protocol == 0x0008 || skb->protocol == 0xb588 ? TAKES : TC_ACT_OK;
}
#endif
#ifdef DROPS
SEC("xdp") int takes(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;

	if ((void *)(data + 14) > (void *)(long)ctx->data_end || data[12] != 8 || data[13])
		return XDP_PASS;
	return XDP_DROP;
}
#endif
#ifdef PRINTS_IN_TC
SEC("tc") int prints_in_tc(struct __sk_buff *skb)
{
	char text[] = "a packet of %d bytes\n";

	print(text, sizeof(text), (int)skb->len);
	return TC_ACT_OK;
}
#endif
#ifdef PUSHES
SEC("tc") int pushes_a_tag(struct __sk_buff *skb)
{
	push(skb, 0x0081, 7);
	return TC_ACT_OK;
}
#endif
#ifdef PINS
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	__u32 *key;
	__u64 *value;
	int (*pinning)[1];
} tardy_pins SEC(".maps");
static void *(*const look)(void *, const void *) = (void *)BPF_FUNC_map_lookup_elem;
SEC("xdp") int pins(struct xdp_md *ctx)
{
	__u32 key = 0;

	return look(&tardy_pins, &key) ? XDP_PASS : XDP_DROP;
}
#endif
#ifdef CHOOSES
SEC("xdp") int chooses(struct xdp_md *ctx)
{
	return redirect(ctx->rx_queue_index ? 7 : 9, 0);
}
#endif
#ifdef CHOOSES_OF_MANY
SEC("xdp") int chooses(struct xdp_md *ctx)
{
	char text[] = "a packet\n";
	int to;

	switch (ctx->rx_queue_index) {
	case 5:
		to = 11;
		break;
	case 90:
		to = 22;
		break;
	case 800:
		to = 33;
		break;
	default:
		to = 44;
	}
	/* A call is between the choice and its use. */
	print(text, sizeof(text));
	return redirect(to, 0);
}
#endif
#ifdef COMPUTES
SEC("xdp") int computes(struct xdp_md *ctx)
{
	volatile int begins = 0;
	int to = begins;

	if (ctx->rx_queue_index == 5)
		to = 4711;
	else if (ctx->rx_queue_index == 6)
		to = ctx->ingress_ifindex + 1;
	else if (ctx->rx_queue_index == 7)
		to = -1;
	return redirect(to, 0);
}
#endif
"#;

/// Compiles the program of this word.
pub fn object(place: &Place, words: &[&str]) -> PathBuf {
    let (source, object) = (place.path("faulty.bpf.c"), place.path(&format!("{}.o", words[0])));
    std::fs::write(&source, FAULTY).expect("a file");
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-g", "-O2", "-Wall", "-Werror", "-Wno-unused-const-variable", "-I"]).arg(&headers);
    clang.args(words.iter().map(|word| format!("-D{word}"))).arg("-c").arg(source).arg("-o").arg(&object);
    let output = clang.output().expect("clang");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    object
}

fn ip(netns: &str, args: &str) {
    let output = Command::new("ip").args(["-n", netns]).args(args.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip -n {netns} {args}: {}", String::from_utf8_lossy(&output.stderr));
}

fn tc(netns: &str, args: &str) {
    let output = Command::new("tc").args(["-n", netns]).args(args.split(' ')).output().expect("tc is installed");
    assert!(output.status.success(), "tc -n {netns} {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Attaches a program to the path's device as a filter.
fn filters(netns: &str, way: &str, object: &Path) {
    let device = device(netns);
    tc(netns, &format!("qdisc add dev {device} clsact"));
    tc(netns, &format!("filter add dev {device} {way} bpf da obj {} sec tc", object.display()));
}

const TEXT: &str = tardy_tests::part("stream into a pitfall");

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill is installed");
    assert!(status.success(), "kill {name}");
}

/// Runs it, and does this to the path when it is built. The ruler is measured then, for a quarter
/// of a second; the run waits meanwhile, so that it comes before the first trial on a busy machine.
fn run(place: &Place, text: &str, meddle: impl FnOnce(&str, &str)) -> Finished {
    let file = place.path("pitfall.toml");
    std::fs::write(&file, text).expect("a file");
    let child = place.start(place.run(&[]).arg(file));
    let (a, b) = (place.netns("a"), place.netns("b"));
    signal(&child, "-STOP");
    let meddled = catch_unwind(AssertUnwindSafe(|| meddle(&a, &b)));
    signal(&child, "-CONT");
    let finished = place.finish(child);
    meddled.unwrap_or_else(|why| resume_unwind(why));
    finished
}

fn verdict<'r>(run: &'r Finished, id: &str) -> &'r Value {
    let all = run.cell()["verdicts"].as_array().expect("verdicts");
    all.iter().find(|verdict| verdict["id"] == id).unwrap_or_else(|| panic!("no {id}: {}{}", run.stdout, run.stderr))
}

/// When the first packet of a run's first trial was to be sent, as events have times; `None` if no
/// trial was kept.
pub fn first_packet(place: &Place) -> Option<String> {
    let read = |file: &str| std::fs::read(place.out().join(file)).ok();
    let json = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).expect("JSON");
    let trial = json(read("trials/all/1/trial.json")?);
    let manifest = json(read("manifest.json").expect("a manifest"));
    let ahead = manifest["machine"]["clock.tai_offset_s"].as_i64().expect("an offset");
    let ns = trial["base_tai_ns"].as_i64().expect("a time") - ahead * 1_000_000_000;
    let at = format!("@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let date = Command::new("date").args(["-u", "-d", &at, "+%Y-%m-%dT%H:%M:%S.%3NZ"]).output().expect("date runs");
    Some(String::from_utf8(date.stdout).expect("text").trim().to_owned())
}

/// The line on stderr that named it, which came before the first packet.
fn was_named_first<'a>(place: &Place, run: &'a Finished, id: &str, program: &str) -> &'a str {
    let line = run.stderr.lines().find(|line| line.contains(&format!("all: {id}: ")));
    let line = line.unwrap_or_else(|| panic!("no line of {id}: {}", run.stderr));
    assert!(line.contains(program), "{line}");
    let events = place.events();
    let found = events.iter().find(|line| line["event"] == "found").expect("an event");
    let found = found["at_utc"].as_str().expect("a time");
    if let Some(first) = first_packet(place) {
        // Both have milliseconds and one form, so their order is that of the texts.
        assert_eq!(found.len(), first.len());
        assert!(found <= &*first, "named at {found}, and the first packet was to be sent at {first}");
    }
    line
}

#[test]
fn a_program_that_prints_a_line_for_each_packet_is_named_with_its_cost() {
    if !can_run("a_program_that_prints_a_line_for_each_packet_is_named_with_its_cost") {
        return;
    }
    let before = machine();
    for (mode, hook, name) in [
        ("xdpdrv", "xdp-native", "prints_each"),
        ("xdpgeneric", "xdp-generic", "prints_each"),
        ("tc", "tc-ingress", "prints_in_tc"),
    ] {
        let place = Place::new();
        let object = object(&place, &[if mode == "tc" { "PRINTS_IN_TC" } else { "PRINTS" }]);
        let run = run(&place, TEXT, |_, b| match mode {
            "tc" => filters(b, "ingress", &object),
            _ => ip(b, &format!("link set dev {} {mode} obj {} sec xdp", device(b), object.display())),
        });
        run.ran();
        let line = was_named_first(&place, &run, "printk", name);
        assert!(line.contains("; a line costs ") && line.contains(" with 95 %)"), "{line}");
        let printk = verdict(&run, "printk");
        assert_eq!(printk["level"], "warning", "{printk}");
        let of = |name: &str| printk["evidence"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {printk}"));
        assert_eq!((&printk["evidence"]["program"], &printk["evidence"]["hook"]), (&json!(name), &json!(hook)));
        assert!(of("line_ns") > 0.0 && of("line_low_ns") <= of("line_ns"), "{printk}");
        assert!(of("line_ns") <= of("line_high_ns") && of("runs") >= 8.0, "{printk}");
        assert!((0.99..=1.01).contains(&of("lines_per_packet")), "{printk}");
        assert_eq!(verdict(&run, "programs")["evidence"]["programs"], json!([name]));
        assert_eq!(run.ids("warning").contains(&"generic-xdp".to_owned()), mode == "xdpgeneric", "{}", run.stdout);
        let trial = place.out().join("trials/all/1/trial.json");
        let trial: Value = serde_json::from_slice(&std::fs::read(trial).expect("a record")).expect("JSON");
        let program = &trial["inspection"]["programs"][0];
        assert!(program["id"].as_u64() > Some(0) && program["tag"].as_str().is_some_and(|tag| tag.len() == 16));
        assert_eq!(trial["inspection"]["probes"].as_array().map(Vec::len), Some(2), "{trial}");
        // A folder is judged as the run was.
        let report = place.call(place.command("report").arg(place.out()));
        assert!(report.stdout.contains("printk"), "{}", report.stdout);
    }
    same(&before);
}

#[test]
fn a_redirect_to_a_device_that_is_not_there_stops_the_trial() {
    if !can_run("a_redirect_to_a_device_that_is_not_there_stops_the_trial") {
        return;
    }
    let place = Place::new();
    let object = object(&place, &["REDIRECTS", "TARGET=9999"]);
    let run = run(&place, &format!("{TEXT}port = \"packet\"\n"), |_, b| {
        ip(b, &format!("link set dev {} xdpdrv obj {} sec xdp", device(b), object.display()));
    });
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    was_named_first(&place, &run, "program-drops", "into_nothing");
    let drops = verdict(&run, "program-drops");
    assert_eq!(
        (&drops["evidence"]["to_device"], &drops["evidence"]["program"]),
        (&json!(9999), &json!("into_nothing"))
    );
    assert!(
        drops["evidence"]["packets"].as_u64() >= Some(8) && drops["evidence"]["errno"].as_i64() > Some(0),
        "{drops}"
    );
    assert!(drops["says"].as_str().is_some_and(|says| says.contains("which no device there has")), "{drops}");
    assert!(
        verdict(&run, "refused")["says"].as_str().is_some_and(|says| says.contains("no probe packet of stream `ctl`"))
    );
    assert!(!place.out().join("trials/all/1").exists(), "no packet was measured");
}

#[test]
fn a_redirect_into_a_device_that_drops_stops_the_trial() {
    if !can_run("a_redirect_into_a_device_that_drops_stops_the_trial") {
        return;
    }
    let place = Place::new();
    let run = run(&place, &format!("{TEXT}port = \"packet\"\n"), |_, b| {
        // Its peer has neither NAPI nor a program, so it takes no frame that is redirected to it.
        ip(b, "link add sink0 index 4321 type veth peer name sink1");
        ip(b, "link set dev sink0 up");
        ip(b, "link set dev sink1 up");
        let object = object(&place, &["REDIRECTS", "TARGET=4321"]);
        ip(b, &format!("link set dev {} xdpdrv obj {} sec xdp", first_device(b), object.display()));
    });
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let drops = verdict(&run, "program-drops");
    assert!(drops["says"].as_str().is_some_and(|says| says.contains("sink0 (device number 4321)")), "{drops}");
    assert!(drops["evidence"]["packets"].as_u64() >= Some(8), "{drops}");
}

#[test]
fn a_place_of_a_map_that_nobody_filled_stops_the_trial() {
    if !can_run("a_place_of_a_map_that_nobody_filled_stops_the_trial") {
        return;
    }
    let place = Place::new();
    let object = object(&place, &["ABORTS"]);
    let run = run(&place, &format!("{TEXT}port = \"packet\"\n"), |_, b| {
        ip(b, &format!("link set dev {} xdpdrv obj {} sec xdp", device(b), object.display()));
    });
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    was_named_first(&place, &run, "program-drops", "by_map");
    let drops = verdict(&run, "program-drops");
    assert!(drops["says"].as_str().is_some_and(|says| says.contains("it aborted 8 packets")), "{drops}");
    assert!(!place.out().join("trials/all/1").exists(), "no packet was measured");
}

#[test]
fn a_program_that_was_attached_before_ended_the_whole_run_without_its_name() {
    if !can_run("a_program_that_was_attached_before_ended_the_whole_run_without_its_name") {
        return;
    }
    let place = Place::new();
    let object = object(&place, &["PRINTS"]);
    let matrix = "rx.wait = \"poll\"\n[matrix]\n\"stream.ctl.rx.port\" = [\"xdp\", \"packet\"]\n";
    let run = run(&place, &format!("{TEXT}port = \"packet\"\n{matrix}"), |_, b| {
        ip(b, &format!("link set dev {} xdpdrv obj {} sec xdp", first_device(b), object.display()));
    });
    // One cell is refused, with the program's name; the other one is measured, so figures exist.
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    let cells = run.results["cells"].as_array().expect("cells");
    let trials = |cell: &Value| cell["trials"].as_array().map_or(0, Vec::len);
    assert_eq!(cells.iter().map(|cell| trials(cell) > 0).collect::<Vec<_>>(), [false, true], "{}", run.stderr);
    let verdicts = cells[0]["verdicts"].as_array().expect("verdicts");
    let refused = verdicts.iter().find(|verdict| verdict["id"] == "refused").expect("the cell is refused");
    let says = refused["says"].as_str().expect("a text");
    assert!(says.contains("program `prints_each` (id ") && says.contains("was attached before"), "{says}");
    assert!(says.contains(" xdp off`"), "{says}");
}

#[test]
fn a_program_that_takes_every_packet_in_silence_stops_the_trial_before_its_first() {
    if !can_run("a_program_that_takes_every_packet_in_silence_stops_the_trial_before_its_first") {
        return;
    }
    // Dropped, or sent to a device that is not there: the kernel reports neither.
    let [shot, redirected] = ["TAKES=TC_ACT_SHOT", "TAKES=redirect(9999,0)"];
    let behind = "8 arrived at the device and the filters of tc let none on";
    for (words, at_a, way, port, says) in [
        (["TAKES_ALL", shot], false, "ingress", "udp", behind),
        (["TAKES_ALL", redirected], false, "ingress", "udp", behind),
        (["TAKES_ALL", redirected], true, "egress", "udp", "none arrived"),
        (["TAKES_ALL", shot], true, "egress", "packet", "none arrived"),
        // A tag that no device here has: the stack takes the packet for another host's.
        (["PUSHES", "ANY"], false, "ingress", "udp", behind),
        (["DROPS", "ANY"], false, "xdpgeneric", "udp", "none arrived"),
        // It comes behind the receiver of these.
        (["TAKES_ALL", shot], false, "ingress", "packet", ""),
        // Nothing of the stream goes back.
        (["TAKES_ALL", shot], true, "ingress", "udp", behind),
    ] {
        let place = Place::new();
        let object = object(&place, &words);
        let run = run(&place, &format!("{TEXT}port = \"{port}\"\n"), |a, b| {
            let netns = if at_a { a } else { b };
            match way {
                "xdpgeneric" => {
                    ip(netns, &format!("link set dev {} {way} obj {} sec xdp", device(netns), object.display()))
                }
                way => filters(netns, way, &object),
            }
        });
        let case = format!("{words:?} {at_a} {way} {port}: {}{}", run.stdout, run.stderr);
        if says.is_empty() {
            run.ran();
            assert!(!run.ids("warning").contains(&"program-drops".to_owned()), "{case}");
            continue;
        }
        let name = if words[0] == "PUSHES" { "pushes_a_tag" } else { "takes" };
        was_named_first(&place, &run, "program-drops", name);
        let drops = verdict(&run, "program-drops");
        assert!(drops["says"].as_str().is_some_and(|sentence| sentence.contains(says)), "{drops}");
        assert_eq!((&drops["evidence"]["program"], &drops["evidence"]["packets"]), (&json!(name), &json!(8)));
        if at_a && way == "ingress" {
            run.ran();
            assert_eq!(drops["level"], "note", "{case}");
        } else {
            assert_eq!((run.code, &drops["level"]), (Some(3), &json!("invalid")), "{case}");
            assert!(!place.out().join("trials/all/1").exists(), "no packet was measured");
        }
    }
}

/// The path's own device, which was there first.
fn first_device(netns: &str) -> String {
    let output = Command::new("ip").args(["-n", netns, "-j", "link"]).output().expect("ip");
    let links: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = links.as_array().into_iter().flatten().filter_map(|link| link["ifname"].as_str());
    all.filter(|name| *name != "lo" && !name.starts_with("sink")).map(str::to_owned).next().expect("a device")
}

#[test]
fn a_frame_that_leaves_with_one_more_tag_stops_the_trial() {
    if !can_run("a_frame_that_leaves_with_one_more_tag_stops_the_trial") {
        return;
    }
    // There and back; a stream with a tag of its own and one without.
    for (at_a, stream, tags) in [(true, "port = \"packet\"\n", 0), (false, "port = \"packet\"\nvlan = 5\n", 1)] {
        let place = Place::new();
        let object = object(&place, &["PUSHES"]);
        let run = run(&place, &format!("{TEXT}{stream}"), |a, b| {
            filters(if at_a { a } else { b }, "egress", &object);
        });
        assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
        was_named_first(&place, &run, "added-tag", "ctl");
        let added = &verdict(&run, "added-tag")["evidence"];
        let from = if at_a { "a" } else { "b" };
        assert_eq!(
            (&added["from"], &added["sent_tags"], &added["most_tags"]),
            (&json!(from), &json!(tags), &json!(tags + 1))
        );
        let programs = &verdict(&run, "programs")["evidence"];
        assert_eq!((&programs["programs"], &programs["hooks"]), (&json!(["pushes_a_tag"]), &json!(["tc-egress"])));
    }
}

#[test]
fn a_clean_path_is_probed_each_way_and_has_no_word_of_it() {
    if !can_run("a_clean_path_is_probed_each_way_and_has_no_word_of_it") {
        return;
    }
    let place = Place::new();
    let streams = tardy_tests::experiment("other streams of a clean path");
    let run = run(&place, &format!("{TEXT}{streams}"), |_, _| {});
    run.ran();
    for id in ["printk", "programs", "program-drops", "added-tag", "generic-xdp", "foreign"] {
        let said = ["invalid", "warning", "note"].iter().any(|level| run.ids(level).iter().any(|said| said == id));
        assert!(!said, "{id}: {}", run.stdout);
    }
    let trial = place.out().join("trials/all/1/trial.json");
    let trial: Value = serde_json::from_slice(&std::fs::read(trial).expect("a record")).expect("JSON");
    let probes = trial["inspection"]["probes"].as_array().expect("probes");
    assert_eq!(probes.len(), 6);
    for probe in probes {
        let tags = probe["tags"].as_u64().expect("a number").to_string();
        assert_eq!(probe["by_tags"], json!({tags: 8}), "{probe}");
    }
    // By each device that a stream leaves by, one of each kind.
    let special = trial["inspection"]["special"].as_array().expect("special frames");
    let of = |kind: &str| special.iter().filter(|probe| probe["kind"] == kind).count();
    let kinds = ["multicast", "arp", "longest", "unsummed"].map(of);
    assert!(kinds[0] >= 2 && kinds == [kinds[0]; 4], "{special:#?}");
    for probe in special {
        let what = (&probe["sent"], &probe["arrived"], &probe["kept_by"]);
        assert_eq!(what, (&json!(8), &json!(8), &Value::Null), "{probe}");
    }
}

#[test]
fn an_objects_calls_are_found_in_its_code_and_their_cost_is_measured() {
    if !can_run("an_objects_calls_are_found_in_its_code_and_their_cost_is_measured") {
        return;
    }
    let place = Place::new();
    let bytes = |words: &[&str]| std::fs::read(object(&place, words)).expect("an object");
    let printing = bytes(&["PRINTS"]);
    let found = scan(&printing).expect("an ELF file");
    assert_eq!((found.lines.len(), found.redirects.len()), (1, 0), "{found:?}");
    assert_eq!((&*found.lines[0].section, &*found.lines[0].function), ("xdp", "prints_each"));
    assert_eq!(scan(&without(&printing, &found.lines)).expect("an ELF file").lines, []);
    let cost = cost(&printing, "prints_each", &found.lines, &[0; 64]).expect("it runs");
    assert!(cost.ns > 0.0 && cost.low_ns <= cost.ns && cost.ns <= cost.high_ns, "{cost:?}");
    assert!(line_cost().expect("it runs").ns > 0.0);

    let redirecting = scan(&bytes(&["REDIRECTS", "TARGET=9999"])).expect("an ELF file");
    assert_eq!(
        redirecting.redirects.iter().map(|(call, to)| (&*call.function, *to)).collect::<Vec<_>>(),
        [("into_nothing", 9999)]
    );
    let numbers = |word: &str| {
        let found = scan(&bytes(&[word])).expect("an ELF file");
        found.redirects.into_iter().map(|(_, to)| to).collect::<Vec<u32>>()
    };
    // Which of its numbers it is depends on the packet.
    assert_eq!(numbers("CHOOSES"), [7, 9]);
    assert_eq!(numbers("CHOOSES_OF_MANY"), [11, 22, 33, 44]);
    // A number that is computed is none of them, and neither is what means no device.
    assert_eq!(numbers("COMPUTES"), [4711]);
    let own = scan(OBJECT).expect("an ELF file");
    assert_eq!((own.lines.len(), own.redirects.len()), (0, 0), "tardy's own program has none of it");
    for length in 0..printing.len() {
        let _ = scan(&printing[..length]);
    }
}

#[test]
fn no_map_is_pinned_whatever_libbpf_reads_out_of_an_object() {
    if !can_run("no_map_is_pinned_whatever_libbpf_reads_out_of_an_object") {
        return;
    }
    let place = Place::new();
    let bytes = std::fs::read(object(&place, &["PINS"])).expect("an object");
    let refused = cost(&bytes, "pins", &[], &[0; 64]).expect_err("it is not loaded");
    assert!(refused.starts_with("it is not loaded"), "{refused}");
    assert!(!Path::new("/sys/fs/bpf/tardy_pins").exists());
}
