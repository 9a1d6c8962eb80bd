// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program itself: which build measures, whose programs it starts, what it shows meanwhile.

use crate::command::{Place, SHORT, can_run, machine, same, tardy};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn make_runnable(path: &std::path::Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("made runnable");
}

#[test]
fn a_rebuild_during_a_run_mixed_two_builds() {
    if !can_run("a_rebuild_during_a_run_mixed_two_builds") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let (program, next) = (place.path("tardy"), place.path("tardy.new"));
    fs::copy(tardy(), &program).expect("copied");
    let file = place.path("two.toml");
    // Each cell has a path of its own, for which agents are started.
    let text = "[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\ncycle = \"1ms\"\ncount = 300\n\
                [matrix]\n\"path.queues\" = [1, 2]\n";
    fs::write(&file, text).expect("written");
    let mut command = Command::new(&program);
    command.arg("run").arg(&file).args(["--trials", "2", "--out"]).arg(place.out());
    let child = place.start(command.env("TARDY_STATE", place.state()).stdin(Stdio::null()));
    place.wait_for("built");
    // As `make build` does it: the new file takes the name.
    fs::write(&next, "#!/bin/sh\necho another build >&2\nexit 7\n").expect("written");
    make_runnable(&next);
    fs::rename(&next, &program).expect("renamed");
    let run = place.finish(child);
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    assert!(
        cells.iter().all(|cell| cell["trials"].as_array().is_some_and(|trials| trials.len() == 2)),
        "{}",
        run.stdout
    );
    let built = place.events().iter().filter(|line| line["event"] == "built").count();
    assert!(built > 1, "only {built} path was built: nothing was started after the file had changed");
    let manifest = fs::read_to_string(place.out().join("manifest.json")).expect("a manifest");
    assert!(manifest.contains(" (build "), "the manifest says of which build the agents were");
    same(&before);
}

#[test]
fn root_started_programs_out_of_the_callers_folders() {
    if !can_run("root_started_programs_out_of_the_callers_folders") || !tardy_sys::process::is_root() {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let bin = place.path("bin");
    fs::create_dir(&bin).expect("made");
    for program in ["ip", "tc", "sh", "rm"] {
        let path = bin.join(program);
        fs::write(&path, format!("#!/bin/sh\n: > {}\nexit 1\n", place.path("started").display())).expect("written");
        make_runnable(&path);
    }
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o777)).expect("set");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    place.call(place.run(&SHORT).env("PATH", path)).ran();
    assert!(!place.path("started").exists(), "root started what anybody could have put there");
    same(&before);
}

#[test]
fn the_progress_line_showed_another_metric_than_the_table() {
    if !can_run("the_progress_line_showed_another_metric_than_the_table") {
        return;
    }
    for (more, shown) in [
        ("--set stream.ctl.count=4000", "scheduled..rx_kernel"),
        ("--set stream.ctl.reflect=true --set stream.ctl.count=4000", "scheduled..reply_receive"),
    ] {
        let place = Place::new();
        // The line is shown on a terminal only, which script(1) gives it.
        let line = format!(
            "TARDY_STATE={} {} run --trials 1 {more} --out {}",
            place.state().display(),
            std::path::absolute(tardy()).expect("a path").display(),
            place.out().display()
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .expect("script runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("{shown} p50 ")), "{text}");
        assert!(!text.contains("scheduled..receive p50"), "{text}");
    }
}
