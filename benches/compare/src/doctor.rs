// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long `tardy doctor` takes without watching a CPU: all that it reads, and what it tries of
//! the kernel in a network namespace.

use crate::row::{Better, Bound, Raw, Row};
use crate::{Bench, child};
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let (mut whole, mut read) = (Vec::new(), Vec::new());
    for pair in 0..bench.pairs {
        let call = |args: &[&str]| {
            // Exit code 1 is an answer too: the machine would spoil figures.
            child::run(Command::new(&bench.tardy).arg("doctor").args(args), &[0, 1], LIMIT)
        };
        let ended = call(&["--json"])?;
        raw.keep(pair, "doctor", &ended.stdout)?;
        whole.push((ended.wall_s * 1e3, None));
        read.push((call(&["--json", "--no-try"])?.wall_s * 1e3, None));
    }
    let row = |what: &str, command: &str, pairs| Row {
        command: command.to_owned(),
        pairs,
        bound: Bound::AtMost(1_000.0),
        ..Row::new(what, "ms", Better::Lower)
    };
    Ok(vec![
        row("`tardy doctor`, without watching a CPU", "tardy doctor --json", whole),
        row("the same without trying what the kernel can do", "tardy doctor --json --no-try", read),
    ])
}
