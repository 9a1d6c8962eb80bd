// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the loads transfer, compared with iperf3 on the same CPUs.

use crate::row::{Better, Bound, Raw, Row};
use crate::{Bench, child, samples};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn iperf3(bench: &Bench, args: &[&str]) -> Result<(Value, String)> {
    child::joined(bench, "bulk.toml", |a, b| {
        let (address, program) = (b.address.to_string(), Path::new("iperf3"));
        let mut server = b.command(program);
        let mut server = server.args(["-s", "-1", "-A", "1"]).stdout(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(500));
        let first = ["-c", &address, "-t", "4", "-A", "0,1", "--json"];
        let ended = child::run(a.command(program).args(first).args(args), &[0], LIMIT);
        server.kill()?;
        server.wait()?;
        let text = ended?.stdout;
        Ok((serde_json::from_str(&text)?, text))
    })
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    value.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no number at {pointer}"))
}

/// The load of a cell, out of the run's results.
fn load(run: &samples::Run, cell: &str) -> Result<Value> {
    let results = run.results()?;
    let cells = results["cells"].as_array().context("no cells")?;
    let cell = cells.iter().find(|found| found["id"] == cell).context("no such cell")?;
    Ok(cell["loads"]["bulk"].clone())
}

/// Bits a second over TCP, datagrams a second that arrive.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let (mut tcp, mut udp, mut command) = (Vec::new(), Vec::new(), String::new());
    for pair in 0..bench.pairs {
        let (mut mine, mut theirs) = ([0.0; 2], [0.0; 2]);
        for turn in 0..2 {
            if (pair + turn) % 2 == 0 {
                let run = samples::run(bench, "bulk.toml", &[])?;
                let [of_tcp, of_udp] = [load(&run, "tcp")?, load(&run, "udp")?];
                let seconds = number(&of_udp, "/span_ns")? / 1e9;
                mine = [number(&of_tcp, "/achieved_bit_s")? / 1e9, number(&of_udp, "/receives")? / seconds / 1e3];
                raw.keep(pair, "tardy", &format!("{of_tcp}\n{of_udp}\n"))?;
                command = run.command;
            } else {
                let (json, text) = iperf3(bench, &[])?;
                theirs[0] = number(&json, "/end/sum_received/bits_per_second")? / 1e9;
                raw.keep(pair, "iperf3-tcp", &text)?;
                let (json, text) = iperf3(bench, &["-u", "-b", "0", "-l", "64"])?;
                let of = |name: &str| number(&json, &format!("/end/sum/{name}"));
                theirs[1] = (of("packets")? - of("lost_packets")?) / of("seconds")? / 1e3;
                raw.keep(pair, "iperf3-udp", &text)?;
            }
        }
        tcp.push((mine[0], Some(theirs[0])));
        udp.push((mine[1], Some(theirs[1])));
    }
    let row = |what: &str, unit, args: &str, pairs, bound| Row {
        peer: "iperf3".to_owned(),
        command: command.clone(),
        peer_command: format!("iperf3 -t 4 -A 0,1{args}"),
        pairs,
        bound,
        ..Row::new(what, unit, Better::Higher)
    };
    Ok(vec![
        row("load tcp_stream, received", "Gbit/s", "", tcp, Bound::RatioAtLeast(0.9)),
        row("load udp_flood, 64 B, received", "k/s", " -u -b 0 -l 64", udp, Bound::RatioAtLeast(1.0)),
    ])
}
