// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `undo` removes of a killed run's guest, and that no link leads it elsewhere.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn undo_of_a_killed_guest_run_followed_a_link_that_was_put_in_its_way() {
    let keep = tempfile::tempdir().expect("a folder");
    let real = keep.path().canonicalize().expect("a path");
    let (mine, theirs) = (real.join("run/guest"), real.join("theirs"));
    for folder in [&mine, &theirs] {
        fs::create_dir_all(folder.join("probe/deep")).expect("folders");
        for file in ["initramfs", "port", "console.log", "probe/port", "probe/deep/x"] {
            fs::write(folder.join(file), "x").expect("written");
        }
    }
    fs::remove_file(mine.join("probe/port")).expect("removed");
    std::os::unix::fs::symlink(theirs.join("port"), mine.join("probe/port")).expect("a link");
    let remove = || {
        let line = tardy_lab::guest::remove(&mine).commands()[0].to_string();
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let done = Command::new(crate::help::tardy()).args(words).output().expect("tardy runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!(remove(), (Some(0), String::new()));
    let left = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    assert_eq!((left(&mine), left(&theirs)), (1, 4), "its console stays, and the link's target");
    assert_eq!(remove(), (Some(0), String::new()), "what is gone is no error");

    // The path was noted while `run/guest` was a folder.
    let noted = tardy_lab::guest::remove(&mine).commands()[0].to_string();
    fs::rename(real.join("run"), real.join("away")).expect("renamed");
    fs::create_dir(real.join("run")).expect("a folder");
    std::os::unix::fs::symlink(&theirs, &mine).expect("a link");
    let words: Vec<&str> = noted.split(' ').skip(1).collect();
    let done = Command::new(crate::help::tardy()).args(words).output().expect("tardy runs");
    let says = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{says}");
    assert_eq!(says.matches("`guest` on the way is a link now").count(), 3, "{says}");
    assert_eq!(left(&theirs), 4, "nothing behind the link is touched");
}
