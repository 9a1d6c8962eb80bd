// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another user of the machine can do to a run of root's by folders and links of theirs:
//! nothing. Each attack was shown to work once.

use crate::command::{Finished, Place, can_run};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
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
