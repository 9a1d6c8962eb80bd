// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another user of the machine can do to a run of root: nothing. What he plants in the state
//! folder is shown and not run, and what he holds stops nobody. His folders and links lead no file
//! of a run elsewhere. Each attack was shown to work once.

use crate::command::{Finished, Place, SHORT, can_run, machine, same, tardy, wait};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tardy_lab::process::Identity;
use tardy_store::{RunFolder, StoreError};

/// A user without any rights, `nobody`.
const OTHER: u32 = 65_534;
/// Simulated, so that nothing else of the machine is in play.
const SIM: [&str; 6] = ["--trials", "1", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=50"];

/// A file of root's that is not to change.
fn victim(place: &Place) -> PathBuf {
    let path = place.path("victim");
    fs::write(&path, "root's own\n").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    path
}

fn folder_of(place: &Place, name: &str, owner: u32) -> PathBuf {
    let path = place.path(name);
    fs::create_dir(&path).expect("a folder");
    chown(&path, Some(owner), Some(owner)).expect("its owner");
    path
}

fn link_of(owner: u32, to: &Path, at: &Path) {
    symlink(to, at).expect("a link");
    lchown(at, Some(owner), Some(owner)).expect("its owner");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn run_into(place: &Place, out: &Path) -> Finished {
    place.call(place.command("run").args(SIM).arg("--out").arg(out))
}

fn refused(run: &Finished, says: &str) {
    assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains(says) && run.stderr.lines().count() == 1, "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn a_run_into_a_folder_of_another_user_writes_nothing_there_and_through_no_link() {
    if !can_run("a_run_into_a_folder_of_another_user_writes_nothing_there_and_through_no_link") {
        return;
    }
    let place = Place::new();
    let (victim, theirs) = (victim(&place), folder_of(&place, "theirs", OTHER));
    refused(&run_into(&place, &theirs), "belongs to user 65534");
    assert!(names(&theirs).is_empty(), "empty, and stays so");
    let planted = ["results.json.tmp", "results.json", "manifest.json", "commands.sh", "events.jsonl", "trials"];
    planted.iter().for_each(|name| link_of(OTHER, &victim, &theirs.join(name)));
    refused(&run_into(&place, &theirs), "belongs to user 65534");
    assert_eq!(names(&theirs).len(), planted.len());
    // Nor on the real path, and not through a link of theirs on the way.
    let run = place
        .call(place.command("run").args(["--trials", "1", "--set", "stream.ctl.count=50"]).arg("--out").arg(&theirs));
    refused(&run, "belongs to user 65534");
    let own = folder_of(&place, "own", 0);
    link_of(OTHER, &own, &place.path("way"));
    refused(&run_into(&place, &place.path("way")), "is a link");
    refused(&run_into(&place, &place.path("way").join("run")), "is a link");
    assert!(names(&own).is_empty());
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "root's own\n");
}

#[test]
fn a_run_takes_a_folder_of_its_user_and_of_the_one_who_called_sudo() {
    if !can_run("a_run_takes_a_folder_of_its_user_and_of_the_one_who_called_sudo") {
        return;
    }
    let place = Place::new();
    let own = folder_of(&place, "own", 0);
    assert_eq!(run_into(&place, &own).code, Some(0));
    let caller = folder_of(&place, "caller", OTHER);
    let run = place.call(place.command("run").args(SIM).arg("--out").arg(&caller).env("SUDO_UID", OTHER.to_string()));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    // A new folder is the run's own, wherever it is made.
    let theirs = folder_of(&place, "theirs", OTHER);
    assert_eq!(run_into(&place, &theirs.join("new")).code, Some(0));
    // One that others may write to is nobody's own, and a link is none.
    let open = folder_of(&place, "open", 0);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("its mode");
    refused(&run_into(&place, &open), "others may write into");
    let bare = folder_of(&place, "bare", 0);
    link_of(0, &bare, &place.path("link"));
    refused(&run_into(&place, &place.path("link")), "is a link");
}

#[test]
fn what_a_guest_writes_by_its_path_lies_in_no_folder_of_another_user() {
    if !can_run("what_a_guest_writes_by_its_path_lies_in_no_folder_of_another_user") {
        return;
    }
    let place = Place::new();
    let theirs = folder_of(&place, "theirs", OTHER);
    let run = RunFolder::create(theirs.join("new")).expect("a new folder is the run's own");
    assert!(matches!(run.make_folder("guest"), Err(StoreError::Foreign { owner: OTHER, .. })));
    // Nor does it help that the folder between is root's own: theirs is above it, and may hold
    // another one of that name.
    let run = RunFolder::create(theirs.join("runs/new")).expect("a new folder is the run's own");
    assert!(matches!(run.make_folder("guest"), Err(StoreError::Foreign { owner: OTHER, .. })));
    let run = RunFolder::create(place.path("new")).expect("a new folder");
    run.make_folder("guest").expect("nobody else's");
    fs::rename(place.path("new"), place.path("moved")).expect("moved");
    fs::create_dir(place.path("new")).expect("another one");
    run.make_folder("guest").expect_err("it is not where it was");
}

#[test]
fn a_picture_and_an_export_go_through_no_link_of_another_user() {
    if !can_run("a_picture_and_an_export_go_through_no_link_of_another_user") {
        return;
    }
    let place = Place::new();
    let victim = victim(&place);
    assert_eq!(run_into(&place, &place.out()).code, Some(0));
    let (theirs, own) = (folder_of(&place, "theirs", OTHER), folder_of(&place, "own", 0));
    link_of(OTHER, &victim, &own.join("page"));
    link_of(0, &own.join("real"), &own.join("mine"));
    let (run, command) = (place.out(), |verb: &str| place.command(verb));
    let verbs: [(&str, &[&str]); 3] =
        [("report", &["--format", "md"]), ("export", &["--to", "csv"]), ("compare", &[run.to_str().expect("UTF-8")])];
    for (verb, args) in verbs {
        let into = |path: PathBuf| place.call(command(verb).arg(&run).args(args).arg("-o").arg(path));
        refused(&into(own.join("page")), "is a link");
        refused(&into(theirs.join("page")), "belongs to user 65534");
        assert!(names(&theirs).is_empty(), "{verb}");
        let good = into(own.join("mine"));
        assert_eq!(good.code, Some(0), "{verb}: {}", good.stderr);
        assert!(own.join("mine").is_symlink(), "{verb}: a link keeps pointing where it points");
        assert!(fs::read_to_string(own.join("real")).is_ok_and(|text| text.len() > 100), "{verb}");
        assert_eq!(names(&own), ["mine", "page", "real"], "{verb}: no temporary file stays");
        fs::remove_file(own.join("real")).expect("it goes");
    }
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "root's own\n");
    // What is no file is written as it is.
    let device = place.call(command("report").arg(&run).args(["-o", "/dev/stdout"]));
    assert!(device.code == Some(0) && device.stdout.contains("host-to-host"), "{}{}", device.stdout, device.stderr);
}

/// Somebody without any right: the user and group `nobody` of Debian.
const SOMEBODY: u32 = 65_534;

/// A process of that user's, killed with the value.
struct Theirs(Child);

impl Theirs {
    fn start(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Theirs {
        let mut command = Command::new(program);
        command.args(args).envs(environment.iter().copied()).uid(SOMEBODY).gid(SOMEBODY);
        Theirs(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program is there"))
    }

    /// The first line that it prints.
    fn says(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        line.trim_end().to_owned()
    }

    /// Binds abstract names, those of slots `0..64` and of devices, and keeps them.
    fn names() -> Theirs {
        let script = "$| = 1; my @all; for my $name ((map { \"slot-$_\" } 0..63), 'nic-enp1s0', 'nic-enp2s0') { \
                      socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die $!; \
                      bind($s, pack('Sa*', AF_UNIX, \"\\0tardy-$name\")) and push @all, $s; } print scalar(@all), \"\\n\"; sleep 600";
        let mut names = Theirs::start("perl", &["-MSocket", "-e", script], &[]);
        assert!(names.says().parse::<u32>().is_ok_and(|bound| bound > 0), "names are bound");
        names
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn give(path: &Path) {
    chown(path, Some(SOMEBODY), Some(SOMEBODY)).expect("chown");
}

/// A slot's folder as the second user plants it, with the way there.
fn plant(state: &Path, slot: u16, journal: &str) -> Vec<std::path::PathBuf> {
    let dir = state.join(format!("slots/{slot}"));
    std::fs::create_dir_all(&dir).expect("a folder");
    let ended = Identity { start: 0, ..Identity::of(std::process::id()).expect("this process") };
    std::fs::write(dir.join("lock"), serde_json::to_string(&ended).expect("JSON") + "\n").expect("a lock");
    std::fs::write(dir.join("journal.jsonl"), journal).expect("a journal");
    let parts = [state.to_owned(), state.join("slots"), dir.clone(), dir.join("lock"), dir.join("journal.jsonl")];
    parts.to_vec()
}

fn boot() -> String {
    Identity::of(std::process::id()).expect("this process").boot
}

#[test]
fn a_journal_of_another_user_is_shown_and_never_run() {
    if !can_run("a_journal_of_another_user_is_shown_and_never_run") {
        return;
    }
    let netns = format!("tardy-4090-{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &netns]).status();
    assert!(made.is_ok_and(|status| status.success()), "a namespace that must stay");
    // Which of: state folder, slots, slot, lock, journal are the second user's.
    for theirs in [&[0, 1, 2, 3, 4][..], &[1, 2, 3, 4], &[2, 3, 4], &[4], &[0, 4]] {
        let place = Place::new();
        let pwned = place.path("pwned");
        let of_commands = format!("{{\"step\":0,\"undo\":[[\"sh\",\"-c\",\"id >{}\"]]}}\n", pwned.display());
        let typed = format!(
            "{{\"v\":2,\"boot\":\"{}\"}}\n{{\"v\":2,\"step\":{{\"number\":0,\"undo\":[{{\"place\":{{\"host\":\"this machine\"}},\
             \"action\":{{\"delete_namespace\":{{\"name\":\"{netns}\"}}}}}}]}}}}\n",
            boot()
        );
        for (journal, shows) in
            [(of_commands, format!("sh -c 'id >{}'", pwned.display())), (typed, format!("ip netns del {netns}"))]
        {
            let parts = plant(&place.state(), 4090, &journal);
            theirs.iter().for_each(|part| give(&parts[*part]));
            let undo = place.undo();
            let told = format!("{theirs:?}: {}", undo.stderr);
            assert_eq!(undo.code, Some(3), "{told}");
            assert!(undo.stderr.contains(&shows), "its commands are shown: {told}");
            assert!(undo.stderr.contains("belongs to user 65534"), "{told}");
            // The next run offers nothing of it either.
            let run = place.call(&mut place.run(&SHORT));
            assert!(run.stderr.contains("belongs to user 65534"), "{theirs:?}: {}", run.stderr);
            if theirs.contains(&0) || theirs.contains(&1) {
                assert_eq!(run.code, Some(3), "a state folder of another's is no place for a journal: {}", run.stderr);
            } else {
                run.ran();
            }
            assert!(!pwned.exists(), "{told}");
            assert!(Path::new("/run/netns").join(&netns).exists(), "{told}");
            std::fs::remove_dir_all(place.state()).expect("removed");
            let _ = std::fs::remove_dir_all(place.out());
        }
    }
    let gone = Command::new("ip").args(["netns", "del", &netns]).status();
    assert!(gone.is_ok_and(|status| status.success()));
}

#[test]
fn a_user_who_called_by_sudo_may_own_the_folder_and_nothing_in_it() {
    if !can_run("a_user_who_called_by_sudo_may_own_the_folder_and_nothing_in_it") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.state()).expect("a folder");
    give(&place.state());
    let by_sudo = |command: &mut Command| {
        place.call(command.env("SUDO_UID", SOMEBODY.to_string()).env("SUDO_GID", SOMEBODY.to_string()))
    };
    by_sudo(&mut place.run(&SHORT)).ran();
    let parts = plant(&place.state(), 4090, "{\"step\":0,\"undo\":[[\"id\"]]}\n");
    parts[2..].iter().for_each(|part| give(part));
    let undo = by_sudo(&mut place.command("undo"));
    assert_eq!(undo.code, Some(3), "{}", undo.stderr);
    assert!(undo.stderr.contains("belongs to user 65534"), "{}", undo.stderr);
}

#[test]
fn what_a_user_holds_stops_neither_a_run_nor_an_undo() {
    if !can_run("what_a_user_holds_stops_neither_a_run_nor_an_undo") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // The way to the state folder is open to all, as /run is.
    std::fs::set_permissions(place.path("."), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let _names = Theirs::names();
    let mut child = place.start(&mut place.run(&SHORT));
    let netns = place.netns("a");
    let slot = netns.split('-').nth(1).expect("a slot").to_owned();
    let lock = place.state().join(format!("slots/{slot}/lock")).display().to_string();
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let mut flock = Theirs::start("sh", &["-c", &format!("flock -n {lock} sleep 600 2>&1; echo refused")], &[]);
    let says = flock.says();
    assert!(says.contains("Permission denied"), "nobody else opens the lock: {says}");
    let undo = place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    same(&before);
}

#[test]
fn a_lock_that_outlives_its_run_is_a_failure_and_names_its_holder() {
    if !can_run("a_lock_that_outlives_its_run_is_a_failure_and_names_its_holder") {
        return;
    }
    let place = Place::new();
    let netns = "tardy-4091-x";
    let line = format!(
        "{{\"v\":2,\"boot\":\"{}\"}}\n{{\"v\":2,\"step\":{{\"number\":0,\"undo\":[{{\"place\":{{\"host\":\"this machine\"}},\"action\":\
         {{\"delete_namespace\":{{\"name\":\"{netns}\"}}}}}}]}}}}\n",
        boot()
    );
    let parts = plant(&place.state(), 4091, &line);
    let mut holder = Command::new("flock");
    holder.arg(&parts[3]).args(["sh", "-c", "echo held; exec sleep 600"]).stdout(Stdio::piped()).process_group(0);
    let mut holder = holder.spawn().expect("flock is there");
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it has the lock");
    let undo = place.undo();
    let group = Command::new("sh").args(["-c", &format!("kill -KILL -{}", holder.id())]).status();
    assert!(group.is_ok_and(|status| status.success()));
    holder.wait().expect("it ends");
    assert_eq!(undo.code, Some(3), "{}", undo.stderr);
    assert!(undo.stderr.contains("slot 4091") && undo.stderr.contains("(sleep)"), "{}", undo.stderr);
    assert!(!undo.stderr.contains("nothing is left behind"), "{}", undo.stderr);
    let undo = place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
}

#[test]
fn a_mark_in_another_users_process_counts_for_nothing() {
    if !can_run("a_mark_in_another_users_process_counts_for_nothing") {
        return;
    }
    let marks = [b"TARDY_LOAD=7:7".to_vec()];
    let theirs = Theirs::start("sleep", &["600"], &[("TARDY_LOAD", "7:7")]);
    let mut ours = Command::new("sleep").arg("600").env("TARDY_LOAD", "7:7").spawn().expect("sleep is there");
    let has_begun = |pid: u32| {
        wait(Duration::from_secs(10), || {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().filter(|name| name.trim() == "sleep")
        })
    };
    assert!(has_begun(theirs.0.id()).is_some() && has_begun(ours.id()).is_some());
    let found = [theirs.0.id(), ours.id()].map(|pid| tardy_host::state::is_marked(pid, &marks));
    ours.kill().and_then(|()| ours.wait()).expect("it ends");
    assert_eq!(found, [false, true]);
}

#[test]
fn a_user_without_rights_could_not_plan_what_sets_the_whole_machine() {
    if !can_run("a_user_without_rights_could_not_plan_what_sets_the_whole_machine") {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.state()).expect("a folder");
    fs::set_permissions(place.state(), fs::Permissions::from_mode(0o700)).expect("its mode");
    // Another user may not look into root's folder, and a plan sets nothing.
    let mut plan = place.command("plan");
    plan.arg("vm-roundtrip").env("HOME", "/nonexistent").uid(OTHER).gid(OTHER);
    let plan = place.call(&mut plan);
    assert_eq!(plan.code, Some(0), "{}{}", plan.stdout, plan.stderr);
    assert!(plan.stdout.contains("vm-xdp-interpreted"), "{}", plan.stdout);
}

#[test]
fn a_killed_run_of_an_ip_that_died_half_way_leaves_nothing() {
    if !can_run("a_killed_run_of_an_ip_that_died_half_way_leaves_nothing") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // An `ip` that does two lines of its first batch and is killed then.
    let folder = place.path("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let real = Command::new("sh").args(["-c", "command -v ip"]).output().expect("sh").stdout;
    let real = String::from_utf8_lossy(&real).trim().to_owned();
    let mark = folder.join("died");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *-batch*) if [ ! -e {mark} ]; then : >{mark}; head -n 2 | {real} -batch -; kill -KILL $$; fi;; esac\n\
         exec {real} \"$@\"\n",
        mark = mark.display()
    );
    std::fs::write(folder.join("ip"), script).expect("a script");
    std::fs::set_permissions(folder.join("ip"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let run = place.call(place.run(&SHORT).env("PATH", path));
    assert!(mark.exists(), "it was called");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("signal: 9"), "{}", run.stderr);
    same(&before);
    assert_eq!(place.undo().stderr.trim(), "nothing is left behind", "of {}", tardy().display());
}
