// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users' own XDP programs that an experiment names: what is refused of them, and what a plan says
//! of the others. clang compiles all of them from one program in C, by flags.

use super::{compiled, text};
use crate::help::tardy;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tardy_bpf::program::Stamps;
use tardy_bpf::user::UserObject;

/// An XDP program of which flags leave something out, or spoil it.
const PROGRAM: &str = r#"
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
#ifndef SECTION
#define SECTION "xdp"
#endif
#ifndef LAST
#define LAST __u32 btf_id
#endif
#ifndef HELPER
#define HELPER BPF_FUNC_ktime_get_ns
#endif
#ifndef TYPE
#define TYPE BPF_MAP_TYPE_XSKMAP
#endif
struct { int (*type)[TYPE]; int (*max_entries)[4]; __u32 *key; __u32 *value;
#ifdef PINNED
	int (*pinning)[1];
#endif
#ifdef HIDDEN
	int (*pinning)[0];
	int (*pinninX)[1];
#endif
#ifdef EXTRA
	int (*map_extra)[1];
#endif
} xsks_map SEC(".maps");
#ifdef ARENA
struct { int (*type)[ARENA]; int (*max_entries)[1]; } memory SEC(".maps");
#endif
#ifdef TABLE
char second[8] SEC(".BTX") = "table";
#endif
struct seen { __u64 time; __s16 Seq; __u8 mac[6]; LAST; } __attribute__((packed, aligned(4)));
struct other { __u64 first_ns, last_ns; __u32 cpu, receive, __btf; __u32 seq; __s32 gap; __u32 btf_id; };
static __u64 (*const clock)(void) = (void *)HELPER;
static long (*const redirect_map)(void *, __u64, __u64) = (void *)BPF_FUNC_redirect_map;
#ifdef PRINTS
static long (*const print)(const char *, __u32, ...) = (void *)BPF_FUNC_trace_printk;
static long (*const redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
#endif
char LICENSE[] SEC("license") = "GPL";
#ifdef VARIABLE
const volatile __u32 unused = 1, out_device = VARIABLE;
#endif
#ifdef SYMBOL
extern const void init_net __attribute__((section(".ksyms")));
#endif
#ifdef DEVICE_TIME
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) SEC(".ksyms");
#endif
SEC(SECTION) int one(struct xdp_md *ctx)
{
#ifdef DEVICE_TIME
	__u64 at = 0;
	if (bpf_xdp_metadata_rx_timestamp(ctx, &at))
		return XDP_DROP;
#endif
#ifdef NO_BTF
	__u64 ids = 0;
#else
	__u64 ids = __builtin_btf_type_id(*(struct seen *)0, 0);
#endif
#ifdef OTHER
	ids += __builtin_btf_type_id(*(struct other *)0, 0);
#endif
#ifdef SYMBOL
	if (&init_net == (void *)ctx)
		return XDP_DROP;
#endif
#ifdef PRINTS
	print("a", 2);
#endif
#ifdef NUMBER
	if (ids == 77)
		return redirect(NUMBER, 0);
#endif
#ifdef VARIABLE
	if (ids == 78)
		return redirect(out_device, 0);
#endif
	return clock() + ids ? redirect_map(&xsks_map, 0, XDP_PASS) : XDP_PASS;
}
#ifdef SECOND
SEC(SECOND) int two(struct xdp_md *ctx) { return XDP_PASS; }
#endif
"#;

const STATIONS: &str = tardy_tests::part("two stations");

/// An experiment for port xdp, and objects next to it.
struct Planned {
    folder: tempfile::TempDir,
}

impl Planned {
    fn new(more: &str) -> Planned {
        let folder = tempfile::tempdir().expect("a folder");
        let stream = tardy_tests::experiment("received by an XDP program");
        let text = format!("{STATIONS}{stream}{more}");
        fs::write(folder.path().join("xdp.toml"), text).expect("written");
        fs::write(folder.path().join("one.c"), PROGRAM).expect("written");
        Planned { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a name").to_owned()
    }

    fn plan(&self, arguments: &[&str]) -> Output {
        Command::new(tardy()).args(["plan", &self.path("xdp.toml")]).args(arguments).output().expect("tardy runs")
    }
}

/// The bytes with one word in place of another of the same length, wherever that is: debug
/// information has it too.
fn renamed(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "it is there");
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    bytes
}

#[test]
fn libbpf_and_tardy_read_two_things_out_of_one_object() {
    let test = "libbpf_and_tardy_read_two_things_out_of_one_object";
    let planned = Planned::new("");
    let (source, object) = (planned.folder.path().join("one.c"), planned.path("one.o"));
    for (flag, from, to, why) in [
        (
            "-DHIDDEN",
            b"pinninX\0".as_slice(),
            b"pinning\0".as_slice(),
            "its map `xsks_map` has the member `pinning` twice",
        ),
        ("-DTABLE", b".BTX\0", b".BTF\0", "it has 2 sections .BTF"),
    ] {
        if compiled(test, &source, Path::new(&object), &["-g", flag]).is_none() {
            return;
        }
        assert_eq!(planned.plan(&["--xdp-object", &object]).status.code(), Some(0), "{flag}: it is sound");
        let bytes = fs::read(&object).expect("an object");
        fs::write(&object, renamed(&bytes, from, to)).expect("written");
        let output = planned.plan(&["--xdp-object", &object]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(why), "{flag}: {error}");
    }
}

#[test]
fn two_objects_had_hint_members_that_sql_cannot_tell_apart() {
    let test = "two_objects_had_hint_members_that_sql_cannot_tell_apart";
    let two = tardy_tests::experiment("one object in two streams").replace("rx.core = \"same\"\n", "");
    let (one, other) = two.rsplit_once("one.o").expect("the second stream's");
    let planned = Planned::new(&format!("{one}two.o{other}"));
    let source = planned.folder.path().join("one.c");
    let same = |flag| compiled(test, &source, Path::new(&planned.path("two.o")), &["-g", flag]);
    if compiled(test, &source, Path::new(&planned.path("one.o")), &["-g"]).is_none() {
        return;
    }
    same("-DSeq=Seq").expect("clang");
    assert_eq!(planned.plan(&[]).status.code(), Some(0), "{}", text(&planned.plan(&[]).stderr));
    same("-DSeq=SEQ").expect("clang");
    let output = planned.plan(&[]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("the hint columns `seen.Seq` and `seen.SEQ`, which differ in case alone"), "{error}");
}

#[test]
fn an_object_that_cannot_take_the_programs_place_is_refused_with_what_it_lacks() {
    let test = "an_object_that_cannot_take_the_programs_place_is_refused_with_what_it_lacks";
    let planned = Planned::new("");
    let source = planned.folder.path().join("one.c");
    for (flags, section, why) in [
        (vec!["-DNO_BTF"], "", "it has no section .BTF: compile it with `clang -target bpf -g -O2`"),
        (vec!["-g"], ":xdp/none", "it has no section `xdp/none` with an XDP program, there are: xdp"),
        (vec!["-g"], ":tc", "it has no section `tc` with an XDP program, there are: xdp"),
        (vec!["-g", "-DSECTION=\"tc\""], "", "it has no XDP program, its sections with programs are: tc"),
        (vec!["-g", "-DSECTION=\"xdp_devmap\""], "", "its sections with programs are: xdp_devmap"),
        (vec!["-g", "-DTYPE=2"], "", "it has no map `xsks_map` of type BPF_MAP_TYPE_XSKMAP"),
        (vec!["-g", "-Dxsks_map=mine"], "", "it has no map `xsks_map` of type"),
        (vec!["-g", "-DPINNED"], "", "its map `xsks_map` is pinned, and would be left behind"),
        (vec!["-g", "-DARENA=33"], "", "its map `memory` is an arena or has `map_extra`"),
        (vec!["-g", "-DARENA=12"], "", "its map `memory` holds maps, whose memory is not known beforehand"),
        (vec!["-g", "-DARENA=13"], "", "its map `memory` holds maps, whose memory is not known beforehand"),
        (vec!["-g", "-DEXTRA"], "", "its map `xsks_map` is an arena or has `map_extra`"),
        (vec!["-g", "-DLAST=__u32 id"], "", "it has no hint struct, whose last member is `__u32 btf_id`"),
        (vec!["-g", "-DLAST=__u64 btf_id"], "", "seen has a btf_id of type `__u64`"),
        (vec!["-g", "-DSECOND=\"xdp/two\""], "", "name one of them, as FILE:SECTION: xdp, xdp/two"),
        (vec!["-g", "-DSECOND=\"xdp\""], ":xdp", "its section `xdp` has the programs one, two"),
    ] {
        let object = planned.path("one.o");
        if compiled(test, &source, Path::new(&object), &flags).is_none() {
            return;
        }
        let output = planned.plan(&["--xdp-object", &format!("{object}{section}")]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{flags:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(&format!("the XDP object {object}: ")) && error.contains(why), "{flags:?}: {error}");
    }
}

#[test]
fn a_receiver_was_placed_by_the_cpu_that_a_users_hints_do_not_show() {
    let test = "a_receiver_was_placed_by_the_cpu_that_a_users_hints_do_not_show";
    let planned = Planned::new("rx.core = \"same\"\nrx.object = \"one.o\"\n");
    let (source, object) = (planned.folder.path().join("one.c"), planned.path("one.o"));
    if compiled(test, &source, Path::new(&object), &["-g"]).is_none() {
        return;
    }
    let output = planned.plan(&[]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("stream.ctl.rx.core needs hints that all show the program's CPU and a time"), "{error}");
    // The same object in another stream before it must not hide that.
    let twice = Planned::new(tardy_tests::experiment("one object in two streams"));
    fs::copy(&object, twice.path("one.o")).expect("copied");
    let error = text(&twice.plan(&[]).stderr);
    assert!(error.contains("stream.two.rx.core needs hints that all show the program's CPU and a time"), "{error}");
    compiled(test, &source, Path::new(&object), &["-g", "-DLAST=__u32 cpu, btf_id"]).expect("clang");
    let output = planned.plan(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn what_is_no_object_takes_no_programs_place() {
    let planned = Planned::new("");
    fs::write(planned.path("text.o"), "a program\n").expect("written");
    fs::write(planned.path("cut.o"), b"\x7fELF\x02\x01\x01").expect("written");
    fs::write(planned.path("large.o"), vec![0; (1 << 20) + 1]).expect("written");
    for (name, why) in [
        ("text.o", "it is neither an ELF file nor BTF"),
        ("cut.o", "it is a damaged ELF file"),
        ("large.o", "is larger than 1024 KiB"),
        ("missing.o", "No such file"),
        (".", "is not a plain file"),
        ("/proc/kmsg", "is not a plain file, or is empty"),
        ("/sys/kernel/btf/vmlinux", "is not a plain file, or is empty"),
    ] {
        let error = text(&planned.plan(&["--xdp-object", &planned.path(name)]).stderr);
        assert!(error.contains(why) && error.lines().count() == 1, "{name}: {error}");
    }
    let udp =
        Command::new(tardy()).args(["plan", "host-to-host", "--xdp-object", "own.o"]).output().expect("tardy runs");
    let error = text(&udp.stderr);
    assert_eq!(udp.status.code(), Some(2), "{error}");
    assert!(error.contains("--xdp-object: no stream of the experiment is received through port xdp"), "{error}");
}

#[test]
fn a_plan_lists_an_objects_columns_and_clock_and_a_run_of_a_file_asks_first() {
    let test = "a_plan_lists_an_objects_columns_and_clock_and_a_run_of_a_file_asks_first";
    let planned = Planned::new("rx.object = \"one.o:xdp\"\n");
    let (source, object) = (planned.folder.path().join("one.c"), planned.path("one.o"));
    if compiled(test, &source, Path::new(&object), &["-g", "-DOTHER"]).is_none() {
        return;
    }
    let plan = text(&planned.plan(&[]).stdout);
    let all = plan.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" ");
    for says in [
        "the XDP program of one.o, section xdp is loaded into the kernel and sees all packets that arrive at station `b`; \
         `tardy run` does it with --allow-commands",
        "XDP object one.o, section xdp, SHA-256 ",
        // Each name once; taken ones, and ones that differ in case alone, with their struct.
        "hint, first_ns, last_ns, cpu, other.receive, __btf, other.seq, gap, time, seen.Seq",
        "not recorded: seen.mac is array of 6 bytes, and not an integer of at most 8",
        "rx_xdp is of its time, by the clock monotonic; other has several members that may be its time, so name one of them, as FILE@MEMBER: first_ns, last_ns",
        "metrics of its times: first_ns..receive, last_ns..receive, time..receive",
    ] {
        assert!(all.contains(says), "{says}\n{plan}");
    }
    // One of them is named on the command line, and in place of the file's own.
    let named = |member: &str| {
        let output = planned.plan(&["--xdp-object", &format!("{object}:xdp@{member}")]);
        let all = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), all.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" "))
    };
    let (code, all) = named("last_ns");
    let says = "rx_xdp is of its member last_ns, by the clock monotonic; seen has no member `last_ns`";
    assert!(code == Some(0) && all.contains(says), "{all}");
    let (code, all) = named("last_ns,first_ns");
    assert!(code == Some(0) && all.contains(says), "the first one is the arrival: {all}");
    for none in ["cpu", "gap", "nothing", "last_ns,nothing"] {
        let (code, all) = named(none);
        let says = format!(
            "an unsigned integer of 8 bytes that is named `{}`, there are: first_ns, last_ns, time",
            none.trim_start_matches("last_ns,")
        );
        assert!(code == Some(2) && all.contains(&says), "{none}: {all}");
    }

    let bytes = fs::read(&object).expect("an object");
    let time = |member: Option<&str>| {
        let user = UserObject::of(&bytes, Some("xdp")).expect("it is sound");
        let user = user.timed_by(member.as_slice()).expect("it has that member");
        let layouts = user.columns().layouts().clone();
        let other = layouts.by_name("other").next().expect("a struct").clone();
        let stamps = Stamps::of(layouts, true, user.time());
        let mut area = vec![0; stamps.area()];
        let start = area.len() - other.size;
        for (name, value) in [("first_ns", 5), ("last_ns", 9), ("btf_id", u64::from(other.id))] {
            let member = other.member(name).expect("a member");
            let at = start + member.offset;
            area[at..at + member.size].copy_from_slice(&value.to_le_bytes()[..member.size]);
        }
        stamps.read(&area).map(|stamp| stamp.time_ns)
    };
    assert_eq!([None, Some("first_ns"), Some("last_ns")].map(time), [None, Some(5), Some(9)]);

    let run = Command::new(tardy()).args(["run", &planned.path("xdp.toml"), "--out", &planned.path("out")]).output();
    let run = run.expect("tardy runs");
    let error = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{error}");
    assert!(error.contains("call `tardy run` with --allow-commands") && error.contains("one.o"), "{error}");

    // What its code shows is reported before anything runs.
    compiled(test, &source, Path::new(&object), &["-g", "-DPRINTS", "-DNUMBER=4711"]).expect("clang");
    let plan = text(&planned.plan(&[]).stdout);
    let all = plan.split_whitespace().filter(|word| *word != "#").collect::<Vec<_>>().join(" ");
    assert!(all.contains("its function one prints a line into the kernel's trace: each line delays"), "{plan}");
    assert!(all.contains("it redirects to device number 4711, which is written into the object"), "{plan}");
    compiled(test, &source, Path::new(&object), &["-g", "-DPRINTS", "-DVARIABLE=4712"]).expect("clang");
    let plan = text(&planned.plan(&[]).stdout);
    assert!(plan.contains("it redirects to device number 4712, which"), "the first value of a variable: {plan}");
    // A symbol of the kernel is of type void: no map, and nothing that is wrong.
    compiled(test, &source, Path::new(&object), &["-g", "-DSYMBOL"]).expect("clang");
    assert_eq!(planned.plan(&[]).status.code(), Some(0), "{}", text(&planned.plan(&[]).stderr));
    // A call through a helper that gives no useful time, and one of two clocks.
    compiled(test, &source, Path::new(&object), &["-g", "-DHELPER=BPF_FUNC_ktime_get_coarse_ns"]).expect("clang");
    let plan = text(&planned.plan(&[]).stdout);
    let why = "rx_xdp is absent: the program calls bpf_ktime_get_coarse_ns, which gives the time of the last tick";
    assert!(plan.contains(why), "{plan}");
    assert!(plan.contains("metrics of its times are absent, time..receive: the program calls"), "{plan}");
    // The device's clock is none of the host's, whatever else the program calls.
    compiled(test, &source, Path::new(&object), &["-g", "-DDEVICE_TIME"]).expect("clang");
    let plan = text(&planned.plan(&[]).stdout);
    let why = "rx_xdp is absent: the program takes times of the device (bpf_xdp_metadata_rx_timestamp)";
    assert!(plan.contains(why), "{plan}");
}
