// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's own caches of packet heads show in round trips: a C loop without tardy, by
//! each n-th round trip. The kernel fills and empties these caches by sixteen and by sixty-four.
//! `own-trace` must not take that for tardy.

use crate::row::{Better, Raw, Row};
use crate::{Bench, child};
use anyhow::{Context, Result};
use std::process::Stdio;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const COUNT: &str = "20000";
const NTHS: [&str; 3] = ["each_8_ns", "each_16_ns", "each_64_ns"];

/// A row for each use of stamps, where both ends share a CPU.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "pong")?;
    let mut rows = Vec::new();
    for stamps in ["none", "fetch", "leave"] {
        let mut of_nths = [const { Vec::new() }; NTHS.len()];
        for pair in 0..bench.pairs {
            let text = child::joined(bench, "pingpong.toml", |a, b| {
                let address = b.address.to_string();
                let mut far = b.command(&program);
                far.args(["far", &address, "9000", COUNT, "0", stamps]);
                let mut far = far.stdout(Stdio::null()).spawn()?;
                std::thread::sleep(Duration::from_millis(300));
                let ended =
                    child::run(a.command(&program).args(["near", &address, "9000", COUNT, "0", stamps]), &[0], LIMIT);
                far.kill()?;
                far.wait()?;
                Ok(ended?.stdout)
            })?;
            raw.keep(pair, stamps, &text)?;
            for (of, name) in of_nths.iter_mut().zip(NTHS) {
                let ns = text.split_whitespace().skip_while(|word| *word != name).nth(1).context("no such figure")?;
                of.push((ns.parse()?, None));
            }
        }
        for (pairs, nth) in of_nths.into_iter().zip(["8th", "16th", "64th"]) {
            let what = format!("each {nth} round trip of a C loop is longer by, tx stamps: {stamps}");
            rows.push(Row {
                peer: "the loop's median".to_owned(),
                command: format!("pong near ADDRESS 9000 {COUNT} 0 {stamps}"),
                peer_command: format!("pong far ADDRESS 9000 {COUNT} 0 {stamps}"),
                pairs,
                ..Row::new(what, "ns", Better::Uncompared)
            });
        }
    }
    Ok(rows)
}
