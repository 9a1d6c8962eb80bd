// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of two runs in guests: what a guest booted, and what went into it.

use super::{Side, compared, side};
use tardy_model::comparison::Group;
use tardy_model::manifest::GuestEntry;

/// A run in a guest that booted what has this sum, of an experiment with this cycle.
fn in_guest(sum: &str, cycle: &str) -> Side {
    side(|run, keys| {
        run.manifest.guest = Some(GuestEntry { initramfs_sha256: sum.to_owned(), ..GuestEntry::default() });
        keys.insert("stream.ctl.cycle".to_owned(), cycle.to_owned());
    })
}

fn told(a: &Side, b: &Side) -> Vec<(Group, String)> {
    compared(a, b).differences.into_iter().map(|row| (row.group, row.key)).collect()
}

#[test]
fn the_experiment_that_a_guest_boots_is_not_told_as_a_second_difference() {
    let archive = (Group::Guest, "initramfs_sha256".to_owned());
    let cycle = (Group::Experiment, "stream.ctl.cycle".to_owned());
    let a = in_guest("aa", "\"500us\"");
    assert_eq!(told(&a, &in_guest("bb", "\"1ms\"")), std::slice::from_ref(&cycle));
    // The same for a seed, which is in the manifest.
    let mut seed = in_guest("bb", "\"500us\"");
    seed.0.manifest.seed += 1;
    assert_eq!(told(&a, &seed), [(Group::Experiment, "seed".to_owned())]);
    // The same experiment: the sum may be the only sign of another build.
    assert_eq!(told(&a, &in_guest("bb", "\"500us\"")), std::slice::from_ref(&archive));
    let mut newer = in_guest("bb", "\"500us\"");
    newer.0.manifest.tardy = "0.2.0".into();
    assert_eq!(told(&a, &newer), [archive, (Group::Programs, "tardy".to_owned())]);
    // A run compared with one that was in no guest: that it has a sum is one of its guest's facts.
    let bare = side(|_, keys| _ = keys.insert("stream.ctl.cycle".to_owned(), "\"1ms\"".to_owned()));
    let rows = told(&a, &bare);
    assert!(rows.contains(&(Group::Guest, "initramfs_sha256".to_owned())) && rows.contains(&cycle), "{rows:?}");
}
