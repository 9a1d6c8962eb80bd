// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clang makes of BPF programs in C, `tardy hints` of it, and the two programs in
//! `crates/bpf/examples` that decode areas, in Rust and in C. Programs that an experiment names are
//! in [`planned`].

mod planned;

use crate::help::tardy;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tardy_bpf::hints::Layouts;
use tardy_bpf::program::device_columns;
use tardy_lab::coordinator::memory;

fn examples() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/bpf/examples")).to_owned()
}

/// Compiles a BPF program; `None`, counted, where there is no clang.
fn compiled(test: &str, source: &Path, object: &Path, flags: &[&str]) -> Option<()> {
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-O2", "-Wall", "-Werror", "-I"]).arg(examples());
    clang.args(["-I", "/usr/include/x86_64-linux-gnu"]).args(flags).arg("-c").arg(source).arg("-o").arg(object);
    match clang.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(())
        }
        Err(error) => {
            tardy_tests::skip(test, &format!("clang: {error}: packaging/setup.sh installs it"));
            None
        }
    }
}

fn hints(arguments: &[&str]) -> Output {
    Command::new(tardy()).arg("hints").args(arguments).output().expect("tardy runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The only line on stderr of a call that ends with 2 and prints nothing.
fn refused(argument: &str) -> String {
    let output = hints(&[argument]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{argument}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn hints_of_a_file_that_is_not_there_had_no_next_step() {
    let error = refused("nosuch.o");
    let next =
        "No such file or directory (os error 2): name a BPF object's file, `vmlinux`, or a module that is loaded";
    assert!(error.contains(next), "{error}");
}

const TABLE: &str = "\
struct    id  size  member  offset  from packet  bytes  is        type   column
priority  ID    16  time         0          -16      8  unsigned  __u64  time
                    vlan         8           -8      2  unsigned  __u16  vlan
                    pcp         10           -6      2  unsigned  __u16  priority.pcp
                    btf_id      12           -4      4  unsigned  __u32  -
arrival   ID    20  time         0          -20      8  unsigned  __u64  time
                    cpu          8          -12      2  unsigned  __u16  cpu
                    length      10          -10      2  unsigned  __u16  length
                    gap         12           -8      4  signed    __s32  gap
                    btf_id      16           -4      4  unsigned  __u32  -
";

#[test]
fn the_hints_of_a_users_own_object_are_listed_and_decoded_in_rust_and_in_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("own_hints.o");
    let name = object.to_str().expect("a name");
    let test = "the_hints_of_a_users_own_object_are_listed_and_decoded_in_rust_and_in_c";
    if compiled(test, &examples().join("own_hints.bpf.c"), &object, &["-g"]).is_none() {
        return;
    }
    let layouts = Layouts::of_object(&fs::read(&object).expect("the object")).expect("hint structs");
    let id = |name| layouts.by_name(name).next().map(|layout| layout.id).expect("it is there");
    let (priority, arrival) = (id("priority"), id("arrival"));

    let output = hints(&[name]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    // Which numbers the types get is clang's affair.
    let numbers = TABLE.replacen("ID", &format!("{priority:>2}"), 1).replacen("ID", &format!("{arrival:>2}"), 1);
    assert_eq!(text(&output.stdout), numbers);
    let json: serde_json::Value = serde_json::from_slice(&hints(&[name, "--json"]).stdout).expect("JSON");
    let member = &json["structs"][1]["members"][3];
    assert_eq!(
        (json["structs"][1]["id"].as_u64(), json["structs"][1]["size"].as_u64()),
        (Some(arrival.into()), Some(20))
    );
    let gap = r#"{"name":"gap","offset":12,"from_packet":-8,"size":4,"kind":"signed","signed":true,"type":"__s32","column":"gap"}"#;
    assert_eq!(member, &serde_json::from_str::<serde_json::Value>(gap).expect("JSON"));

    let areas = format!(
        "00010203040506070100dc05ffffffff{}\nffff05000000000000000c000300{}\n00000000\n\n{}\n",
        hex(arrival),
        hex(priority),
        hex(arrival)
    );
    let decoded = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        let child = command.arg(&object).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        child.stdin.take().expect("a pipe").write_all(areas.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        text(&output.stdout)
    };
    let first = format!(
        "arrival {{ time=506097522914230528, cpu=1, length=1500, gap=-1, btf_id={arrival} }}\n\
         priority {{ time=5, vlan=12, pcp=3, btf_id={priority} }}\nabsent\nabsent\n"
    );
    let rust = example("decode");
    let short = "the area before the packet has 4 bytes, and the hint needs 20\n";
    assert_eq!(decoded(&rust, &[]), format!("{first}{short}"));
    assert_eq!(
        decoded(&rust, &["arrival", "gap"]),
        format!("{}\nabsent\nabsent\n{short}1 of another struct\n", -1i64 as u64)
    );

    let c = folder.path().join("decode");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(examples().join("../include"));
    let output = cc.arg(examples().join("decode.c")).arg("-o").arg(&c).output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(decoded(&c, &[]), format!("{first}not decoded: type {arrival}\n"));

    // A struct of the same name that has other members would be read wrongly.
    for file in ["own_hints.bpf.c", "own_hints.h"] {
        let source = fs::read_to_string(examples().join(file)).expect("the source");
        let changed = source.replace("__u16 length;", "__u16 length;\n\t__u32 more;");
        fs::write(folder.path().join(file), changed).expect("written");
    }
    let changed = folder.path().join("changed.o");
    compiled(test, &folder.path().join("own_hints.bpf.c"), &changed, &["-g"]).expect("a compiler, as before");
    let output = Command::new(&c).arg(&changed).stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("not those that this program was compiled for"), "{}", text(&output.stderr));
}

#[test]
fn hints_of_a_users_own_program_were_not_in_the_memory_that_a_cell_needs() {
    const STATIONS: &str = tardy_tests::part("two stations");
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("own_hints.o");
    let test = "hints_of_a_users_own_program_were_not_in_the_memory_that_a_cell_needs";
    if compiled(test, &examples().join("own_hints.bpf.c"), &object, &["-g"]).is_none() {
        return;
    }
    let stream = tardy_tests::experiment("received by an XDP program");
    let text = format!("{STATIONS}{stream}count = 1000000\nrx.object = \"own_hints.o\"\n");
    let source = tardy_spec::Source { name: "x.toml".into(), text };
    let mut setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
    let without = memory(&setup);
    let own = setup.streams[0].rx.object.as_mut().expect("the object");
    own.bytes = fs::read(&object).expect("the object").into();
    let each = (memory(&setup) - without) / 1_000_000;
    // The largest struct has 20 bytes and is kept three times, with an eighth for duplicates. The
    // columns time, vlan, pcp, cpu, length and gap are decoded into 16 bytes each and written.
    assert!((3 * 20 * 9 / 8 + 6 * 16..400).contains(&each), "{each} bytes a packet");
}

fn hex(id: u32) -> String {
    id.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An example of the workspace, built with the tests.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let path = own.parent().and_then(Path::parent).expect("the build's folder").join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --release --workspace --all-targets", path.display());
    path
}

#[test]
fn an_object_without_btf_or_without_a_hint_struct_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let source = folder.path().join("none.bpf.c");
    let program = "struct plain { int a; int b; }; struct nearly { unsigned long btf_id; };\n\
                   int of(struct plain *p, struct nearly *n) { return p->b + (int)n->btf_id; }\n";
    fs::write(&source, program).expect("written");
    let test = "an_object_without_btf_or_without_a_hint_struct_says_what_is_missing";
    if compiled(test, &source, Path::new(&path("stripped.o")), &[]).is_none() {
        return;
    }
    let error = refused(&path("stripped.o"));
    assert!(error.contains("has no section .BTF: compile it with `clang -target bpf -g -O2`"), "{error}");
    compiled(test, &source, Path::new(&path("none.o")), &["-g"]).expect("clang");
    let error = refused(&path("none.o"));
    let why = "has no hint struct: the last member of one is `__u32 btf_id`; its 2 structs are plain, nearly; nearly has a \
               btf_id of type `unsigned long`, and not an integer of 4 bytes";
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_is_no_object_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    fs::write(path("text.o"), "a program\n").expect("written");
    fs::write(path("cut.o"), b"\x7fELF\x02\x01\x01").expect("written");
    fs::write(path("empty.o"), b"").expect("written");
    for (argument, why) in [
        (path("text.o"), "it is neither an ELF file nor BTF"),
        (path("empty.o"), "is not a plain file, or is empty"),
        ("/proc/kmsg".to_owned(), "is not a plain file, or is empty"),
        (path("cut.o"), "it is a damaged ELF file"),
        (path("missing.o"), "No such file"),
        (folder.path().display().to_string(), "is not a plain file"),
        ("/dev/zero".to_owned(), "is not a plain file"),
        ("no-such-module".to_owned(), "there is no module `no-such-module` with BTF"),
        (tardy().display().to_string(), "it has no section .BTF"),
    ] {
        let error = refused(&argument);
        assert!(error.contains(why), "{argument}: {error}");
    }
}

#[test]
fn the_running_kernels_structs_are_listed_or_the_reason_is_given() {
    let output = hints(&["vmlinux", "--json"]);
    let error = text(&output.stderr);
    match output.status.code() {
        Some(0) => {
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let structs = json["structs"].as_array().expect("a list");
            assert!(structs.iter().all(|one| one["members"].as_array().is_some_and(|all| !all.is_empty())), "{json}");
        }
        Some(2) => assert!(error.contains("vmlinux has no hint struct"), "{error}"),
        Some(3) => assert!(error.contains("CONFIG_DEBUG_INFO_BTF"), "{error}"),
        code => panic!("{code:?}: {error}"),
    }
}

#[test]
fn what_a_device_had_no_value_for_is_absent_and_not_0() {
    let columns = device_columns().expect("columns");
    let layout = columns.layouts().by_name("rx_hints").next().expect("a struct").clone();
    let area = |values: &[(&str, u64)]| {
        let mut bytes = vec![0xaa; columns.area()];
        let start = bytes.len() - layout.size;
        bytes[start..].fill(0);
        for (name, value) in values.iter().chain(&[("btf_id", u64::from(layout.id))]) {
            let member = layout.member(name).expect("a member");
            let at = start + member.offset;
            bytes[at..at + member.size].copy_from_slice(&value.to_le_bytes()[..member.size]);
        }
        bytes
    };
    // What the device left in a value does not matter where the kernel's function failed.
    let of_hash = area(&[("has_hash", 1), ("offers_hash", 1), ("hash_type", 9), ("vlan_tci", 5), ("offers_vlan", 1)]);
    let of_vlan = area(&[("has_vlan", 1), ("vlan_tci", 0), ("vlan_proto", 0x8100), ("hw_time", 7), ("hash", 7)]);
    let rows = columns.decode([Some(&of_hash[..]), Some(&of_vlan), None].into_iter());
    let column = |name: &str| {
        let column = rows.columns.iter().find(|column| column.name == name);
        column.unwrap_or_else(|| panic!("no column {name}")).values.clone()
    };
    assert_eq!(column("hw_time"), [None; 3]);
    assert_eq!((column("hash"), column("hash_type")), (vec![Some(0), None, None], vec![Some(9), None, None]));
    assert_eq!(column("vlan_tci"), [None, Some(0), None]);
    assert_eq!(column("vlan_proto"), [None, Some(0x8100), None]);
    assert_eq!(column("has_vlan"), [Some(0), Some(1), None]);
    assert_eq!(column("offers_vlan"), [Some(1), Some(0), None]);
}
