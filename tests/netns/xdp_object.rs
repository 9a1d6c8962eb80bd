// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user's own XDP program in place of tardy's: its hints become columns, its time is `rx_xdp`,
//! and its faults are named before the first packet. And tardy's, where it asks the device what it
//! knows of each packet.

use crate::command::{Place, agents, can_run, machine, same, wait};
use crate::xdp::{FILTER, Pair, asked, experiment, frame, record, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tardy_bpf::program::{Chosen, device_columns};
use tardy_bpf::xsk::{Asked, Rings, WaitBy};
use tardy_model::frame::MARK;
use tardy_model::xdp::{DeviceHint, XdpMode};
use tardy_sys::packet::sender;
use tardy_sys::stamps::TxStamps;

/// A user's own program: it takes test frames, and leaves one struct before those of even numbers
/// and another before the rest. Neither is in tardy's source.
const OWN: &str = r#"
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
struct even { __u64 arrival_time; __u32 seq; __s16 below; __u8 cpu; __u8 unused; __u32 btf_id; }
	__attribute__((packed, aligned(4)));
struct odd { __u16 length; __u16 pad; __u64 arrival_time; __u32 seq; __u64 all; __u8 mac[4]; __u32 btf_id; }
	__attribute__((packed, aligned(4)));
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP]; int (*max_entries)[1]; __u32 *key; __u32 *value;
} xsks_map SEC(".maps");
#ifdef LARGE
struct { int (*type)[LARGE]; int (*max_entries)[1 << 22]; int (*key_size)[4]; int (*value_size)[4]; } large SEC(".maps");
#endif
static long (*const adjust_meta)(struct xdp_md *, int) = (void *)BPF_FUNC_xdp_adjust_meta;
static __u64 (*const now)(void) = (void *)CLOCK;
static __u32 (*const processor)(void) = (void *)BPF_FUNC_get_smp_processor_id;
static long (*const redirect_map)(void *, __u64, __u64) = (void *)BPF_FUNC_redirect_map;
static long (*const print)(const char *, __u32, ...) = (void *)BPF_FUNC_trace_printk;
static long (*const redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
char LICENSE[] SEC("license") = "GPL";
#ifdef HASH
enum xdp_rss_hash_type { SOME_TYPE = 1 };
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *, __u32 *, enum xdp_rss_hash_type *) SEC(".ksyms");
#endif
SEC("xdp/own") int own(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index, seq;
#ifdef PRINTS
	static const char text[] = "a packet";
	print(text, sizeof(text));
#endif
	__u64 time = now(), all = 0;
#ifdef HASH
	enum xdp_rss_hash_type type = 0;
	__u32 hash = 0;

	all = bpf_xdp_metadata_rx_hash(ctx, &hash, &type) ? 0 : hash;
#endif
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u16 length = end - data;

	asm volatile("" : "+r"(queue));
#ifdef DEVICE
	if (length == 4000)
		return redirect(DEVICE, 0);
#endif
	if (data + NEEDED > end || data[12] != 0x88 || data[13] != 0xb5)
		return XDP_PASS;
	seq = (__u32)data[30] << 24 | data[31] << 16 | data[32] << 8 | data[33];
#ifdef BARE
	if (length < 3000 && (BARE))
		return redirect_map(&xsks_map, queue, XDP_PASS);
#endif
	if (seq & 1) {
		struct odd *hint;
		if (adjust_meta(ctx, -(int)sizeof(*hint)))
			return XDP_PASS;
		hint = (void *)(long)ctx->data_meta;
		if ((void *)(hint + 1) > (void *)(long)ctx->data)
			return XDP_PASS;
		*hint = (struct odd){ length, 0, time, seq, all ? all : ~(__u64)seq, {}, __builtin_btf_type_id(*(struct odd *)0, 0) };
	} else {
		struct even *hint;
		if (adjust_meta(ctx, -(int)sizeof(*hint)))
			return XDP_PASS;
		hint = (void *)(long)ctx->data_meta;
		if ((void *)(hint + 1) > (void *)(long)ctx->data)
			return XDP_PASS;
		*hint = (struct even){ time, seq, -(__s16)(seq % 100), processor(), 0, __builtin_btf_type_id(*(struct even *)0, 0) };
	}
	return redirect_map(&xsks_map, queue, XDP_PASS);
}
"#;

/// Compiles it to this file; false, counted, where there is no clang.
fn compile_own(test: &str, to: &Path, flags: &[&str]) -> bool {
    compile(test, OWN, to, flags)
}

fn compile(test: &str, text: &str, to: &Path, flags: &[&str]) -> bool {
    let source = to.with_extension("bpf.c");
    std::fs::write(&source, text).expect("a file");
    let include = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-I", &include]).args(flags).arg("-c");
    match clang.arg(&source).arg("-o").arg(to).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            tardy_tests::skip(test, &format!("clang: {error}: packaging/setup.sh installs it"));
            false
        }
    }
}

#[test]
fn the_members_of_a_users_own_hints_are_columns_and_its_times_are_rx_xdp() {
    let test = "the_members_of_a_users_own_hints_are_columns_and_its_times_are_rx_xdp";
    if !can_run(test) {
        return;
    }
    let before = machine();
    for (helper, clock) in
        [("ktime_get_tai_ns", "tai"), ("ktime_get_ns", "monotonic"), ("ktime_get_boot_ns", "boottime")]
    {
        let place = Place::new();
        let object = place.path("own.o");
        if !compile_own(test, &object, &["-DNEEDED=38", &format!("-DCLOCK=BPF_FUNC_{helper}")]) {
            return;
        }
        let file = write(&place, &(experiment().to_owned() + "size = \"100B\"\n").replace("trials = 2", "trials = 1"));
        let run = place.call(place.run(&["--xdp-object", &object.display().to_string()]).arg(file));
        run.ran();
        assert_eq!(run.metric("rx_xdp..receive")["coverage"], 1.0, "{}", run.stdout);
        assert!(run.metric("rx_xdp..receive")["min_ns"].as_i64() > Some(0), "{}", run.stdout);
        assert!(run.metric("tx_kernel..rx_xdp")["min_ns"].as_i64() >= Some(0), "{}", run.stdout);
        let xdp = &record(&place, "all")["xdp"];
        assert_eq!(
            (&xdp["clock"], &xdp["seen"]["by_hint"]),
            (&json!(clock), &json!({"even": 300, "odd": 300})),
            "{xdp}"
        );
        let manifest = std::fs::read(place.out().join("manifest.json")).expect("a manifest");
        let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
        let known = &manifest["xdp_objects"][0];
        assert_eq!(
            (&known["section"], &known["sha256"].as_str().map(str::len)),
            (&json!("xdp/own"), &Some(64)),
            "{known}"
        );

        let samples =
            tardy_store::SamplesFile::open(&place.out().join("trials/all/1/samples.parquet")).expect("samples");
        let pages = samples.hints("ctl").expect("a stream").expect("hints");
        let pages: Vec<_> = pages.collect::<Result<_, _>>().expect("sound pages");
        let [hints] = &pages[..] else { panic!("600 rows are one page") };
        let column = |name: &str| hints.columns.iter().find(|column| column.name == name).expect("a column");
        let mut names: Vec<&str> = hints.columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        // What a file of samples has already gets the struct's name; an array gets no column.
        let expected = ["all", "arrival_time", "below", "cpu", "even.seq", "length", "odd.seq", "pad", "unused"];
        assert_eq!(names, expected);
        assert!(!column("all").is_signed && column("below").is_signed);
        for seq in 0..600_i64 {
            let row = seq as usize;
            let value = |name: &str| column(name).values[row];
            let odd = seq % 2 == 1;
            assert_eq!(hints.name(row), Some(if odd { "odd" } else { "even" }), "{seq}");
            assert_eq!((value("even.seq"), value("odd.seq")), ((!odd).then_some(seq), odd.then_some(seq)), "{seq}");
            assert_eq!(
                (value("below"), value("length")),
                ((!odd).then_some(-(seq % 100)), odd.then_some(114)),
                "{seq}"
            );
            assert_eq!(value("all"), odd.then_some(!seq), "{seq}");
            assert!(value("arrival_time").is_some_and(|time| time > 0), "{seq}");
            assert_eq!(value("cpu").is_some(), !odd, "{seq}");
        }
        if clock == "tai" {
            in_duckdb(test, &place.out().join("trials/all/1/samples.parquet"));
        }
        // The folder is read as any other.
        let again = place.call(place.command("report").arg(place.out()));
        assert_eq!(again.code, Some(0), "{}", again.stderr);
    }
    same(&before);
}

#[test]
fn a_users_program_that_asks_the_device_was_planned_and_could_not_be_loaded() {
    let test = "a_users_program_that_asks_the_device_was_planned_and_could_not_be_loaded";
    if !can_run(test) {
        return;
    }
    let place = Place::new();
    let object = place.path("own.o");
    let flags = ["-DNEEDED=38", "-DCLOCK=BPF_FUNC_ktime_get_tai_ns", "-DHASH"];
    if !compile_own(test, &object, &flags) {
        return;
    }
    let file = write(&place, &(experiment().to_owned() + "size = \"100B\"\n").replace("trials = 2", "trials = 1"));
    let run = place.call(place.run(&["--xdp-object", &object.display().to_string()]).arg(file));
    run.ran();
    assert_eq!(record(&place, "all")["xdp"]["mode"], "native", "{}", run.stdout);
    let samples = tardy_store::SamplesFile::open(&place.out().join("trials/all/1/samples.parquet")).expect("samples");
    let pages: Vec<_> =
        samples.hints("ctl").expect("a stream").expect("hints").collect::<Result<_, _>>().expect("sound pages");
    let all = pages[0].columns.iter().find(|column| column.name == "all").expect("a column");
    let hashes: BTreeMap<i64, usize> = all.values.iter().flatten().fold(BTreeMap::new(), |mut seen, hash| {
        *seen.entry(*hash).or_default() += 1;
        seen
    });
    // veth computes it of a packet's addresses: one for all packets of the stream.
    assert_eq!(hashes.values().collect::<Vec<_>>(), [&300], "{hashes:?}");
    assert!(hashes.keys().all(|hash| (1..1 << 32).contains(hash)), "{hashes:?}");
}

#[test]
fn a_users_maps_could_take_many_times_the_memory_that_was_counted() {
    let test = "a_users_maps_could_take_many_times_the_memory_that_was_counted";
    if !can_run(test) {
        return;
    }
    // Four million entries of eight bytes are 32 MiB, and the kernel takes much more for them.
    let place = Place::new();
    let object = place.path("own.o");
    let large = |kind: &str| format!("-DLARGE=BPF_MAP_TYPE_{kind}");
    let file = write(&place, experiment());
    if !compile_own(test, &object, &["-DNEEDED=38", "-DCLOCK=BPF_FUNC_ktime_get_tai_ns", &large("HASH")]) {
        return;
    }
    let run = place.call(place.run(&["--xdp-object", &object.display().to_string()]).arg(file));
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let says =
        "its maps need about 576 MiB of the kernel's memory, and tardy loads at most 256: give them fewer entries";
    assert!(run.stderr.contains(says), "{}", run.stderr);
}

/// DuckDB reads the members of both structs by their names in BTF.
fn in_duckdb(test: &str, samples: &Path) {
    let cache = std::env::var_os("TARDY_CACHE").map_or_else(|| "../.cache".into(), PathBuf::from);
    let python = cache.join("venv/bin/python");
    if !python.exists() {
        return tardy_tests::skip(test, "the Python packages are not there: `make setup-test` fetches them");
    }
    let query = format!(
        "SELECT hint, count(*), sum(\"even.seq\"), sum(\"odd.seq\"), min(below), max(length), max(\"all\"), \
         count(cpu), bool_and(arrival_time > 0) FROM '{}' GROUP BY hint ORDER BY hint",
        samples.display()
    );
    let script = "import duckdb, json, sys\nprint(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))";
    let mut command = Command::new(python);
    let output = command.args(["-B", "-c", script, &query]).env_remove("PYTHONPATH").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let even = json!(["even", 300, 89_700, null, -98, null, null, 300, true]);
    let odd = json!(["odd", 300, null, 90_000, null, 114, u64::MAX - 1, 0, true]);
    assert_eq!(rows, json!([even, odd]));
}

/// A user's own program that reads its clock twice, and leaves a length of time too.
const TWICE: &str = r#"
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
struct twice { __u64 first_ns, after, wait_ns; __u32 btf_id; } __attribute__((packed, aligned(4)));
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP]; int (*max_entries)[1]; __u32 *key; __u32 *value;
} xsks_map SEC(".maps");
#ifdef LARGE
struct { int (*type)[LARGE]; int (*max_entries)[1 << 22]; int (*key_size)[4]; int (*value_size)[4]; } large SEC(".maps");
#endif
static long (*const adjust_meta)(struct xdp_md *, int) = (void *)BPF_FUNC_xdp_adjust_meta;
static __u64 (*const now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const redirect_map)(void *, __u64, __u64) = (void *)BPF_FUNC_redirect_map;
char LICENSE[] SEC("license") = "GPL";
SEC("xdp") int twice(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;
	__u64 first_ns = now();
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct twice *hint;

	asm volatile("" : "+r"(queue));
	if (data + 38 > end || data[12] != 0x88 || data[13] != 0xb5)
		return XDP_PASS;
	if (adjust_meta(ctx, -(int)sizeof(*hint)))
		return XDP_PASS;
	hint = (void *)(long)ctx->data_meta;
	if ((void *)(hint + 1) > (void *)(long)ctx->data)
		return XDP_PASS;
	*hint = (struct twice){ first_ns, 0, 300, __builtin_btf_type_id(*(struct twice *)0, 0) };
	hint->after = now();
	return redirect_map(&xsks_map, queue, XDP_PASS);
}
"#;

#[test]
fn only_one_of_a_users_times_had_a_metric() {
    let test = "only_one_of_a_users_times_had_a_metric";
    if !can_run(test) {
        return;
    }
    let before = machine();
    let place = Place::new();
    let object = place.path("twice.o");
    if !compile(test, TWICE, &object, &[]) {
        return;
    }
    let text =
        experiment().replace("trials = 2", "trials = 1") + "size = \"100B\"\nrx.frames = 128\n[path]\nqueues = 2\n";
    let file = write(&place, &text);
    let run = place.call(place.run(&["--xdp-object", &format!("{}@first_ns,after", object.display())]).arg(file));
    run.ran();
    let figure = |metric: &str, of: &str| run.metric(metric)[of].as_i64().unwrap_or(i64::MIN);
    for metric in ["rx_xdp..receive", "first_ns..receive", "after..receive"] {
        assert_eq!(run.metric(metric)["coverage"], 1.0, "{metric}: {}", run.stdout);
        assert_eq!((figure(metric, "count"), figure(metric, "not_of_packet")), (600, i64::MIN), "{metric}");
        assert!(figure(metric, "min_ns") > 0 && run.stdout.contains(metric), "{metric}: {}", run.stdout);
    }
    // The first that is named is the arrival, and the other one is read later.
    for of in ["count", "min_ns", "p50_ns", "max_ns"] {
        assert_eq!(figure("first_ns..receive", of), figure("rx_xdp..receive", of), "{of}");
    }
    assert!(figure("after..receive", "min_ns") <= figure("first_ns..receive", "min_ns"), "{}", run.stdout);
    assert!(run.metric("after..receive")["mean_ns"].as_f64() < run.metric("first_ns..receive")["mean_ns"].as_f64());
    // Its name ends as a time's does, and no value is one.
    let wait = run.metric("wait_ns..receive");
    assert_eq!((&wait["count"], &wait["coverage"], &wait["not_of_packet"]), (&json!(0), &json!(0.0), &json!(600)));
    assert!(wait["why"].as_str().is_some_and(|why| why.contains("it is no time of its packet")), "{wait}");
    let xdp = &record(&place, "all")["xdp"];
    assert_eq!((&xdp["queues"], &xdp["umem_bytes"]), (&json!(2), &json!(2 * 128 * 4096)), "{xdp}");
    // The folder says the same.
    let again = place.call(place.command("report").args(["--format", "json"]).arg(place.out()));
    let again: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!(again["cells"][0]["streams"], run.cell()["streams"]);
    same(&before);
}

#[test]
fn a_program_that_leaves_no_hint_before_any_packet_is_named() {
    let test = "a_program_that_leaves_no_hint_before_any_packet_is_named";
    if !can_run(test) {
        return;
    }
    let place = Place::new();
    if !compile_own(test, &place.path("own.o"), &["-DNEEDED=38", "-DCLOCK=BPF_FUNC_ktime_get_ns", "-DBARE"]) {
        return;
    }
    let file = write(&place, &(experiment().to_owned() + "rx.object = \"own.o\"\n"));
    let run = place.call(place.run(&["--allow-commands"]).arg(file));
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    let all = run.cell()["verdicts"].as_array().expect("verdicts");
    let bare = all.iter().find(|verdict| verdict["id"] == "no-metadata").unwrap_or_else(|| panic!("{all:#?}"));
    let (received, unstamped) = (&bare["evidence"]["warmup_received"], &bare["evidence"]["unstamped"]);
    assert!(received.as_u64() > Some(0) && received == unstamped && bare["level"] == "invalid", "{bare}");
    assert!(bare["says"].as_str().is_some_and(|says| says.contains("or a program of your own writes none")), "{bare}");
    assert_eq!(run.metric("rx_xdp..receive")["coverage"], 0.0, "{}", run.stdout);
    // A user who watches can stop the run before it has taken its time. Two trials say it once.
    assert_eq!(run.stderr.matches("all: no-metadata: none of 10 warm-up packets of ").count(), 1, "{}", run.stderr);
    let log = std::fs::read_to_string(place.out().join("events.jsonl")).expect("the log");
    let is = |line: &str, event: &str| line.contains(&format!("\"event\":\"{event}\""));
    let at = |event: &str| log.lines().position(|line| is(line, event)).unwrap_or_else(|| panic!("{event}: {log}"));
    assert!(at("trial") < at("unstamped") && at("unstamped") < at("trial_kept"), "{log}");
}

/// Every frame has had a hint before, whose time is plausible.
#[test]
fn a_packet_without_a_hint_does_not_show_that_of_its_frames_last_packet() {
    let test = "a_packet_without_a_hint_does_not_show_that_of_its_frames_last_packet";
    if !can_run(test) {
        return;
    }
    let place = Place::new();
    let object = place.path("own.o");
    let flags = ["-DNEEDED=38", "-DCLOCK=BPF_FUNC_ktime_get_tai_ns", "-DBARE=seq % 3 == 0"];
    if !compile_own(test, &object, &flags) {
        return;
    }
    let text = experiment().replace("trials = 2", "trials = 1") + "size = \"100B\"\nrx.frames = 128\n";
    let run = place.call(place.run(&["--xdp-object", &object.display().to_string()]).arg(write(&place, &text)));
    let seen = &record(&place, "all")["xdp"]["seen"];
    let of = (&seen["by_hint"], &seen["unstamped"], &seen["implausible"]);
    assert_eq!(of, (&json!({"even": 200, "odd": 200}), &json!(200), &json!(0)), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.metric("rx_xdp..receive")["count"], 400, "{}", run.stdout);
}

#[test]
fn a_users_program_that_the_verifier_refuses_is_refused_with_the_end_of_its_log() {
    let test = "a_users_program_that_the_verifier_refuses_is_refused_with_the_end_of_its_log";
    if !can_run(test) {
        return;
    }
    let place = Place::new();
    // It reads 34 bytes, having looked for 20.
    if !compile_own(test, &place.path("own.o"), &["-DNEEDED=20", "-DCLOCK=BPF_FUNC_ktime_get_ns"]) {
        return;
    }
    let file = write(&place, &(experiment().to_owned() + "rx.object = \"own.o\"\n"));
    let run = place.call(place.run(&["--allow-commands"]).arg(file));
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    let all = run.stdout.clone() + &run.stderr;
    assert!(all.contains("the kernel's verifier refuses the XDP program `own`; the last lines of its log:"), "{all}");
    assert!(all.contains("invalid access to packet"), "{all}");
    assert_eq!(agents(&place), [0u32; 0]);
}

#[test]
fn a_users_program_that_prints_is_named_with_its_cost_before_the_first_packet() {
    let test = "a_users_program_that_prints_is_named_with_its_cost_before_the_first_packet";
    if !can_run(test) {
        return;
    }
    let place = Place::new();
    let flags = ["-DNEEDED=38", "-DCLOCK=BPF_FUNC_ktime_get_ns", "-DPRINTS", "-DDEVICE=9999"];
    if !compile_own(test, &place.path("own.o"), &flags) {
        return;
    }
    let file =
        write(&place, &(experiment().to_owned() + "rx.object = \"own.o\"\n").replace("trials = 2", "trials = 1"));
    let run = place.call(place.run(&["--allow-commands"]).arg(file));
    run.ran();
    let line = run.stderr.lines().find(|line| line.contains("all: printk: ")).expect("it was named");
    assert!(line.contains("program `own`, by which b receives, has 1 call that write"), "{line}");
    let events = place.events();
    let found = events.iter().find(|line| line["event"] == "found").expect("an event");
    let first = crate::pitfalls::first_packet(&place).expect("a trial was kept");
    assert!(found["at_utc"].as_str().is_some_and(|found| found <= &*first), "{found}, first packet at {first}");
    let all = run.cell()["verdicts"].as_array().expect("verdicts");
    let of = |id: &str| all.iter().find(|verdict| verdict["id"] == id).unwrap_or_else(|| panic!("no {id}: {all:#?}"));
    let [printk, number] = [of("printk"), of("device-number")];
    let cost = |name: &str| printk["evidence"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {printk}"));
    assert_eq!((&printk["level"], &printk["evidence"]["calls"]), (&json!("warning"), &json!(1)), "{printk}");
    assert!(cost("cost_ns") > 0.0 && cost("cost_low_ns") <= cost("cost_ns"), "{printk}");
    assert!(cost("cost_ns") <= cost("cost_high_ns") && cost("pairs") > 0.0, "{printk}");
    assert_eq!((&number["level"], &number["evidence"]["number"]), (&json!("warning"), &json!(9999)), "{number}");
    assert!(number["says"].as_str().is_some_and(|says| says.contains("no device of b has it")), "{number}");
}

/// All that a device can be asked for.
const ALL: [DeviceHint; 3] = DeviceHint::ALL;

/// Gives each packet a tag as a VLAN device does: next to the packet, not in it.
const TAGS: &str = r#"
#include <linux/bpf.h>
static long (*const push)(struct __sk_buff *, __u16, __u16) = (void *)BPF_FUNC_skb_vlan_push;
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
__attribute__((section("tc"), used)) int tags(struct __sk_buff *skb)
{
	push(skb, __builtin_bswap16(0x8100), 3 << 13 | 5);
	return 0;
}
"#;

/// Sends a frame and gives what the program left before it at the other end, by column, with the
/// struct's name.
fn left(rings: &mut Rings, seq: u32, mark: u8) -> (String, BTreeMap<String, Option<i64>>) {
    let mut socket = sender("near", 0, TxStamps::default(), 1 << 20, None).expect("a socket");
    let mut waiter = rings.waiter(WaitBy::Poll).expect("it can be waited");
    let mut sent = frame(3, FILTER.nonce, None, seq);
    sent[14 + 4] |= mark;
    socket.send(&sent, 0, None).expect("it is sent");
    let came = wait(Duration::from_secs(2), || (waiter.wait(50) && rings.take(8) == 1).then_some(()));
    came.unwrap_or_else(|| panic!("packet {seq} did not come: {:?}", rings.losses()));
    let stamp = rings.stamp(0).expect("a stamp");
    assert_eq!(stamp.mark, (mark == MARK).then_some(seq));
    let hints = device_columns().expect("columns").decode([Some(rings.area(0))].into_iter());
    let values = hints.columns.iter().map(|column| (column.name.clone(), column.values[0]));
    (hints.name(0).unwrap_or_default().to_owned(), values.collect())
}

#[test]
fn a_program_that_asks_the_device_tells_what_is_absent_from_what_is_not_offered() {
    let test = "a_program_that_asks_the_device_tells_what_is_absent_from_what_is_not_offered";
    let folder = tempfile::tempdir().expect("a folder");
    let tags = folder.path().join("tags.o");
    if !can_run(test) || !compile(test, TAGS, &tags, &[]) {
        return;
    }
    let pair = Pair::new();
    let tc = |args: &str| {
        let output = Command::new("tc").args(["-n", &pair.0]).args(args.split(' ')).output().expect("tc is installed");
        assert!(output.status.success(), "tc {args}: {}", String::from_utf8_lossy(&output.stderr));
    };
    pair.inside(|| {
        let asking = |program| Asked { program, ..asked("far") };
        let (mut rings, opened) = Rings::open(&asking(Chosen::Asking(FILTER, &ALL))).expect("sockets");
        if let Some(why) = opened.without_hints {
            return tardy_tests::skip(test, &why);
        }
        assert!(opened.asks_device && opened.mode == XdpMode::Native, "{opened:?}");
        for (seq, mark, name) in [(1, 0, "rx_hints"), (2, MARK, "mark_hints")] {
            let (of, values) = left(&mut rings, seq, mark);
            assert_eq!(of, name);
            let value = |name: &str| values[name];
            // veth's driver knows all three calls. No device stamped the packet or took a tag off,
            // so these are absent and not 0; the kernel made a hash.
            assert_eq!([value("has_hw_time"), value("offers_hw_time"), value("hw_time")], [Some(0), Some(1), None]);
            assert_eq!([value("has_vlan"), value("vlan_tci"), value("vlan_proto")], [Some(0), None, None]);
            assert_eq!([value("has_hash"), value("offers_hash")], [Some(1), Some(1)]);
            assert!(value("hash").is_some() && value("hash_type").is_some(), "{values:?}");
        }
        // Linux 6.8 has the third.
        if left(&mut rings, 3, 0).1["offers_vlan"] == Some(1) {
            tc("qdisc add dev near clsact");
            tc(&format!("filter add dev near egress bpf da obj {} sec tc", tags.display()));
            let (_, values) = left(&mut rings, 4, 0);
            let tag = ["has_vlan", "vlan_tci", "vlan_proto"].map(|name| values[name]);
            assert_eq!(tag, [Some(1), Some(3 << 13 | 5), Some(0x8100)], "{values:?}");
        }
        drop(rings);
        // What is not asked for is called by nobody.
        let hash = [DeviceHint::Hash];
        let (mut rings, _) = Rings::open(&asking(Chosen::Asking(FILTER, &hash))).expect("sockets");
        let (_, values) = left(&mut rings, 5, 0);
        let offers = ["offers_hw_time", "offers_hash", "offers_vlan"].map(|name| values[name]);
        assert_eq!(offers, [Some(0), Some(1), Some(0)]);
    });
}

#[test]
fn a_device_that_cannot_be_asked_gets_the_plain_program_and_the_run_says_why() {
    if !can_run("a_device_that_cannot_be_asked_gets_the_plain_program_and_the_run_says_why") {
        return;
    }
    let place = Place::new();
    // A page is too short for these packets, so the driver takes no program.
    let text =
        experiment().replace("trials = 2", "trials = 1") + "rx.hints = [\"hw_time\", \"hash\"]\n[path]\nmtu = 9000\n";
    let run = place.call(place.run(&[]).arg(write(&place, &text)));
    run.ran();
    let xdp = &record(&place, "all")["xdp"];
    assert_eq!(xdp["mode"], "generic", "{xdp}");
    let why = xdp["without_hints"].as_str().expect("a reason");
    assert!(why.contains("needs Linux 6.3 and native mode"), "{why}");
    assert!(run.cell()["verdicts"].as_array().expect("verdicts").iter().any(|verdict| {
        verdict["id"] == "xdp-mode" && verdict["says"].as_str().is_some_and(|says| says.contains("`rx.hints` asks for"))
    }));
    let samples = tardy_store::SamplesFile::open(&place.out().join("trials/all/1/samples.parquet")).expect("samples");
    for page in samples.hints("ctl").expect("a stream").expect("columns, without values") {
        let page = page.expect("a sound page");
        assert!(page.of.iter().all(Option::is_none), "the plain program leaves none of these structs");
    }

    let place = Place::new();
    let text = experiment().replace("trials = 2", "trials = 1") + "rx.hints = [\"hw_time\", \"hash\"]\n";
    let run = place.call(place.run(&[]).arg(write(&place, &text)));
    run.ran();
    assert_eq!(run.metric("rx_xdp..receive")["coverage"], 1.0, "{}", run.stdout);
    let xdp = &record(&place, "all")["xdp"];
    if xdp["without_hints"].is_null() {
        let counted = json!([
            {"hint": "hw_time", "given": 0, "absent": 600, "not_offered": 0},
            {"hint": "hash", "given": 600, "absent": 0, "not_offered": 0}
        ]);
        assert_eq!(xdp["device_hints"], counted, "{xdp}");
    }
}
