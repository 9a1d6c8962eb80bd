// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy copy`: the ready-made experiment `copy`, each flag a key of it.

use crate::args::{Copy, Experiment, InGuest, Run};
use crate::exit::Exit;
use anyhow::Result;

pub fn call(args: Copy) -> Result<Exit> {
    let Copy { trials, out, json, .. } = &args;
    super::run::call(Run {
        experiment: Experiment { experiment: "copy".to_owned(), set: sets(&args), trials: *trials },
        guest: InGuest { place: None, kernel: None, append: None, tai_offset: 0 },
        allow_commands: false,
        allow_nics: false,
        allow_hosts: false,
        xdp_object: None,
        out: out.clone(),
        json: *json,
    })
}

/// What the flags set.
fn sets(args: &Copy) -> Vec<String> {
    // A number alone is one of bytes.
    let is_bare = |size: &String| !size.is_empty() && size.chars().all(|c| c.is_ascii_digit());
    let bytes = args.bytes.as_ref().map(|size| if is_bare(size) { format!("{size}B") } else { size.clone() });
    let flags = [
        ("threads", &args.threads),
        ("channels", &args.channels),
        ("controllers", &args.controllers),
        ("buffers", &args.buffers),
        ("bytes", &bytes),
        ("iterations", &args.iterations),
        ("policy", &args.policy),
        ("method", &args.method),
        ("pages", &args.pages),
        ("from", &args.from),
        ("to", &args.to),
    ];
    let set = |(key, value): (&str, &Option<String>)| value.as_ref().map(|value| format!("copy.{key}={value}"));
    let mut keys: Vec<String> = flags.into_iter().filter_map(set).collect();
    // Numbers are CPUs over which the threads are spread.
    match args.bind.as_deref() {
        Some(cpus) if cpus.starts_with(|c: char| c.is_ascii_digit()) => {
            keys.extend(["copy.bind=spread".to_owned(), format!("copy.cpus=[{cpus}]")]);
        }
        Some(word) => keys.push(format!("copy.bind={word}")),
        None => {}
    }
    keys
}
