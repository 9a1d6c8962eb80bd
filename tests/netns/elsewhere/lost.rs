// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is left, and what is kept, when the connection to another machine ends while it is used;
//! and which device here carries that connection, whatever the other end calls it.

use super::{ADDRESSES, CLIENT, Two, WIRE, connections, does, two};
use crate::command::wait;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// Kills the server's processes for all connections: ssh dies at once.
fn cut(two: &Two) {
    for pid in connections(two.servers[0].id()) {
        // One that has ended meanwhile is none.
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
    }
}

/// The trial that broke: what is in its record and how many packets it has here.
pub(super) fn broken(two: &Two) -> Option<serde_json::Value> {
    let path = two.place.out().join("trials/all/1.partial/trial.json");
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

#[test]
fn ssh_that_died_in_a_trial_took_with_it_what_was_recorded_here() {
    let Some(two) = two("ssh_that_died_in_a_trial_took_with_it_what_was_recorded_here") else { return };
    let before = two.seen();
    let count = ["--set", "stream.ctl.count=2000000", "--allow-hosts", "--allow-nics", "--json"];
    let mut command = two.command("run", WIRE, &count);
    let run = two.place.start(command.arg("--out").arg(two.place.out()));
    two.place.wait_for("trial");
    // Well within the trial: its packets are under way since a while.
    std::thread::sleep(Duration::from_secs(5));
    cut(&two);
    let run = two.place.finish(run);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let record = broken(&two).unwrap_or_else(|| panic!("nothing was kept: {}", run.stderr));
    let failed = record["failed"].as_str().unwrap_or_else(|| panic!("{record}"));
    assert!(failed.contains("lab2") || failed.contains("station `b`"), "{failed}");
    let sent = record["streams"]["ctl"]["sent_span_ns"].as_i64();
    assert!(sent.is_some_and(|ns| ns > 1_000_000), "seconds of round trips were made here: {}", record["streams"]);
    assert!(two.place.out().join("trials/all/1.partial/samples.parquet").exists(), "with its packets");
    // One error is printed once, with the command that puts back what may be left.
    let lost: Vec<&str> = run.said().into_iter().filter(|line| line.contains("tardy undo --host lab2")).collect();
    assert!(lost.len() <= 1, "{}", run.stderr);
    assert!(wait(Duration::from_secs(30), || (two.seen() == before).then_some(())).is_some(), "{}", two.seen());
}

#[test]
fn ssh_clients_of_a_killed_run_lived_on_where_the_network_was_down() {
    let Some(two) = two("ssh_clients_of_a_killed_run_lived_on_where_the_network_was_down") else { return };
    let args = ["--set", "stream.ctl.count=100000", "--allow-hosts", "--allow-nics"];
    let mut command = two.command("run", WIRE, &args);
    let mut run = two.place.start(command.arg("--out").arg(two.place.out()));
    two.place.wait_for("trial");
    let clients: Vec<u32> = connections(run.id());
    let is_client = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ssh");
    let clients: Vec<u32> = clients.into_iter().filter(is_client).collect();
    assert!(clients.len() >= 2, "one for the steward and one for the agent: {clients:?}");
    does(&format!("ip -n {} link set dev ssh0 down", two.here));
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    let gone = wait(Duration::from_secs(10), || clients.iter().all(|pid| !is_client(pid)).then_some(()));
    // The other machine has heard nothing of it: the test ends what is there.
    does(&format!("ip -n {} link set dev ssh0 up", two.here));
    cut(&two);
    let left: Vec<&u32> = clients.iter().filter(|pid| is_client(pid)).collect();
    left.iter().for_each(|pid| drop(Command::new("kill").args(["-KILL", &pid.to_string()]).output()));
    assert!(gone.is_some(), "{left:?}");
    let undone = two.place.undo();
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    let there = format!("ip -n {} -br link", two.there);
    wait(Duration::from_secs(30), || does(&there).contains("enp2s0").then_some(())).expect("its device is back");
}

#[test]
fn a_device_that_carries_ssh_was_taken_where_the_other_end_sees_another_address() {
    let Some(two) = two("a_device_that_carries_ssh_was_taken_where_the_other_end_sees_another_address") else {
        return;
    };
    let before = two.seen();
    // Behind an address translation the other end sees an address that no device here has.
    let client = two.place.path("translated");
    let script = format!(
        "#!/bin/bash\ncase \" $* \" in *' -G '*) exec {CLIENT} -F {config} \"$@\";; esac\n\
         exec {CLIENT} -F {config} \"${{@:1:$#-1}}\" \"SSH_CONNECTION='203.0.113.9 40000 {there} 2222'; export SSH_CONNECTION; ${{@: -1}}\"\n",
        config = two.file("config"),
        there = ADDRESSES[1],
    );
    fs::write(&client, script).expect("a file");
    fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).expect("its own");
    does(&format!("ip -n {} route add 203.0.113.9/32 via {} dev ssh0", two.there, ADDRESSES[0]));
    let run = |path: &str| {
        let _ = fs::remove_dir_all(two.place.out());
        let args = ["--set", path, "--set", "path.take=true", "--allow-hosts", "--allow-nics", "--out"];
        let mut command = two.command("run", WIRE, &args);
        two.place.call(command.arg(two.place.out()).env("TARDY_SSH", &client))
    };
    let cut = run("path.a=ssh0");
    assert_eq!(cut.code, Some(2), "{}", cut.stderr);
    assert!(cut.stderr.contains("ssh goes to `lab2` by network device ssh0 of this machine"), "{}", cut.stderr);
    assert_eq!(two.seen(), before);
    // By another device it is measured.
    let sound = run("path.a=enp1s0");
    assert!([Some(0), Some(4)].contains(&sound.code), "{}\n{}", sound.stderr, sound.stdout);
    assert_eq!(two.seen(), before);
}
