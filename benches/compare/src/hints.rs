// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints: what one member of one packet's hint costs, and how long it takes to list the running
//! kernel's structs. The peer is a program in C that does the same work, `benches/peers/hints.c`.

use crate::packets::figure;
use crate::row::{Better, Bound, Raw, Row, median};
use crate::{Bench, child};
use anyhow::{Context, Result, bail};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tardy_bpf::btf::Btf;
use tardy_bpf::hints::{Accessor, Layouts};

/// Areas that are read in turn: more than the first-level cache has lines, as a ring of frames.
const AREAS: usize = 4096;
/// Passes over all of them.
const ROUNDS: usize = 101;
/// Bytes of an area, as an AF_XDP frame has them before the packet.
const AREA: usize = 256;

/// Two structs as an XDP program has them, in BTF: type 1 is 8 bytes, 2 is 4; 3 has a time, a CPU,
/// a queue and its number; 4 has one more.
fn table() -> Vec<u8> {
    let strings = b"\0btf_id\0time\0cpu\0queue\0seq\0rx_time\0mark\0u64\0u32\0";
    let at = |name: &str| {
        let name = [name.as_bytes(), &[0]].concat();
        strings.windows(name.len()).position(|window| window == name).unwrap_or(0) as u32
    };
    let (int, structure) = (1 << 24, 4 << 24);
    let mut words = vec![at("u64"), int, 8, 64, at("u32"), int, 4, 32];
    words.extend([at("rx_time"), structure | 4, 20, at("time"), 1, 0, at("cpu"), 2, 64, at("queue"), 2, 96]);
    words.extend([at("btf_id"), 2, 128]);
    words.extend([at("mark"), structure | 5, 24, at("time"), 1, 0, at("cpu"), 2, 64, at("queue"), 2, 96]);
    words.extend([at("seq"), 2, 128, at("btf_id"), 2, 160]);
    let types = 4 * words.len() as u32;
    let header = [0x0001_eb9f, 24, 0, types, types, strings.len() as u32];
    let bytes = header.iter().chain(&words).flat_map(|word: &u32| word.to_le_bytes());
    bytes.chain(strings.iter().copied()).collect()
}

/// Areas whose structs alternate packet by packet.
fn areas() -> Vec<[u8; AREA]> {
    let area = |n: usize| {
        let mut area = [0; AREA];
        let (id, size) = if n.is_multiple_of(2) { (3u32, 20) } else { (4, 24) };
        area[AREA - size..][..8].copy_from_slice(&(n as u64).to_le_bytes());
        area[AREA - size + 8..][..4].copy_from_slice(&1u32.to_le_bytes());
        area[AREA - 4..].copy_from_slice(&id.to_le_bytes());
        area
    };
    (0..AREAS).map(area).collect()
}

type Accessors = [Accessor; 2];

/// Reads these members of the hints in all areas; returns their sum.
fn pass(layouts: &Layouts, areas: &[[u8; AREA]], members: &[Accessors]) -> Result<u64> {
    let mut sum = 0u64;
    for area in areas {
        let Some(hint) = layouts.read(area)? else { bail!("a hint is missing") };
        for [plain, mark] in members {
            let accessor = if hint.id() == plain.id() { plain } else { mark };
            sum = sum.wrapping_add(accessor.u64(&hint).unwrap_or(u64::MAX));
        }
    }
    Ok(sum)
}

/// ns for the hint of a packet with one member of it, and for each further member: medians of
/// passes, which are too short to be interrupted often.
fn members() -> Result<(f64, f64)> {
    let layouts = Layouts::of(&Btf::parse(table())?)?;
    let of = |member| Ok::<_, anyhow::Error>([layouts.accessor("rx_time", member)?, layouts.accessor("mark", member)?]);
    let all = [of("time")?, of("cpu")?, of("queue")?];
    let areas = areas();
    let timed = |members: &[Accessors], expected: usize| -> Result<f64> {
        let began = Instant::now();
        let sum = pass(black_box(&layouts), black_box(&areas), black_box(members))?;
        let took = began.elapsed().as_secs_f64() * 1e9 / AREAS as f64;
        if sum != expected as u64 {
            bail!("the members add up to {sum} and not to {expected}");
        }
        Ok(took)
    };
    let times = AREAS * (AREAS - 1) / 2;
    let (mut first, mut further) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let one = timed(&all[..1], times)?;
        first.push(one);
        further.push((timed(&all, times + AREAS)? - one) / 2.0);
    }
    median(first).zip(median(further)).context("no pass was made")
}

/// Turns of a pair, tardy and its peer after one another: a single call of ten milliseconds is
/// mostly what else the machine did.
const TURNS: usize = 9;
const LIMIT: Duration = Duration::from_secs(60);

/// What the program in C prints of its members.
fn peers_members(program: &Path) -> Result<(f64, f64)> {
    let printed = child::run(Command::new(program).arg("read"), &[0], LIMIT)?.stdout;
    Ok((figure(&printed, "first")?, figure(&printed, "further")?))
}

/// Wall time of a command in ms, start of the program included.
fn call(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let (status, took) = (status.with_context(|| format!("{command:?}"))?, began.elapsed());
    // A kernel without a single such struct is searched as a whole too.
    match status.code() {
        Some(0 | 2) => Ok(took.as_secs_f64() * 1e3),
        code => bail!("{command:?} ended with {code:?}: has this kernel BTF?"),
    }
}

pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "hints")?;
    let row = |what: &str, unit, [peer, command, peer_command]: [&str; 3], bound| Row {
        peer: peer.to_owned(),
        command: command.to_owned(),
        peer_command: peer_command.to_owned(),
        bound,
        ..Row::new(what, unit, Better::Lower)
    };
    let (read, list) = (["C loop", "", "hints read"], ["C walk, unchecked", "tardy hints vmlinux", "hints list"]);
    let mut rows = [
        row("a packet's hint found, and one member read", "ns", read, Bound::None),
        row("a further member of a hint", "ns", read, Bound::AtMost(5.0)),
        row("the running kernel's hint structs listed", "ms", list, Bound::AtMost(30.0)),
    ];
    for pair in 0..bench.pairs {
        let (mut ours, mut peers) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
        for turn in 0..2 * TURNS {
            // Each goes first in every other pair of turns.
            let (is_ours, of) = match turn % 4 {
                0 | 3 => (true, &mut ours),
                _ => (false, &mut peers),
            };
            let (first, further) = if is_ours { members()? } else { peers_members(&program)? };
            let mut list = match is_ours {
                true => Command::new(&bench.tardy),
                false => Command::new(&program),
            };
            list.args(if is_ours { &["hints", "vmlinux"][..] } else { &["list"] });
            of.iter_mut().zip([first, further, call(&mut list)?]).for_each(|(of, value)| of.push(value));
        }
        for (who, of) in [("tardy", &ours), ("c", &peers)] {
            let [first, further, listed] = of;
            let text = format!("hint and member {first:?} ns\nfurther {further:?} ns\nlist {listed:?} ms\n");
            raw.keep(pair, who, &text)?;
        }
        for ((row, ours), peers) in rows.iter_mut().zip(ours).zip(peers) {
            row.pairs.push((median(ours).context("no turn was made")?, median(peers)));
        }
    }
    Ok(rows.into())
}
