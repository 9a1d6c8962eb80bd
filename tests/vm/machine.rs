// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations that are virtual machines: every way into one carries packets, and whatever ends the
//! run, nothing of it stays.

use crate::command::{Finished, Place, wait};
use crate::exact::{manifest, print};
use crate::{builds_emulator, can_run, can_run_machines, is_gone, qemu_of, qemus};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tardy_sys::process::signal;

fn file(place: &Place) -> PathBuf {
    let file = place.path("machine.toml");
    std::fs::write(&file, tardy_tests::experiment("machine")).expect("a file");
    file
}

/// Names of network namespaces of this place's slots.
pub fn namespaces(place: &Place) -> Vec<String> {
    let slots = std::fs::read_dir(place.state().join("slots")).into_iter().flatten().flatten();
    let slots: Vec<String> = slots.filter_map(|slot| slot.file_name().into_string().ok()).collect();
    let list = Command::new("ip").args(["netns", "list"]).output().expect("ip runs");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let is_ours = |name: &&str| slots.iter().any(|slot| name.starts_with(&format!("tardy-{slot}-")));
    list.lines().filter_map(|line| line.split(' ').next()).filter(is_ours).map(str::to_owned).collect()
}

fn undo(place: &Place) -> Finished {
    place.call(&mut place.command("undo"))
}

/// Folders of machines, with what they were given to boot.
pub fn given(place: &Place) -> Vec<String> {
    let folder = std::fs::read_dir(place.state()).into_iter().flatten().flatten();
    let names = folder.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("tardy-machine-")).collect()
}

#[test]
fn every_way_into_a_virtual_machine_carries_small_and_full_packets() {
    if !can_run("every_way_into_a_virtual_machine_carries_small_and_full_packets") {
        return;
    }
    let place = Place::new();
    let run = place.call(place.run(&["--json"]).arg(file(&place)));
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    assert_eq!(cells.len(), 8, "{}", run.stderr);
    for cell in cells {
        let (id, ctl) = (&cell["id"], &cell["streams"]["ctl"]);
        assert_eq!(ctl["outcomes"]["received"], 60, "{id}: {ctl}");
        assert_eq!(ctl["metrics"]["send..reply_receive"]["count"], 60, "{id}: {ctl}");
    }
    let manifest = manifest(&place);
    let host = &manifest["hosts"]["vm"];
    assert_eq!(host["parent"], "this machine", "{host}");
    let by = host["machine"]["guest.accelerator"].as_str().expect("what runs it");
    let guest = run.results["verdicts"].as_array().expect("verdicts").iter().find(|it| it["id"] == "guest");
    let guest = guest.expect("the run says what its figures are").to_string();
    assert_eq!(guest.contains("emulated in software"), by != "kvm", "{guest}");
    // One machine, started once.
    let starts = place.events().into_iter().filter(|event| event["event"] == "trial").count();
    assert_eq!(starts, 8);
    // The clocks of the two kernels were compared before and behind each trial, and the bound is
    // kept.
    let trials = glob(&place);
    assert_eq!(trials.len(), 8);
    for (path, record) in trials {
        let offset = &record["streams"]["ctl"]["offsets"]["rx"];
        assert!(offset["first"]["bound_ns"].as_i64().is_some_and(|bound| bound > 0), "{path}: {offset}");
        // QEMU is a part of the path, and not somebody else who takes a CPU.
        let of_machine = record["after"]["machine_tasks"].as_array().expect("its threads");
        assert!(of_machine.len() > 1, "{path}: {of_machine:?}");
        // All packets of the trial, and of the probes before it, passed what is inside the path.
        for passed in [&record["passed"], &record["inspection"]["passed"]] {
            let devices = passed["devices"].as_object().unwrap_or_else(|| panic!("{path}: {record}"));
            assert!(!devices.is_empty(), "{path}");
            for (device, packets) in devices {
                let least = if std::ptr::eq(passed, &record["passed"]) { 60 } else { 16 };
                let [received, sent] = ["received", "sent"].map(|way| packets[way].as_u64().expect("a count"));
                assert!(received >= least && sent >= least, "{path}: {device}: {packets}");
            }
        }
        assert!(offset["method"].as_str().is_some_and(|how| how.contains("exchanges")), "{path}: {offset}");
    }
    assert_eq!(namespaces(&place), [""; 0]);
    assert_eq!(given(&place), [""; 0]);
    assert!(place.out().join("guest-vm.console.log").exists(), "its console is kept");
}

#[test]
fn rows_with_a_machine_and_without_have_their_own_rulers_and_no_emulated_time_is_judged() {
    if !can_run("rows_with_a_machine_and_without_have_their_own_rulers_and_no_emulated_time_is_judged") {
        return;
    }
    let place = Place::new();
    let file = place.path("some.toml");
    std::fs::write(&file, tardy_tests::experiment("machine in some cases")).expect("a file");
    let run = place.call(place.run(&["--json", "--trials", "1"]).arg(&file));
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    let missing = cells.iter().filter(|cell| !cell["not_available"].is_null()).map(|cell| cell["id"].clone());
    let has_vhost = std::path::Path::new("/dev/vhost-net").exists();
    assert_eq!(missing.collect::<Vec<_>>(), if has_vhost { vec![] } else { vec!["vhost"] }, "{}", run.stderr);
    let manifest = manifest(&place);
    let rulers = manifest["ruler"].as_array().expect("rulers");
    for after in [false, true] {
        let of = |host: Option<&str>| {
            let is_its =
                |it: &&serde_json::Value| it["station"] == "vm" && it["host"].as_str() == host && it["after"] == after;
            rulers.iter().filter(is_its).count()
        };
        assert!(of(None) > 0 && of(Some("vm")) > 0, "after: {after}: {rulers:#?}");
    }
    let by = &manifest["hosts"]["vm"]["machine"]["guest.accelerator"];
    let expected = run.results["expectations"].as_array().expect("expectations");
    let in_machine = |it: &&serde_json::Value| it["cell"] == "machine";
    for it in expected.iter().filter(in_machine) {
        let is_open = it["metric"] != "lost" && by != "kvm";
        assert_eq!(it["why"].to_string().contains("emulated in software"), is_open, "{it}");
    }
    assert_eq!(expected.iter().filter(in_machine).count(), 2);
    assert_eq!(namespaces(&place), [""; 0]);
}

#[test]
fn the_threads_of_a_machine_run_where_the_cell_asks_and_are_free_in_the_next_one() {
    if !can_run("the_threads_of_a_machine_run_where_the_cell_asks_and_are_free_in_the_next_one") {
        return;
    }
    let place = Place::new();
    let path = place.path("placed.toml");
    std::fs::write(&path, tardy_tests::experiment("machine whose threads are placed")).expect("a file");
    let run = place.call(place.run(&["--json", "--trials", "2"]).arg(&path));
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    let threads = |cell: &str| {
        let cell = cells.iter().find(|it| it["id"] == cell).unwrap_or_else(|| panic!("{cell}: {}", run.stderr));
        let rows = cell["placement"].as_array().expect("threads").clone();
        let row = move |name: &str| rows.iter().find(|it| it["thread"] == name).cloned().expect("its row");
        [row("vm.vcpu0"), row("vm.emulator")]
    };
    let all = tardy_host::cpus::usable();
    let (first, last) = (0, 1);
    let [vcpu, emulator] = threads("placed");
    assert_eq!((&vcpu["cpu_asked"], &vcpu["policy_granted"]), (&last.to_string().into(), &"rr:3".into()), "{vcpu}");
    assert_eq!(vcpu["cpus_seen"], serde_json::json!([last]), "{vcpu}");
    assert_eq!(emulator["cpus_seen"], serde_json::json!([first]), "{emulator}");
    assert!(vcpu["run_ns"].as_i64().is_some_and(|ran| ran > 0), "{vcpu}");
    // One machine serves both cells, and nothing of the first is left in the second.
    let [vcpu, emulator] = threads("free");
    let granted = [&vcpu, &emulator].map(|thread| (&thread["cpu_asked"], &thread["policy_granted"]));
    assert_eq!(granted, [(&"any".into(), &"other".into()); 2], "{vcpu} {emulator}");
    assert!(!run.ids("invalid").contains(&"policy".to_owned()), "{}", run.stderr);
    for (path, record) in glob(&place) {
        let affinity = record["placement"]["machine_threads"]["vm.vcpu0"]["affinity"].clone();
        let expected = if path.contains("/placed/") { serde_json::json!([last]) } else { serde_json::json!(all) };
        assert_eq!(affinity, expected, "{path}");
    }
    assert_eq!(namespaces(&place), [""; 0]);
}

/// The letter that the kernel has for what a process does; `T` is one that was stopped.
fn letter(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim().chars().next()
}

#[test]
fn a_machine_took_time_from_cells_that_it_was_not_in() {
    if !can_run("a_machine_took_time_from_cells_that_it_was_not_in") {
        return;
    }
    let place = Place::new();
    let path = place.path("turns.toml");
    std::fs::write(&path, tardy_tests::experiment("machines that take turns")).expect("a file");
    let child = place.start(place.run(&["--json"]).arg(&path));
    // The cell of the trial that goes on at this moment.
    let on = || {
        let last = place.events().pop().filter(|event| event["event"] == "trial")?;
        last["cell"].as_str().map(str::to_owned)
    };
    // How many machines ran at most, and how many rested then, in a trial of each cell.
    let mut seen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    wait(Duration::from_secs(120), || {
        if place.events().iter().any(|event| event["event"] == "ended") {
            return Some(());
        }
        let cell = on()?;
        let (of, stopped): (Vec<u32>, Vec<u32>) =
            qemus(child.id()).into_iter().partition(|pid| letter(*pid) != Some('T'));
        // It may have ended meanwhile.
        if on().as_ref() == Some(&cell) {
            let most = seen.entry(cell).or_default();
            *most = (of.len(), stopped.len()).max(*most);
        }
        None
    });
    let run = place.finish(child);
    let expected = [("crowd", (3, 1)), ("none", (0, 4)), ("one", (1, 3)), ("two", (1, 3))];
    assert_eq!(seen, expected.map(|(cell, n)| (cell.to_owned(), n)).into(), "{}", run.stderr);
    // All of them went on: nothing was lost, and nothing is left.
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    assert_eq!(cells.len(), 4);
    for cell in cells {
        // A trial of which the hypervisor took too much is left out.
        let outcomes = &cell["streams"]["ctl"]["outcomes"];
        assert_eq!((&outcomes["lost"], &outcomes["received"]), (&0.into(), &outcomes["intended"]), "{outcomes}");
        // What a bystander's kernel does is nobody's packet.
        let of_bystander = |cpu: &Value| cpu["host"].as_str().is_some_and(|host| host.contains("bystander"));
        assert!(!cell["cpus"].as_array().expect("CPUs").iter().any(of_bystander), "{cell}");
    }
    let manifest = manifest(&place);
    let hosts: Vec<&String> = manifest["hosts"].as_object().expect("hosts").keys().collect();
    assert_eq!(hosts, ["vm", "vm.2", "vm.bystander1", "vm.bystander2"]);
    assert_eq!((namespaces(&place), given(&place)), (Vec::new(), Vec::new()));
}

/// The records of all trials.
pub fn glob(place: &Place) -> Vec<(String, serde_json::Value)> {
    let entries = |of: &std::path::Path| -> Vec<PathBuf> {
        std::fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let trials = entries(&place.out().join("trials")).into_iter().flat_map(|cell| entries(&cell));
    let read = |trial: PathBuf| {
        let path = trial.join("trial.json");
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), serde_json::from_str(&text).expect("JSON")))
    };
    trials.filter_map(read).collect()
}

#[test]
fn a_killed_run_left_its_virtual_machine_and_what_is_behind_it() {
    if !can_run("a_killed_run_left_its_virtual_machine_and_what_is_behind_it") {
        return;
    }
    let place = Place::new();
    let long = ["--set", "stream.ctl.count=100000"];
    let child = place.start(place.run(&long).arg(file(&place)));
    // Its first process becomes QEMU by way of `ip` and a shell.
    let qemu = qemu_of(child.id());
    wait(Duration::from_secs(60), || place.events().into_iter().find(|event| event["event"] == "trial"))
        .expect("a trial begins");
    signal(child.id(), libc::SIGKILL).expect("SIGKILL");
    drop(place.finish(child));
    assert!(is_gone(qemu), "the machine ends with the run");
    let undone = undo(&place);
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    assert_eq!(namespaces(&place), [""; 0]);
    assert_eq!(given(&place), [""; 0]);
}

#[test]
fn a_virtual_machine_that_dies_ends_the_run_with_its_name_and_nothing_is_left() {
    if !can_run("a_virtual_machine_that_dies_ends_the_run_with_its_name_and_nothing_is_left") {
        return;
    }
    let place = Place::new();
    let child = place.start(place.run(&["--set", "stream.ctl.count=100000"]).arg(file(&place)));
    let qemu = qemu_of(child.id());
    wait(Duration::from_secs(60), || place.events().into_iter().find(|event| event["event"] == "trial"))
        .expect("a trial begins");
    signal(qemu, libc::SIGKILL).expect("SIGKILL");
    let run = place.finish(child);
    assert!(matches!(run.code, Some(3 | 4)), "{:?}: {}", run.code, run.stderr);
    assert!(run.stderr.contains("`vm`") || run.stderr.contains("vm:"), "{}", run.stderr);
    assert!(run.stderr.contains("virtual machine"), "{}", run.stderr);
    assert_eq!(namespaces(&place), [""; 0], "{}", run.stderr);
    assert_eq!(given(&place), [""; 0]);
}

#[test]
fn a_virtual_machine_that_cannot_be_had_is_refused_before_anything_is_built() {
    if !can_run("a_virtual_machine_that_cannot_be_had_is_refused_before_anything_is_built") {
        return;
    }
    let place = Place::new();
    let run = place.call(place.run(&["--set", "station.vm.memory=1000000MiB"]).arg(file(&place)));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("have 1000000 MiB of memory together"), "{}", run.stderr);
    if !std::path::Path::new("/dev/vhost-net").exists() {
        let run = place.call(place.run(&["--set", "station.vm.net=vhost"]).arg(file(&place)));
        assert_eq!(run.code, Some(3), "{}", run.stderr);
        assert!(run.stderr.contains("needs /dev/vhost-net, and this kernel has none"), "{}", run.stderr);
    }
    assert!(!place.out().exists(), "it has not begun");
    // A kernel that stops at once.
    let run = place.call(place.run(&["--set", "station.vm.append=[\"rdinit=/none\"]"]).arg(file(&place)));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("station `vm`, a virtual machine, did not come up"), "{}", run.stderr);
    assert!(run.stderr.contains("Kernel panic"), "{}", run.stderr);
    assert_eq!(namespaces(&place), [""; 0]);
    assert_eq!(given(&place), [""; 0]);
}

/// A port of the bridge that the run has made, which leads to the machine, with its namespace.
pub fn port_to_machine(place: &Place) -> Option<(String, String)> {
    namespaces(place).into_iter().find_map(|netns| {
        let list = ["-n", &netns, "-j", "-d", "link", "show"];
        let links = Command::new("ip").args(list).output().expect("ip runs").stdout;
        let links: serde_json::Value = serde_json::from_slice(&links).ok()?;
        let is_port = |link: &&serde_json::Value| {
            link["linkinfo"]["info_slave_kind"] == "bridge" && link["linkinfo"]["info_kind"] == "tun"
        };
        let port = links.as_array()?.iter().find(is_port)?["ifname"].as_str()?.to_owned();
        Some((netns, port))
    })
}

#[test]
fn a_bridge_that_keeps_multicast_is_named_with_its_port_and_the_smallest_change() {
    if !can_run("a_bridge_that_keeps_multicast_is_named_with_its_port_and_the_smallest_change") {
        return;
    }
    let place = Place::new();
    let mut closed = String::new();
    // Somebody closes the port to the machine when the first trial is kept.
    let (run, refused) = meddled(&place, "trial_kept", |netns, port, _| {
        let close = ["-n", netns, "link", "set", "dev", port, "mcast_flood", "off"];
        assert!(Command::new("bridge").args(close).status().expect("bridge is installed").success());
        port.clone_into(&mut closed);
    });
    let port = closed;
    assert!(refused.contains("no further trial is measured of it"), "{refused}");
    for says in [
        "a sent 16 multicast packets to vm and none arrived, while packets for vm alone do".to_owned(),
        format!("the bridge's mcast_flood is off at {port}"),
        format!("the smallest change is `bridge link set dev {port} mcast_flood on`"),
    ] {
        assert!(refused.contains(&says), "{refused}");
    }
    let verdicts = run.results["cells"][0]["verdicts"].as_array().expect("verdicts");
    let lost: Vec<_> = verdicts.iter().filter(|verdict| verdict["id"] == "group-lost").collect();
    // The other way is open, and so is the port for ARP.
    assert_eq!(lost.len(), 1, "{verdicts:#?}");
    assert_eq!((&lost[0]["level"], &lost[0]["evidence"]["to"]), (&"invalid".into(), &"vm".into()), "{lost:#?}");
}

/// Programs that somebody attaches behind a machine: one gives each packet a further tag, the other
/// one sends each to a device that is not there.
const FAULTY: &str = r#"
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
static long (*const push)(struct __sk_buff *, __u16, __u16) = (void *)BPF_FUNC_skb_vlan_push;
static long (*const redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
char LICENSE[] SEC("license") = "GPL";
SEC("tc") int pushes_a_tag(struct __sk_buff *skb)
{
	push(skb, 0x0081, 7);
	return 0;
}
SEC("xdp") int goes_nowhere(struct xdp_md *ctx)
{
	return redirect(4242, 0);
}
"#;

/// Runs trials over a bridge, does this to its port to the machine and its other port, and gives
/// the run with the line that says why nothing more is measured. It does so when this event has
/// come, and the run waits meanwhile: `built` comes before what is looked for on the path.
pub fn meddled(place: &Place, when: &str, meddle: impl FnOnce(&str, &str, &str)) -> (Finished, String) {
    let file = place.path("behind.toml");
    std::fs::write(&file, tardy_tests::experiment("machine behind a bridge")).expect("a file");
    let child = place.start(place.run(&["--json"]).arg(&file));
    wait(Duration::from_secs(90), || place.events().into_iter().find(|event| event["event"] == when))
        .unwrap_or_else(|| panic!("no event {when}"));
    signal(child.id(), libc::SIGSTOP).expect("SIGSTOP");
    let (netns, port) = port_to_machine(place).expect("the bridge has a port to the machine");
    meddle(&netns, &port, &port.replace("-tap", "-brup"));
    signal(child.id(), libc::SIGCONT).expect("SIGCONT");
    let run = place.finish(child);
    let code = if when == "built" { 3 } else { 4 };
    assert_eq!(run.code, Some(code), "{}{}", run.stdout, run.stderr);
    let refused = run.stderr.lines().find(|line| line.contains(": refused, n"));
    let refused = refused.unwrap_or_else(|| panic!("{}", run.stderr)).to_owned();
    assert_eq!(namespaces(place), [""; 0]);
    (run, refused)
}

fn verdict<'r>(run: &'r Finished, id: &str) -> &'r Value {
    let all = run.results["cells"][0]["verdicts"].as_array().expect("verdicts");
    all.iter().find(|verdict| verdict["id"] == id).unwrap_or_else(|| panic!("no {id}: {all:#?}"))
}

#[test]
fn programs_behind_a_machine_added_a_tag_or_lost_packets_and_nobody_knew_where() {
    if !can_run("programs_behind_a_machine_added_a_tag_or_lost_packets_and_nobody_knew_where") {
        return;
    }
    let run = |program: &str, args: &str| {
        let output = Command::new(program).args(args.split(' ')).output().expect("it is installed");
        assert!(output.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let place = Place::new();
    let (source, object) = (place.path("faulty.bpf.c"), place.path("faulty.o"));
    std::fs::write(&source, FAULTY).expect("a file");
    let [source, object] = [source, object].map(|path| path.display().to_string());
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    run("clang", &format!("-target bpf -g -O2 -I {headers} -c {source} -o {object}"));
    // Between the bridge's port to the other station and the machine.
    let (tagged, refused) = meddled(&place, "built", |netns, port, _| {
        run("tc", &format!("-n {netns} qdisc add dev {port} clsact"));
        run("tc", &format!("-n {netns} filter add dev {port} egress bpf da obj {object} sec tc"));
    });
    let added = verdict(&tagged, "added-tag");
    let [before, behind] = ["before", "behind"].map(|end| added["evidence"][end].as_str().expect("a place"));
    assert!(before.ends_with("-brup") && behind == "vm", "{added}");
    assert!(refused.contains(&format!("arrive at vm with 1, added between {before} and vm")), "{refused}");
    assert!(refused.contains("program `pushes_a_tag`"), "{refused}");
    let place = Place::new();
    let (lost, refused) = meddled(&place, "built", |netns, _, other| {
        run("ip", &format!("-n {netns} link set dev {other} xdpdrv obj {object} sec xdp"));
    });
    let drops = verdict(&lost, "program-drops");
    assert_eq!((&drops["level"], &drops["evidence"]["to_device"]), (&"invalid".into(), &4242.into()), "{drops}");
    assert!(drops["evidence"]["device"].as_str().is_some_and(|device| device.ends_with("-brup")), "{drops}");
    assert!(refused.contains("program `goes_nowhere`") && refused.contains("4242"), "{refused}");
}

/// What the machine cost in each cell.
fn costs(results: &Value) -> Vec<&Value> {
    results["cells"].as_array().into_iter().flatten().map(|cell| &cell["machines"]).collect()
}

#[test]
fn a_machine_in_an_exact_guest_repeats_to_the_nanosecond() {
    const NAME: &str = "a_machine_in_an_exact_guest_repeats_to_the_nanosecond";
    // The soak builds it anew, whatever is there.
    if std::env::var_os("TARDY_SOAK").is_some() && !builds_emulator(NAME) {
        return;
    }
    if !can_run_machines(NAME) {
        return;
    }
    let once = || {
        let place = Place::new();
        let exact = ["--in", "guest:exact", "--trials", "1", "--set", "stream.ctl.count=40", "--json"];
        let run = place.call(place.run(&exact).arg(file(&place)));
        run.ran();
        (place, run)
    };
    let ((place, run), (_, again)) = (once(), once());
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    assert!(cells.len() > 3, "{}", run.stderr);
    for cell in cells {
        assert_eq!(cell["streams"]["ctl"]["outcomes"]["received"], 40, "{}", cell["id"]);
        // Each request enters the machine by an interrupt, and each reply leaves it.
        let all = &cell["machines"];
        let count = |what: &str| all[what].as_u64().unwrap_or_else(|| panic!("{what}: {cell}"));
        assert_eq!(count("packets"), 40, "{all}");
        assert!(count("exits") >= 40 && count("exits") > count("halt_exits") && count("irq_injections") >= 40, "{all}");
    }
    assert_eq!(costs(&run.results), costs(&again.results));
    assert_eq!(print(&run.results), print(&again.results));
    let host = &manifest(&place)["hosts"]["vm"];
    assert_eq!(host["machine"]["guest.accelerator"], "kvm", "{host}");
    // An exchange over the machine's port takes hundreds of microseconds, and both kernels read one
    // counter.
    let offsets: Vec<_> =
        glob(&place).into_iter().map(|(_, record)| record["streams"]["ctl"]["offsets"].clone()).collect();
    let of_machine = offsets.iter().flat_map(|of| [&of["tx"], &of["rx"]]).filter(|of| !of.is_null());
    let mut compared = 0;
    for offset in of_machine {
        assert!(offset["method"].as_str().is_some_and(|how| how.contains("counter of the processor")), "{offset}");
        let bound_ns = offset["first"]["bound_ns"].as_i64().expect("a bound");
        assert!((1..2_000).contains(&bound_ns), "{offset}");
        compared += 1;
    }
    assert!(compared > 0, "{offsets:?}");
}
