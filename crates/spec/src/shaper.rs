// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[shaper]`: the values of one cell become a queue discipline.

mod check;

use crate::cell::{Table, View, called, flag, integer, rate, span, text};
use crate::error::Problem;
use crate::experiment::Path;
use crate::schema::{self, Value, show_duration};
use check::Rest;
use tardy_model::load::Load;
use tardy_model::shaper::{
    Cbs, Classes, Etf, MOST_CLASSES, Mode, Mqprio, PRIORITIES, Queues, Schedule, Shaper, ShaperWord, Taprio, wire_bytes,
};
use tardy_model::stream::Stream;
use tardy_model::time::Nanos;

/// Keys of every kind with traffic classes.
const CLASSES: &[&str] = &["classes", "map", "class_queues"];
/// Keys of every kind with etf, or with etf below it.
const ETF: &[&str] =
    &["ptp_priority", "etf.delta", "etf.deadline_mode", "etf.skip_sock_check", "etf.offload", "etf.tolerance"];

/// The keys of `[shaper]` that a kind has, in groups; `kind` itself belongs to all.
const fn keys(kind: ShaperWord) -> &'static [&'static [&'static str]] {
    match kind {
        ShaperWord::None => &[],
        ShaperWord::Etf => &[ETF],
        ShaperWord::Taprio => {
            const GATES: &[&str] = &["entries", "gate_cycle", "base_time", "mode", "txtime_delay", "port_rate"];
            &[CLASSES, GATES, ETF, &["etf.classes"]]
        }
        ShaperWord::Mqprio => &[CLASSES, ETF, &["etf.classes"]],
        ShaperWord::Cbs => &[CLASSES, &["port_rate", "cbs.classes", "cbs.idleslope", "cbs.offload"]],
    }
}

/// True if the key, without `shaper.`, has a meaning for a queue discipline of this kind.
pub(crate) fn belongs(field: &str, kind: ShaperWord) -> bool {
    field == "kind" || keys(kind).iter().any(|group| group.contains(&field))
}

/// The queue discipline of one cell.
pub(crate) fn shaper(view: &View<'_>, path: &Path, streams: &[Stream], loads: &[Load]) -> Result<Shaper, Problem> {
    let table = view.table("shaper", None);
    let kind = table.get("kind", called(ShaperWord::of))?;
    if table.are_sound(&["kind"]) {
        meaning(view, &table, kind);
    }
    let lacks: Vec<_> = needed(kind).iter().filter(|(field, ..)| table.find(field).is_none()).collect();
    for (field, what, example) in &lacks {
        let example = if *field == "entries" { window_each(&table) } else { (*example).to_owned() };
        view.keep::<()>(Err(missing(&table, field, what, &example)));
    }
    if !lacks.is_empty() {
        return Err(table.follows("kind"));
    }
    let cell = Rest { view, path, streams, loads };
    let shaper = match kind {
        ShaperWord::None => Shaper::None,
        ShaperWord::Etf => Shaper::Etf(etf(&table, false)?),
        ShaperWord::Taprio => Shaper::Taprio(taprio(&table, &cell)?),
        ShaperWord::Mqprio => {
            let classes = classes(&table, &cell)?;
            let etf = children(&table, &classes, None)?;
            Shaper::Mqprio(Mqprio { classes, etf })
        }
        ShaperWord::Cbs => Shaper::Cbs(cbs(&table, &cell)?),
    };
    // A claim about packets depends on everything that makes them.
    let made_of = [
        "path",
        "stream.*.port",
        "stream.*.kind",
        "stream.*.reflect",
        "stream.*.priority",
        "load.*.kind",
        "load.*.count",
    ];
    let of_shaper = keys(kind).concat();
    let of_shaper: Vec<String> = of_shaper.iter().map(|field| format!("shaper.{field}")).collect();
    let of_shaper =
        || of_shaper.iter().map(String::as_str).filter(|key| *key != "shaper.etf.delta").chain(["shaper.kind"]);
    let with = |rests_on: &[&'static str]| of_shaper().chain(rests_on.iter().copied()).collect::<Vec<&str>>();
    view.check(&with(&made_of), || check::device(&table, &cell, &shaper));
    let times =
        ["stream.*.launch", "stream.*.cycle", "stream.*.tx.advance", "stream.*.size", "stream.*.vlan", "stream.*.ip"];
    let all: Vec<&str> = with(&made_of).into_iter().chain(times).collect();
    view.check(&all, || check::launches(view, &table, &cell, &shaper));
    let sent = ["path", "stream.*.port", "stream.*.tx.port", "stream.*.launch"];
    view.check(&with(&sent), || check::passed_by(view, &cell, &shaper));
    Ok(shaper)
}

/// Keys of another kind. Where some other cell has that kind, they are that one's; so are they
/// where `--set` chose the kind.
fn meaning(view: &View<'_>, table: &Table<'_>, kind: ShaperWord) {
    if view.is_pinned("shaper.kind") {
        return;
    }
    for field in schema::fields("shaper.").filter(|field| !belongs(field, kind)) {
        let kinds: Vec<&str> =
            ShaperWord::ALL.into_iter().filter(|of| belongs(field, *of)).map(ShaperWord::name).collect();
        let elsewhere = || kinds.iter().any(|of| view.is_somewhere("shaper.kind", of));
        if table.is_written(field) && !elsewhere() {
            let message = format!("`shaper.{field}` has no meaning with shaper `{}`", kind.name());
            let help = format!("write kind = \"{}\", or leave it out", kinds.join("\" or \""));
            view.keep::<()>(Err(table.wrong(&[field, "kind"], message, help)));
        }
    }
}

/// The classes that are advised where none are written.
const FOUR: &str = "4";

/// Entries that give each class that was written, or is advised, an equal part of 1 ms: taprio
/// needs a window for each.
fn window_each(table: &Table<'_>) -> String {
    let classes = table.find("classes").and_then(integer).or(FOUR.parse().ok()).unwrap_or(1);
    let length = show_duration(Nanos::from_micros(1_000 / classes.max(1)));
    let entries: Vec<String> = (0..classes).map(|class| format!("\"{class} {length}\"")).collect();
    format!("[{}]", entries.join(", "))
}

/// Keys that a kind cannot do without: each with who needs it, and an example.
fn needed(kind: ShaperWord) -> &'static [(&'static str, &'static str, &'static str)] {
    const COUNT: (&str, &str, &str) = ("classes", "a queue discipline with classes", FOUR);
    match kind {
        // etf says by itself what it lacks: what depends on that alone is not checked then.
        ShaperWord::None | ShaperWord::Etf => &[],
        // The entries follow from the number of classes.
        ShaperWord::Taprio => &[COUNT, ("entries", "taprio", "")],
        ShaperWord::Mqprio => &[COUNT],
        ShaperWord::Cbs => &[COUNT, ("cbs.classes", "cbs", "[0]"), ("cbs.idleslope", "cbs", "\"100Mbit\"")],
    }
}

fn missing(table: &Table<'_>, field: &str, kind: &str, example: &str) -> Problem {
    let message = format!("`shaper.{field}` is missing: {kind} needs it");
    table.missing(field, &["kind"], message, format!("write {field} = {example}"))
}

fn classes(table: &Table<'_>, cell: &Rest<'_>) -> Result<Classes, Problem> {
    let Some(count) = table.find("classes").and_then(integer) else {
        return Err(missing(table, "classes", "a queue discipline with classes", FOUR));
    };
    let map = match table.find("map") {
        Some(Value::Classes(map)) => map.clone(),
        _ => usual_map(count as u8).to_vec(),
    };
    if let Some((priority, class)) = map.iter().enumerate().find(|(_, class)| i64::from(**class) >= count) {
        let message = format!("`shaper.map` sends priority {priority} to class {class}, and there are {count}");
        let help = format!("write a class from 0 to {}", count - 1);
        table.keep::<()>("map", Err(table.wrong(&["map", "classes"], message, help)));
    }
    let one_each = || (0..count as u32).map(|offset| Queues { count: 1, offset }).collect();
    let mut queues = match table.find("class_queues") {
        Some(Value::Queues(queues)) => queues.clone(),
        _ => one_each(),
    };
    if cell.view.is_sound("path") && cell.view.is_sound("stream.*.port") {
        let checked = check::queues(table, cell, &queues, count as usize);
        if table.keep("class_queues", checked).is_none() {
            queues = one_each();
        }
    }
    let map = std::array::from_fn(|priority| map.get(priority).copied().unwrap_or(0));
    Ok(Classes { map, queues })
}

/// What is used where no map is written: the highest priorities in a class each, the rest in the
/// last.
fn usual_map(count: u8) -> [u8; PRIORITIES] {
    std::array::from_fn(|priority| ((PRIORITIES - 1 - priority) as u8).min(count - 1))
}

fn etf(table: &Table<'_>, assists: bool) -> Result<Etf, Problem> {
    let delta = table.find("etf.delta").and_then(span);
    let delta = table.keep("etf.delta", delta.ok_or_else(|| missing(table, "etf.delta", "etf", "\"300us\"")));
    Ok(Etf {
        delta: delta.unwrap_or_default(),
        deadline_mode: table.get("etf.deadline_mode", flag)?,
        skip_sock_check: table.find("etf.skip_sock_check").and_then(flag).unwrap_or(assists),
        offload: table.get("etf.offload", flag)?,
        tolerance: table.get("etf.tolerance", span)?,
    })
}

/// A list of classes, each of which there is.
fn listed(table: &Table<'_>, field: &str, classes: &Classes) -> Result<Option<Vec<u8>>, Problem> {
    let Some(Value::Classes(listed)) = table.find(field) else { return Ok(None) };
    if let Some(class) = listed.iter().find(|class| **class >= classes.count()) {
        let message = format!("`shaper.{field}` names class {class}, and there are {}", classes.count());
        return Err(table.wrong(
            &[field, "classes"],
            message,
            format!("write classes from 0 to {}", classes.count() - 1),
        ));
    }
    Ok(Some(listed.clone()))
}

/// etf as a child; `by_default` are the classes that have it where none is named.
fn children(
    table: &Table<'_>,
    classes: &Classes,
    by_default: Option<Vec<u8>>,
) -> Result<Option<(Etf, Vec<u8>)>, Problem> {
    let assists = by_default.is_some();
    let at = match table.keep("etf.classes", listed(table, "etf.classes", classes)) {
        Some(at) => at.or(by_default),
        // It was reported, and etf may lack something else.
        None => Some(vec![0]),
    };
    match at {
        Some(at) if !at.is_empty() => Ok(Some((etf(table, assists)?, at))),
        _ => Ok(None),
    }
}

fn taprio(table: &Table<'_>, cell: &Rest<'_>) -> Result<Taprio, Problem> {
    let classes = classes(table, cell)?;
    let mode = match table.get("mode", text)?.as_str() {
        "txtime-assist" => match table.find("txtime_delay").and_then(span) {
            Some(delay) => Mode::TxtimeAssist { delay },
            None => {
                let missing = missing(table, "txtime_delay", "txtime-assist", "\"400us\"");
                table.keep::<()>("txtime_delay", Err(missing));
                Mode::TxtimeAssist { delay: Nanos::ZERO }
            }
        },
        "offload" => Mode::Offload,
        _ => Mode::Software,
    };
    let all = (0..classes.count()).collect();
    let by_default = matches!(mode, Mode::TxtimeAssist { .. }).then_some(all);
    // Cells of other modes may have the etf that the file describes.
    let etf = match mode {
        Mode::Software | Mode::Offload if !table.is_written("etf.classes") => None,
        _ => table.keep("etf", children(table, &classes, by_default)).flatten(),
    };
    let entries = match table.find("entries") {
        Some(Value::Entries(entries)) if !entries.is_empty() => entries.clone(),
        _ => return Err(missing(table, "entries", "taprio", &window_each(table))),
    };
    let sum = Nanos(entries.iter().map(|entry| entry.length.0).sum());
    let cycle = table.find("gate_cycle").and_then(span).unwrap_or(sum);
    if cycle != sum {
        let message = format!(
            "`shaper.entries` last {} together and do not fill `shaper.gate_cycle`, {}",
            show_duration(sum),
            show_duration(cycle)
        );
        let rest = match cycle > sum {
            true => format!("add an entry of {}, as \"none {0}\", or leave gate_cycle out", show_duration(cycle - sum)),
            false => "shorten entries, or leave gate_cycle out".to_owned(),
        };
        table.keep::<()>("gate_cycle", Err(table.wrong(&["gate_cycle", "entries"], message, rest)));
    }
    // `all` is all that there are.
    let there = (1u32 << classes.count()) - 1;
    let every = (1u32 << MOST_CLASSES) - 1;
    let mut entries = entries;
    for entry in &mut entries {
        if entry.open == every {
            entry.open = there;
        }
        if entry.open & !there != 0 {
            let class = (entry.open & !there).trailing_zeros();
            let message =
                format!("`shaper.entries` opens the gate of class {class}, and there are {}", classes.count());
            let help = format!("write classes from 0 to {}", classes.count() - 1);
            table.keep::<()>("entries", Err(table.wrong(&["entries", "classes"], message, help)));
            break;
        }
    }
    let schedule = Schedule { entries, cycle, offset: table.get("base_time", span)? };
    let taprio = Taprio { classes, schedule, mode, port_bit_s: table.get("port_rate", rate)?, etf };
    let rests_on = ["classes", "map", "entries", "gate_cycle", "ptp_priority", "port_rate"];
    let of_others = ["stream.*.priority", "stream.*.size", "stream.*.port", "stream.*.vlan", "path.mtu", "load.*.kind"];
    if table.are_sound(&rests_on) && of_others.iter().all(|key| cell.view.is_sound(key)) {
        table.keep("entries", check::windows(table, cell, &taprio));
    }
    Ok(taprio)
}

fn cbs(table: &Table<'_>, cell: &Rest<'_>) -> Result<Cbs, Problem> {
    let classes = classes(table, cell)?;
    let at = match table.keep("cbs.classes", listed(table, "cbs.classes", &classes)) {
        Some(Some(at)) if !at.is_empty() => at,
        // It was reported.
        None => vec![0],
        _ => return Err(missing(table, "cbs.classes", "cbs", "[0]")),
    };
    let Some(idleslope_bit_s) = table.find("cbs.idleslope").and_then(rate) else {
        return Err(missing(table, "cbs.idleslope", "cbs", "\"100Mbit\""));
    };
    let port_bit_s = table.get("port_rate", rate)?;
    if idleslope_bit_s >= port_bit_s {
        let message = "`shaper.cbs.idleslope` is not below `shaper.port_rate`: nothing would be shaped".to_owned();
        let wrong = table.wrong(&["cbs.idleslope", "port_rate"], message, "write a lower idleslope");
        table.keep::<()>("cbs.idleslope", Err(wrong));
    }
    let mtu = cell.path.mtu;
    let offload = table.get("cbs.offload", flag)?;
    Ok(Cbs { classes, at, idleslope_bit_s, port_bit_s, frame: wire_bytes(mtu, true), offload })
}
