// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other kernels than the layer's own: one named by its file, and in the soak each that can be
//! fetched.

use crate::command::{Finished, Place};
use crate::exact::{first, manifest, print};
use crate::guest::{KERNEL, SHORT, can_run};
use crate::shapers::each_on;
use tardy_lab::guest::kernel;

fn run(kernel: &str) -> (Place, Finished) {
    let place = Place::new();
    let run = place.call(place.run(&["--in", "guest:exact", "--kernel", kernel]).args(SHORT).arg("--json"));
    run.ran();
    (place, run)
}

#[test]
fn a_kernel_named_by_its_file_is_that_kernel() {
    if !can_run("a_kernel_named_by_its_file_is_that_kernel") {
        return;
    }
    let image = kernel::find(&kernel::cache(), KERNEL).expect("it was fetched").image;
    let (place, by_file) = run(&image.display().to_string());
    assert_eq!(manifest(&place)["guest"]["kernel"], image.display().to_string());
    // Its modules were found next to it, and nothing else of that name gets in.
    assert_eq!(print(&by_file.results), print(&first().run.results));
}

#[test]
fn every_kernel_of_debians_boots_repeats_and_shapes() {
    if !can_run("every_kernel_of_debians_boots_repeats_and_shapes") {
        return;
    }
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    let others = kernel::DEBIAN.iter().filter(|debian| soak && debian.name != KERNEL);
    let mut prints = vec![print(&first().run.results).to_owned()];
    for debian in others {
        // A run fetches what is missing.
        let ((place, a), (_, b)) = (run(debian.name), run(debian.name));
        assert_eq!(print(&a.results), print(&b.results), "{}", debian.name);
        let manifest = manifest(&place);
        let version = manifest["guest"]["proc_version"].as_str().expect("/proc/version").to_owned();
        assert_eq!(version.contains("PREEMPT_RT"), debian.name.ends_with("-rt"), "{version}");
        eprintln!("{}: {version}", debian.name);
        prints.push(print(&a.results).to_owned());
        // That of the layer is asked in shapers.rs.
        each_on(debian.name);
    }
    let all = prints.len();
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), all, "no two kernels take the same number of instructions");
}
