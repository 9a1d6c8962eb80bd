// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads of one cell: their values, and which of them do not go together.

use crate::cell::{Table, View, called, cpu, ends, integer, policy, share, span, station, text};
use crate::error::{Problem, Reason};
use crate::experiment::thread_at;
use crate::schema::{self, Value, show_duration};
use crate::sheet::Named;
use tardy_model::load::{Distribution, Load, LoadKind, LoadWord, Rate};
use tardy_model::stream::{CpuChoice, Policy, Stream, UNDER_TEST};
use tardy_model::time::Nanos;

/// Keys that every kind has.
pub(crate) const ALWAYS: [&str; 7] = ["kind", "count", "from", "cpu", "policy", "start", "stop"];
/// Keys of every kind that has a side at the other station, or may have one.
const PEER: &[&str] = &["to", "peer_cpu", "peer_policy"];
/// Keys of every kind that sends and receives by itself.
const BUFFERS: &[&str] = &["send_buffer", "receive_buffer"];
/// Bytes of an IPv4 and a UDP header.
const HEADERS: u32 = 28;
/// A realtime thread that computes for more than this share of the time would starve the machine.
const MOST_REALTIME: f64 = 0.9;

/// The keys of a kind that not all kinds have, in groups.
const fn keys(kind: LoadWord) -> &'static [&'static [&'static str]] {
    match kind {
        LoadWord::TcpStream => &[PEER, BUFFERS, &["size", "rate", "shortfall"]],
        LoadWord::TcpMaerts => &[PEER, BUFFERS, &["size"]],
        LoadWord::TcpRr => &[PEER, BUFFERS, &["size", "reply_size"]],
        LoadWord::UdpFlood => &[PEER, BUFFERS, &["size", "rate", "packet_rate", "shortfall"]],
        LoadWord::Camera => &[PEER, BUFFERS, &["shortfall", "fps", "frame_size", "packet_size"]],
        LoadWord::Sporadic => &[PEER, BUFFERS, &["size", "burst", "gap"]],
        LoadWord::Cpu => &[&["shortfall", "duty", "period"]],
        LoadWord::Memory => &[&["working_set"]],
        LoadWord::Command => &[PEER, &["command", "peer_command"]],
    }
}

/// True if the key means something for this kind.
pub(crate) fn has(kind: LoadWord, field: &str) -> bool {
    ALWAYS.contains(&field) || keys(kind).iter().any(|group| group.contains(&field))
}

/// `size` as it would be written, of a load that has one.
pub(crate) fn size(load: &Load) -> Option<String> {
    match load.kind {
        LoadKind::TcpStream { size, .. }
        | LoadKind::TcpMaerts { size }
        | LoadKind::TcpRr { size, .. }
        | LoadKind::UdpFlood { size, .. }
        | LoadKind::Sporadic { size, .. } => Some(format!("\"{size}B\"")),
        _ => None,
    }
}

/// The loads of a cell. One without an instance is checked and left out.
pub(crate) fn loads(view: &View<'_>, streams: &[Stream], mtu: u32) -> Vec<Load> {
    let mut loads = Vec::new();
    for name in view.loads() {
        let table = view.table("load.*", Some(name));
        if view.streams().iter().any(|stream| stream.name == name.name) {
            // Threads are reported by name: `ctl.tx`, `bulk.from`.
            let message = format!("a load and a stream are both called `{}`", name.name);
            let help = format!("call the load otherwise: [load.{}-load]", name.name);
            view.keep::<()>(Err(Problem::new(Reason::Combination, &name.at, message, help)));
        }
        let Some(load) = view.keep(load(view, name)) else {
            view.lose(format!("load.{}", name.name));
            continue;
        };
        if view.is_sound("path.mtu") {
            table.check(&["kind", "size", "packet_size"], || datagrams(&table, &load, mtu));
        }
        threads(view, &table, &load, streams);
        if load.count == 0 {
            continue;
        }
        table.check(&["count"], || not_simulated(view, &table, &load, streams));
        loads.push(load);
    }
    loads
}

/// Nothing is built on port sim for a load to disturb.
fn not_simulated(view: &View<'_>, table: &Table<'_>, load: &Load, streams: &[Stream]) -> Result<(), Problem> {
    let Some(sim) = streams.iter().find(|stream| stream.port.traits().is_simulated) else { return Ok(()) };
    let message = format!(
        "load `{}` would run next to stream `{}` on port sim, where nothing is built and time is simulated",
        load.name, sim.name
    );
    let keys = [table.key("count"), format!("stream.{}.port", sim.name)];
    Err(view.combination(&keys, message, "write count = 0, or port = \"udp\"".to_owned()))
}

fn load(view: &View<'_>, name: &Named) -> Result<Load, Problem> {
    let table = view.table("load.*", Some(name));
    if table.find("kind").is_none() {
        // What it does is not known; where and when, is.
        match table.find("to") {
            Some(_) => drop(ends(view, &table)),
            None => drop(view.keep(station(view, &table, "from"))),
        }
        view.keep(when(&table));
    }
    let of = table.get("kind", called(LoadWord::of))?;
    if table.are_sound(&["kind"]) {
        meaning(view, &table, of);
    }
    let kind = kind(&table, of)?;
    let count = table.get("count", integer)? as u32;
    let (from, to) = where_it_runs(view, &table, of)?;
    if to.is_none() {
        runs_at_one_end(&table, &kind);
    }
    let (start, stop) = when(&table)?;
    let buffer = |field: &str| {
        table.get(field, |value| match value {
            Value::Word => Some(None),
            Value::Integer(bytes) => Some(u64::try_from(*bytes).ok()),
            _ => None,
        })
    };
    Ok(Load {
        name: name.name.clone(),
        kind,
        count,
        from,
        to,
        // A file has one path.
        path: None,
        cpu: table.get("cpu", cpu)?,
        peer_cpu: table.get("peer_cpu", cpu)?,
        policy: table.get("policy", policy)?,
        peer_policy: table.get("peer_policy", policy)?,
        start,
        stop,
        send_buffer: buffer("send_buffer")?,
        receive_buffer: buffer("receive_buffer")?,
        shortfall: table.get("shortfall", share)?,
    })
}

/// The stations of a load of this kind: where it starts, and the other one, if it has one.
fn where_it_runs(view: &View<'_>, table: &Table<'_>, kind: LoadWord) -> Result<(String, Option<String>), Problem> {
    if table.find("to").is_some() {
        let (from, to) = ends(view, table);
        return Ok((from, Some(to)));
    }
    let goes_there = match kind {
        LoadWord::TcpStream
        | LoadWord::TcpMaerts
        | LoadWord::TcpRr
        | LoadWord::UdpFlood
        | LoadWord::Camera
        | LoadWord::Sporadic => true,
        LoadWord::Cpu | LoadWord::Memory | LoadWord::Command => false,
    };
    if !goes_there {
        return Ok((table.keep("from", station(view, table, "from")).unwrap_or_default(), None));
    }
    let message = format!("`{}` is missing: a `{}` goes from one station to another", table.key("to"), kind.name());
    let from = table.find("from").and_then(text);
    let other = view.stations().iter().map(|station| &station.name).find(|name| Some(*name) != from.as_ref());
    let other = other.map_or("b", String::as_str);
    table.check(&["to"], || Err(table.missing("to", &["kind"], message, format!("write to = \"{other}\""))));
    Ok((from.unwrap_or_default(), Some(String::new())))
}

/// What a program without `to` must not need of it.
fn runs_at_one_end(table: &Table<'_>, kind: &LoadKind) {
    let LoadKind::Command { command, peer_command } = kind else { return };
    if !peer_command.is_empty() {
        let message = format!("`{}` runs at `to`, which is missing", table.key("peer_command"));
        needs_to(table, "peer_command", message);
    }
    if command.iter().any(|word| word.contains("{to}")) {
        let message = format!("`{}` names {{to}}, and `{}` is missing", table.key("command"), table.key("to"));
        needs_to(table, "command", message);
    }
}

/// From when on it runs, and until when; `None` is the trial's end.
fn when(table: &Table<'_>) -> Result<(Nanos, Option<Nanos>), Problem> {
    let start = table.get("start", span)?;
    let stop = table.get("stop", |value| match value {
        Value::Word => Some(None),
        value => span(value).map(Some),
    })?;
    table.check(&["stop", "start"], || match stop.filter(|stop| *stop <= start) {
        Some(stop) => {
            let message = format!(
                "`{}` of {} is not after `{}` of {}",
                table.key("stop"),
                show_duration(stop),
                table.key("start"),
                show_duration(start)
            );
            Err(table.wrong(&["stop", "start"], message, "write a later stop, or \"end\""))
        }
        None => Ok(()),
    });
    Ok((start, stop))
}

/// A program that needs the other station, and none is named.
fn needs_to(table: &Table<'_>, field: &str, message: String) {
    table.check(&["to"], || Err(table.missing("to", &[field], message, "write to = the other station")));
}

/// Keys of another kind. Where some other cell has this load of that kind, they are that one's.
fn meaning(view: &View<'_>, table: &Table<'_>, kind: LoadWord) {
    for field in schema::fields("load.*.").filter(|field| !has(kind, field)) {
        let kinds: Vec<&str> = LoadWord::ALL.into_iter().filter(|of| has(*of, field)).map(LoadWord::name).collect();
        let elsewhere = || kinds.iter().any(|other| view.is_somewhere(&table.key("kind"), other));
        if table.is_meant(field) && !elsewhere() {
            let message = format!("`{}` has no meaning for a `{}`", table.key(field), kind.name());
            let help = match &kinds[..] {
                [one] => format!("write kind = \"{one}\", or leave it out"),
                several => format!("leave it out; it is of: {}", several.join(", ")),
            };
            view.keep::<()>(Err(table.meaningless(field, message, &help)));
        }
    }
}

fn kind(table: &Table<'_>, word: LoadWord) -> Result<LoadKind, Problem> {
    let bytes = |field: &str| table.get(field, integer).map(|bytes| bytes.max(0) as u64);
    let size = |default: u64| match table.find("size") {
        Some(_) => bytes("size"),
        None => Ok(default),
    };
    let rate = |field: &str| match table.find(field) {
        Some(_) => bytes(field).map(Some),
        None => Ok(None),
    };
    let spread = |field: &str| {
        table.get(field, |value| match value {
            Value::Spread(distribution) => Some::<Distribution>(*distribution),
            _ => None,
        })
    };
    let words = |field: &str| match table.find(field) {
        Some(Value::Words(words)) => Some(words.clone()),
        _ => None,
    };
    Ok(match word {
        LoadWord::TcpStream => LoadKind::TcpStream { size: size(16_384)?, rate: rate("rate")? },
        LoadWord::TcpMaerts => LoadKind::TcpMaerts { size: size(16_384)? },
        LoadWord::TcpRr => LoadKind::TcpRr { size: size(1)?, reply_size: bytes("reply_size")? },
        LoadWord::UdpFlood => LoadKind::UdpFlood {
            size: size(1_400)?,
            rate: match (rate("rate")?, rate("packet_rate")?) {
                (Some(bits), _) => Some(Rate::Bits(bits)),
                (None, packets) => packets.map(Rate::Packets),
            },
        },
        LoadWord::Camera => LoadKind::Camera {
            fps: table.get("fps", integer)? as u32,
            frame_size: bytes("frame_size")?,
            packet_size: bytes("packet_size")?,
        },
        LoadWord::Sporadic => LoadKind::Sporadic { size: size(16_384)?, burst: spread("burst")?, gap: spread("gap")? },
        LoadWord::Cpu => {
            let duty = table.get("duty", share)?;
            table.check(&["duty"], || match duty <= 0.0 {
                true => {
                    let message = format!("`{}` of 0 is no load", table.key("duty"));
                    Err(table.wrong(&["duty"], message, "write duty = \"50%\", or count = 0"))
                }
                false => Ok(()),
            });
            LoadKind::Cpu { duty, period: table.get("period", span)? }
        }
        LoadWord::Memory => LoadKind::Memory { working_set: bytes("working_set")? },
        LoadWord::Command => {
            let command = words("command").ok_or_else(|| {
                let message = format!("`{}` is missing: it names the program to start", table.key("command"));
                let help = "write command = [\"iperf3\", \"-c\", \"{to}\", \"-t\", \"1000\"]";
                table.missing("command", &["kind"], message, help)
            });
            let command = table.keep("command", command).unwrap_or_default();
            LoadKind::Command { command, peer_command: words("peer_command").unwrap_or_default() }
        }
    })
}

/// A datagram goes in one piece: what is lost is then counted in whole ones.
fn datagrams(table: &Table<'_>, load: &Load, mtu: u32) -> Result<(), Problem> {
    let most = u64::from(mtu.saturating_sub(HEADERS));
    let (field, bytes) = match load.kind {
        LoadKind::UdpFlood { size, .. } => ("size", size),
        LoadKind::Camera { packet_size, .. } => ("packet_size", packet_size),
        _ => return Ok(()),
    };
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "`{}` of {bytes}B does not fit `path.mtu`, {mtu}, less {HEADERS} bytes of IP and UDP headers",
        table.key(field)
    );
    Err(table.wrong(&[field, "kind"], message, format!("write at most \"{most}B\"")))
}

/// What the threads at either end cannot have, each by itself.
fn threads(view: &View<'_>, table: &Table<'_>, load: &Load, streams: &[Stream]) {
    let far = load.to.as_deref().unwrap_or("");
    let sides = [
        (["cpu", "policy", "from"], load.cpu, load.policy, load.from.as_str()),
        (["peer_cpu", "peer_policy", "to"], load.peer_cpu, load.peer_policy, far),
    ];
    let are_known = ["stream.*.tx.cpu", "stream.*.rx.cpu", "stream.*.reply.cpu", "stream.*.from", "stream.*.to"]
        .iter()
        .all(|key| view.is_sound(key));
    for (fields @ [cpu_field, policy_field, end], cpu, policy, station) in sides {
        if table.are_sound(&[policy_field, "kind", "duty"])
            && let Some(problem) = policy_of(table, load, fields, cpu, policy)
        {
            view.keep::<()>(Err(problem));
            continue;
        }
        let under_test = under_test(streams).filter(|_| are_known);
        let theirs = under_test.and_then(|stream| Some(thread_at(stream, station)?.cpu(stream)));
        if cpu == CpuChoice::Same && theirs == Some(CpuChoice::Any) {
            table.check(&[cpu_field, end], || {
                let name = under_test.map_or("", |stream| stream.name.as_str());
                let message = format!(
                    "`{}` is \"same\" as that of stream `{name}`, whose thread there is not pinned",
                    table.key(cpu_field)
                );
                Err(table.wrong(&[cpu_field], message, "pin the stream's thread, or write \"any\""))
            });
        }
    }
}

/// What a thread of the load cannot have because of its policy.
fn policy_of(
    table: &Table<'_>,
    load: &Load,
    [cpu_field, policy_field, _]: [&str; 3],
    cpu: CpuChoice,
    policy: Policy,
) -> Option<Problem> {
    // Whatever its CPU is, the program cannot start.
    if matches!(policy, Policy::Deadline { .. }) && matches!(load.kind, LoadKind::Command { .. }) {
        let message = format!(
            "`{}` is deadline: a program cannot inherit that, for the kernel refuses such a thread's fork (EAGAIN)",
            table.key(policy_field)
        );
        return Some(table.wrong(&[policy_field, "kind"], message, "write other, fifo:N or rr:N"));
    }
    if matches!(policy, Policy::Deadline { .. }) && cpu != CpuChoice::Any && table.are_sound(&[cpu_field]) {
        let message = format!(
            "`{}` is deadline and `{}` is \"{cpu}\": the kernel refuses SCHED_DEADLINE on a pinned thread (EPERM)",
            table.key(policy_field),
            table.key(cpu_field)
        );
        return Some(table.wrong(&[policy_field, cpu_field], message, format!("write {cpu_field} = \"any\"")));
    }
    let busy = match load.kind {
        LoadKind::Cpu { duty, .. } => duty,
        LoadKind::Memory { .. } => 1.0,
        _ => 0.0,
    };
    if policy.is_realtime() && busy > MOST_REALTIME {
        let message = format!(
            "`{}` is {policy}, and the load would leave nothing of its CPU to others, tardy's own threads among them",
            table.key(policy_field)
        );
        let help = "write \"other\", or a duty of at most \"90%\"";
        return Some(table.wrong(&[policy_field, "kind"], message, help));
    }
    None
}

/// The stream that `same` and `different` refer to: `ctl`, or the first.
pub fn under_test(streams: &[Stream]) -> Option<&Stream> {
    streams.iter().find(|stream| stream.name == UNDER_TEST).or(streams.first())
}
