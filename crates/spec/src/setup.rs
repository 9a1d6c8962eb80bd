// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one cell become what is built and what is expected.

use crate::cell::{Table, View, called, cpu, ends, flag, integer, policy, share, span, text};
use crate::error::{At, Problem, Reason};
use crate::experiment::{Path, Setup, Softirq, Station};
use crate::schema::{Value, show_duration};
use crate::sheet::Named;
use crate::stamps::{self, Lack};
use crate::{check, copying, load, machines, nics, shaper};
use std::collections::BTreeMap;
use tardy_model::ethernet::Tag;
use tardy_model::expect::{BANDWIDTH, Count, Expectation, Limit, Of};
use tardy_model::frame::MOST_PACKETS;
use tardy_model::path::{Backend, BpfJit, Devices, MacvtapMode, PathKind, PathTraits};
use tardy_model::point::{Metric, Point};
use tardy_model::port::{Port, Sim};
use tardy_model::station::StationKind;
use tardy_model::stream::{CpuChoice, Ip, Kind, Launch, Overrun, Policy, Reply, Rx, Stream, Tx, Wait};
use tardy_model::time::{Nanos, Ptp};
use tardy_model::xdp::{Core, DeviceHint, Triggered, XdpMode, XdpObject};

/// What a packet may have where nobody knows; nothing is checked against it.
const MTU: u32 = 65_535;
/// Every n-th packet is a synchronisation frame where nothing else is asked for.
const USUAL_SYNC: u32 = 64;
/// Longest trial: keeps every instant of the schedule far from the end of a 64-bit clock.
const LONGEST_TRIAL: Nanos = Nanos::from_secs(30 * 86_400);

/// Works out one cell; `None` if something is wrong with it, or with the file. All that is wrong
/// is kept in the view.
pub(crate) fn setup(view: &View<'_>) -> Option<(Setup, Vec<Expectation>)> {
    if view.is_copy() {
        return copying::setup(view);
    }
    copying::refuse_keys(view);
    let path = view.keep(path(view));
    let stations = stations(view, path.as_ref().filter(|_| view.is_sound("path.kind")).map(Path::traits));
    // Where the path is not known, what rests on it is not checked.
    let is_known = path.is_some();
    let path = path.unwrap_or_else(|| {
        view.lose("path".to_owned());
        Path::made(PathKind::Veth, 1, MTU)
    });
    let mtu = path.mtu;
    let names = view.streams();
    if names.is_empty() && view.is_sound("stream") {
        let help = "write [stream.ctl] with from and to";
        view.keep::<()>(Err(Problem::new(Reason::MissingKey, &At::START, "the experiment has no stream", help)));
    }
    let (mut streams, expect) = streams(view, names);
    stamps::check(view, &path, &streams);
    view.keep(check::ports(view, &known(view, &streams, &["port", "tx.port", "rx.port", "from", "to"])));
    check::sizes(view, &streams, mtu);
    check::queues(view, &streams, path.queues);
    view.keep(check::tags(view, &known(view, &streams, &["port", "tx.port", "vlan", "pcp", "priority"])));
    view.keep(check::spinners(view, &known(view, &streams, &OF_THREADS)));
    let loads = load::loads(view, &streams, mtu);
    let softirq = view.keep(softirq(view, &path));
    if let Some(softirq) = &softirq {
        let ends = ["from", "to", "kind", "reflect", "tx.cpu", "rx.cpu", "reply.cpu", "rx.core", "rx.port"];
        let ends = ends.map(|key| format!("stream.*.{key}"));
        let ends = ends.each_ref().map(String::as_str);
        view.check(&ends, || check::softirq(view, softirq, &streams));
        view.check(&["stream.*.vlan", "stream.*.port"], || check::pcp_queues(view, softirq, &streams));
    }
    let dma_latency = view.keep(dma_latency(view));
    let observes_ptp = view.keep(observes_ptp(view, &path));
    let shaper = view.keep(shaper::shaper(view, &path, &streams, &loads))?;
    if let Some(softirq) = &softirq {
        view.keep(check::nothing_changes(view, &path, &shaper, softirq, &streams));
    }
    stamps::keep_needed(&mut streams, &shaper);
    let all = streams.len() == names.len() && is_known;
    let (softirq, dma_latency_us, observes_ptp) = (softirq?, dma_latency?, observes_ptp?);
    let setup =
        Setup { stations: stations?, path, shaper, streams, loads, softirq, dma_latency_us, observes_ptp, copy: None };
    Some((setup, expect)).filter(|_| all)
}

/// What decides on which CPUs the threads of a stream spin. No end is `*` here: that would also
/// match a key of the stream itself, and a wrong `count` would hide two spinners.
const OF_THREADS: [&str; 14] = [
    "tx.cpu",
    "rx.cpu",
    "reply.cpu",
    "tx.policy",
    "rx.policy",
    "reply.policy",
    "tx.wait",
    "rx.wait",
    "tx.spin",
    "kind",
    "reflect",
    "port",
    "tx.port",
    "rx.port",
];

/// The streams of which these keys have values that somebody meant: what is wrong with one of them
/// says nothing about the others.
fn known<'s>(view: &View<'_>, streams: &'s [Stream], rests_on: &[&str]) -> Vec<&'s Stream> {
    let is_known = |of: &&Stream| rests_on.iter().all(|field| view.is_sound(&format!("stream.{}.{field}", of.name)));
    streams.iter().filter(is_known).collect()
}

/// Whether PTP observes the clocks of both ends. It needs devices that are taken.
fn observes_ptp(view: &View<'_>, path: &Path) -> Result<bool, Problem> {
    let table = view.table("clocks", None);
    let observes = table.get("ptp", called(Ptp::of))? == Ptp::Observe;
    if observes && view.is_sound("path.kind") && path.kind != PathKind::Wire {
        let what = format!(
            "`{}`: ptp4l would run on the devices that path wire takes, and the path is {}",
            table.key("ptp"),
            path.traits().name
        );
        let help = "take path wire, or leave it out: tardy's own exchange needs nothing";
        return Err(table.wrong(&["ptp"], what, help.to_owned()));
    }
    Ok(observes)
}

/// The bound on a CPU's wake-up from idle. The kernel's unit is the microsecond.
fn dma_latency(view: &View<'_>) -> Result<Option<i32>, Problem> {
    let table = view.table("cpu", None);
    let bound = table.get("dma_latency", |value| match value {
        Value::Word => Some(None),
        value => span(value).map(Some),
    })?;
    let Some(Nanos(ns)) = bound else { return Ok(None) };
    if ns % 1_000 != 0 {
        let (near, key) = (ns / 1_000 + 1, table.key("dma_latency"));
        let what = format!("`{key}`: the kernel knows whole microseconds only");
        return Err(table.wrong(&["dma_latency"], what, format!("write \"{near}us\"")));
    }
    Ok(i32::try_from(ns / 1_000).ok())
}

fn softirq(view: &View<'_>, path: &Path) -> Result<Softirq, Problem> {
    let napi = view.table("path", None).get("napi", flag)? && path.traits().napi_on_request;
    let by_pcp = view.table("path", None).get("pcp_queues", flag)?;
    let mut cpus = BTreeMap::new();
    for named in view.stations() {
        let choice = view.table("station.*", Some(named)).get("softirq", cpu)?;
        if choice != CpuChoice::Any {
            cpus.insert(named.name.clone(), choice);
        }
    }
    Ok(Softirq { napi, cpus, by_pcp })
}

fn path(view: &View<'_>) -> Result<Path, Problem> {
    let table = view.table("path", None);
    let kind = table.get("kind", called(PathKind::of))?;
    check::path(view, &table, kind);
    let mtu = table.get("mtu", integer)? as u32;
    match kind.traits().devices {
        Devices::Made { .. } => Ok(Path::made(kind, table.get("queues", integer)? as u32, mtu)),
        Devices::There(_) | Devices::OfGuest(_) | Devices::Own => {
            let mode = table.get("xdp_mode", called(XdpMode::of))?;
            let by_xdp = kind.traits().by_xdp;
            let xdp_mode = if by_xdp { mode } else { XdpMode::Native };
            let xdp_prints = table.get("xdp_printk", flag)? && by_xdp;
            let jit = table.get("bpf_jit", called(BpfJit::of))?;
            let bpf_jit = if by_xdp { jit } else { BpfJit::AsSet };
            let mode = table.get("macvtap_mode", called(MacvtapMode::of))?;
            let is_macvtap = kind.traits().devices.backend() == Some(Backend::Macvtap);
            let macvtap_mode = if is_macvtap { mode } else { MacvtapMode::Bridge };
            let vf = table.get("vf", flag)?;
            let is_vfio = kind.traits().devices.backend() == Some(Backend::Vfio);
            let is_named = kind.traits().may_be_named() && nics::are_named(view, &table);
            if !is_named {
                view.keep(nics::nothing_to_take(view, &table, kind));
            }
            let given = if is_named { nics::named(view, &table, kind, mtu)? } else { Path::given(kind, mtu) };
            Ok(Path { xdp_mode, xdp_prints, bpf_jit, macvtap_mode, vf: vf && is_vfio, ..given })
        }
        Devices::Named => nics::named(view, &table, kind, mtu),
    }
}

/// The stations; `path` is what its kind is, if that is known.
fn stations(view: &View<'_>, path: Option<PathTraits>) -> Option<BTreeMap<String, Station>> {
    let names = view.stations();
    if let Some(path) = path.filter(|_| view.is_sound("station.*.kind"))
        && let Some(first_beyond) = names.get(path.most_stations)
    {
        let joins = if path.most_stations == 2 { "two".to_owned() } else { format!("at most {}", path.most_stations) };
        let message = format!("a {} path joins {joins} stations, the experiment has {}", path.name, names.len());
        let problem = Problem::new(Reason::Combination, &first_beyond.at, message, "leave the others out");
        return view.keep(Err(problem));
    }
    if names.len() < 2 && !view.is_lost("station") {
        let at = names.first().map_or(At::START, |named| named.at.clone());
        let message = format!("the experiment needs two stations and has {}", names.len());
        return view.keep(Err(Problem::new(Reason::MissingKey, &at, message, "write [station.a] and [station.b]")));
    }
    let made = names.iter().map(|named| {
        let table = view.table("station.*", Some(named));
        let written = view.keep(table.get("kind", called(StationKind::of)))?;
        // On what is there already a station can be nothing else.
        let is_own = path.is_some_and(|path| path.devices == Devices::Own) && !table.is_written("kind");
        let kind = if is_own { StationKind::Host } else { written };
        machines::station(view, &table, kind);
        if let Some(path) = path {
            nics::unused(view, &table, path);
        }
        if !kind.traits().is_machine {
            let remote = view.keep(machines::remote(&table))?;
            let address = if kind == StationKind::Host { view.keep(machines::address(&table))? } else { None };
            let tap = if kind == StationKind::Host { view.keep(machines::tap(&table))? } else { None };
            return Some((named.name.clone(), Station { remote, address, tap, ..Station::here(kind) }));
        }
        let machine = view.keep(machines::machine(&table))?;
        let threads = view.keep(machines::threads(&table, machine.net))?;
        let bystanders = view.keep(machines::bystanders(&table))?;
        Some((named.name.clone(), Station { machine: Some(machine), threads, bystanders, ..Station::here(kind) }))
    });
    let stations = made.collect::<Option<BTreeMap<_, _>>>()?;
    if let Some(path) = path.filter(|_| view.is_sound("station.*.kind")) {
        view.keep(check::machines(view, path, &stations));
        view.keep(machines::own(view, path, &stations));
        view.keep(machines::meet(view, path, &stations));
        view.keep(machines::meet_hosts(view, path, &stations));
    }
    Some(stations)
}

/// The streams that can be made, and what is expected of them. A metric with a limit is computed
/// also where the file does not name it, and so is the one that leads.
fn streams(view: &View<'_>, names: &[Named]) -> (Vec<Stream>, Vec<Expectation>) {
    let mut streams = Vec::with_capacity(names.len());
    let mut expect = Vec::new();
    for name in names {
        let Some(mut stream) = view.keep(stream(view, name)) else {
            view.lose(format!("stream.{}", name.name));
            continue;
        };
        let expected = expectations(view, name, &stream);
        stream.lead = view.keep(lead(view, name, &stream)).flatten();
        let of_limits = expected.iter().filter_map(|expectation| match expectation.limit {
            Limit::Metric { metric, .. } => Some(metric),
            Limit::Count { .. } | Limit::Bandwidth { .. } => None,
        });
        for metric in of_limits.chain(stream.lead) {
            if !stream.metrics.contains(&metric) {
                stream.metrics.push(metric);
            }
        }
        expect.extend(expected);
        streams.push(stream);
    }
    (streams, expect)
}

fn stream(view: &View<'_>, name: &Named) -> Result<Stream, Problem> {
    let table = view.table("stream.*", Some(name));
    let kind = match (table.get("kind", text)?.as_str(), table.get("reflect", flag)?) {
        ("pingpong", _) => Kind::Pingpong,
        (_, true) => Kind::Reflected,
        (_, false) => Kind::Cyclic,
    };
    let (from, to) = ends(view, &table);
    let cycle = if kind.is_scheduled() { table.get("cycle", span)? } else { Nanos::ZERO };
    let both = table.get("port", called(Port::of))?;
    let end = |value: &Value| called(Port::of)(value);
    let [port, rx_port] = ["tx.port", "rx.port"].map(|key| table.find(key).and_then(end).unwrap_or(both));
    let (tx_wait, rx_wait) = (table.get("tx.wait", called(Wait::of))?, table.get("rx.wait", called(Wait::of))?);
    let in_flight = table.get("in_flight", integer)? as u32;
    let points = stamps::points(&table, kind, [port, rx_port], [tx_wait, rx_wait], in_flight);
    let stamps = view.keep(points).unwrap_or_else(|| {
        view.lose(table.key("stamps"));
        Vec::new()
    });
    let size = table.get("size", integer)? as u16;
    let pcp = table.get("pcp", integer)? as u8;
    let tag = table.find("vlan").and_then(integer).map(|vlan| Tag { vlan: vlan as u16, pcp });
    let tx_policy = table.get("tx.policy", policy)?;
    let timeout = table.get("timeout", span)?;
    // Without a schedule nothing is late by it; a reply that comes after its request was given up
    // is.
    let by_itself = if kind.is_scheduled() { cycle } else { timeout };
    let stream = Stream {
        name: name.name.clone(),
        from,
        to,
        // A file has one path.
        path: None,
        kind,
        port,
        ip: table.get("ip", ip)?,
        cycle,
        count: view.keep(count(&table, kind, cycle)).unwrap_or(1),
        size,
        ethertype: table.get("ethertype", integer)? as u16,
        tag,
        priority: table.get("priority", integer)? as u32,
        launch: table.get("launch", called(Launch::of))?,
        overrun: table.get("overrun", overrun)?,
        triggered: triggered(&table, rx_port, rx_wait)?,
        deadline: table.get("deadline", |value| if *value == Value::Word { Some(by_itself) } else { span(value) })?,
        max_loss: table.get("max_loss", share)?,
        warmup: table.get("warmup", span)?,
        metrics: view.keep(stamps::metrics(&table, kind, rx_port, &stamps)).unwrap_or_default(),
        lead: None,
        stamps,
        stamps_named: stamps::are_named(&table),
        tx: tx(&table, tx_policy, tx_wait)?,
        rx: rx(&table, rx_port, rx_wait)?,
        reply: reply(&table, size, tx_policy, timeout)?,
        sim: sim(&table)?,
    };
    check::stream(view, &table, &stream);
    Ok(stream)
}

fn tx(table: &Table<'_>, policy: Policy, wait: Wait) -> Result<Tx, Problem> {
    Ok(Tx {
        cpu: table.get("tx.cpu", cpu)?,
        policy,
        advance: table.get("tx.advance", span)?,
        spin: table.get("tx.spin", span)?,
        wait,
        queue: table.find("tx.queue").and_then(integer).map(|queue| queue as u32),
        frames: table.get("tx.frames", integer)? as u32,
    })
}

fn rx(table: &Table<'_>, port: Port, wait: Wait) -> Result<Rx, Problem> {
    Ok(Rx {
        port,
        cpu: table.get("rx.cpu", cpu)?,
        core: table.find("rx.core").and_then(called(Core::of)),
        policy: table.get("rx.policy", policy)?,
        wait,
        queue: table.find("rx.queue").and_then(integer).map(|queue| queue as u32),
        frames: table.get("rx.frames", integer)? as u32,
        object: table.find("rx.object").and_then(object).filter(|_| port.passes_xdp()),
        hints: if port.passes_xdp() { table.get("rx.hints", device_hints)? } else { Vec::new() },
    })
}

/// A reply has the size and the policy of its request where nothing else is asked for.
fn reply(table: &Table<'_>, size: u16, tx_policy: Policy, timeout: Nanos) -> Result<Reply, Problem> {
    Ok(Reply {
        size: table.find("reply_size").and_then(integer).map_or(size, |size| size as u16),
        cpu: table.get("reply.cpu", cpu)?,
        policy: table.find("reply.policy").and_then(policy).unwrap_or(tx_policy),
        in_flight: table.get("in_flight", integer)? as u32,
        timeout,
        nodelay: table.get("nodelay", flag)?,
    })
}

fn overrun(value: &Value) -> Option<Overrun> {
    match value {
        Value::Text(word) if word == "burst" => Some(Overrun::Burst),
        Value::Text(word) if word == "skip" => Some(Overrun::Skip),
        _ => None,
    }
}

fn object(value: &Value) -> Option<XdpObject> {
    if let Value::Text(text) = value { Some(XdpObject::of(text)) } else { None }
}

fn device_hints(value: &Value) -> Option<Vec<DeviceHint>> {
    if let Value::Words(words) = value { words.iter().map(|word| DeviceHint::of(word)).collect() } else { None }
}

/// Which packets are synchronisation frames, where there is an XDP program to see them.
fn triggered(table: &Table<'_>, rx_port: Port, rx_wait: Wait) -> Result<Triggered, Problem> {
    if !rx_port.passes_xdp() {
        return Ok(Triggered::default());
    }
    let usual = if rx_wait == Wait::Scheduled { USUAL_SYNC } else { 0 };
    let sync = table.find("sync").and_then(integer).map_or(usual, |sync| sync as u32);
    Ok(Triggered { sync, bulk: table.get("rx.bulk", integer)? as u32 })
}

fn ip(value: &Value) -> Option<Ip> {
    match value {
        Value::Text(word) if word == "ipv4" => Some(Ip::Ipv4),
        Value::Text(word) if word == "ipv6" => Some(Ip::Ipv6),
        _ => None,
    }
}

/// Packets in a trial: as written, or as many cycles as fit into the duration, at least one.
fn count(table: &Table<'_>, kind: Kind, cycle: Nanos) -> Result<u32, Problem> {
    let is_known = table.are_sound(&["count", "duration", "cycle", "kind", "reflect"]);
    let (field, count) = match table.find("duration") {
        Some(_) if !kind.is_scheduled() && table.are_sound(&["kind", "reflect"]) => {
            let message = format!("`{}`: how long a ping-pong takes is what it measures", table.key("duration"));
            return Err(table.wrong(&["duration", "kind"], message, "write count instead"));
        }
        _ if !is_known => return Ok(1),
        Some(_) => ("duration", (table.get("duration", span)?.0 / cycle.0.max(1)).max(1)),
        None => ("count", table.get("count", integer)?),
    };
    let trial = Nanos(count.saturating_mul(cycle.0));
    match u32::try_from(count).ok().filter(|count| *count <= MOST_PACKETS) {
        Some(count) if trial <= LONGEST_TRIAL => Ok(count),
        Some(_) => {
            let message = format!("`{}`: a trial would last longer than 30 days", table.key(field));
            Err(table.wrong(&[field, "cycle"], message, "write fewer packets, or a shorter cycle"))
        }
        None => {
            let message = format!(
                "`{}`: a trial would have {count} packets at a cycle of {}, more than {}",
                table.key(field),
                show_duration(cycle),
                MOST_PACKETS
            );
            Err(table.wrong(&[field, "cycle"], message, "write a shorter duration, or a longer cycle"))
        }
    }
}

/// The metric that the experiment has lead: the one that it names, else that of the limit on a
/// latency which it writes first: who writes one asks about it.
fn lead(view: &View<'_>, name: &Named, stream: &Stream) -> Result<Option<Metric>, Problem> {
    let table = view.table("stream.*", Some(name));
    if let Some(Value::Metrics(named)) = table.find("lead") {
        named
            .iter()
            .for_each(|metric| stamps::check_metric(&table, "lead", *metric, of_stream(stream), &stream.stamps));
        return Ok(named.first().copied());
    }
    let limits = view.as_written(&format!("expect.{}.", name.name)).into_iter();
    let metrics = limits.filter_map(|(field, _)| field.parse::<Metric>().ok());
    Ok(metrics.into_iter().find(|metric| *metric != Metric::Delta))
}

fn expectations(view: &View<'_>, name: &Named, stream: &Stream) -> Vec<Expectation> {
    let prefix = format!("expect.{}.", name.name);
    let mut out = Vec::new();
    let mut add = |limit| out.push(Expectation { stream: name.name.clone(), limit });
    // Counts before metrics, each in the order of the results.
    let mut rows: Vec<_> = view.below(&prefix).collect();
    rows.sort_by_key(|(field, _)| {
        let metric = field.parse::<Metric>().ok();
        (Count::ALL.iter().position(|count| count.name() == *field).unwrap_or(Count::ALL.len()), metric)
    });
    for (field, assignment) in rows {
        match (&assignment.value, field.parse::<Metric>()) {
            (Value::Integer(_), _) if field == BANDWIDTH => {
                let message = format!("`{}` has no meaning for packets: a copy has a bandwidth", assignment.key);
                let help = "leave it out; how long packets take is limited as \"scheduled..receive\" = \"p99 < 80us\"";
                let keys = [assignment.key.clone(), "kind".to_owned()];
                view.keep::<()>(Err(view.combination(&keys, message, help.to_owned())));
            }
            (Value::Integer(most), _) => {
                let Some(count) = Count::ALL.into_iter().find(|count| count.name() == field) else { continue };
                add(Limit::Count { count, at_most: u64::try_from(*most).unwrap_or(0) });
            }
            (Value::Limits(limits), Ok(metric)) => {
                check_limit(view, name, &assignment.key, metric, stream);
                check_sign(view, &assignment.key, metric, limits);
                for (of, limit_ns, inclusive) in limits.iter().copied() {
                    add(Limit::Metric { metric, of, limit_ns, inclusive });
                }
            }
            _ => {}
        }
    }
    out
}

/// Refuses a limit that no packet can keep: only what is counted from the schedule can be early,
/// and so be below 0.
fn check_sign(view: &View<'_>, key: &str, metric: Metric, limits: &[(Of, i64, bool)]) {
    let is_early = matches!(metric, Metric::Span(Point::Scheduled, _));
    let is_below_all = |(of, limit_ns, inclusive): &(Of, i64, bool)| {
        (!is_early || *of == Of::Stddev) && *limit_ns < i64::from(!inclusive)
    };
    if limits.iter().any(is_below_all) {
        view.check(&[], || {
            let what = if is_early { format!("stddev of {metric}") } else { metric.to_string() };
            let message = format!("`{key}` can never be met: {what} is never below 0");
            let help = "write an upper limit, as \"p99 < 80us\"".to_owned();
            Err(view.combination(&[key.to_owned()], message, help))
        });
    }
}

/// What a stream does, and whether its messages are joined.
fn of_stream(stream: &Stream) -> (Kind, bool) {
    (stream.kind, stamps::joins(stream.port, stream.reply.in_flight))
}

/// Refuses a limit of a metric that the stream cannot have.
fn check_limit(view: &View<'_>, name: &Named, key: &str, metric: Metric, stream: &Stream) {
    let table = view.table("stream.*", Some(name));
    if let Some(help) = stamps::meaningless(metric, stream.kind) {
        table.check(&["kind", "reflect"], || {
            let keys = [key.to_owned(), table.key("kind")];
            Err(view.combination(&keys, format!("`{key}` {}", stamps::NO_SCHEDULE), help))
        });
    } else if let Some(Lack { decided_by, blamed, why, help }) = stamps::lack(metric, &stream.stamps, of_stream(stream))
    {
        table.check(decided_by, || {
            let blamed = blamed.iter().map(|field| table.key(field));
            let keys: Vec<String> = std::iter::once(key.to_owned()).chain(blamed).collect();
            Err(view.combination(&keys, format!("`{key}` {why}"), help))
        });
    }
}

fn sim(table: &Table<'_>) -> Result<Sim, Problem> {
    let int = |field: &str| table.get(field, integer);
    Ok(Sim {
        loss: table.get("sim.loss", share)?,
        drop: table.get("sim.drop", |value| match value {
            Value::Numbers(numbers) => Some(numbers.clone()),
            _ => None,
        })?,
        delay: table.get("sim.delay", span)?,
        jitter: table.get("sim.jitter", span)?,
        reorder: table.get("sim.reorder", share)?,
        duplicate: table.get("sim.duplicate", share)?,
        remark: table.get("sim.remark", share)?,
        retag: table.get("sim.retag", share)?,
        drift_ppb: int("sim.drift_ppb")?,
        wake: table.get("sim.wake", span)?,
        late_share: table.get("sim.late_share", share)?,
        late: table.get("sim.late", span)?,
        receive: table.get("sim.receive", span)?,
        stamps_after: int("sim.stamps_after")? as u32,
        tai_offset_s: int("sim.tai_offset_s")? as i32,
        step: table.get("sim.step", span)?,
        tai_offset_change_s: int("sim.tai_offset_change_s")? as i32,
        hog: table.get("sim.hog", share)?,
        steal: table.get("sim.steal", share)?,
        refuse_policy: table.get("sim.refuse_policy", flag)?,
        throttle: table.get("sim.throttle", span)?,
        hold: table.get("sim.hold", span)?,
        hold_share: table.get("sim.hold_share", share)?,
        phc: table.get("sim.phc", flag)?,
        phc_ahead: table.get("sim.phc_ahead", span)?,
        phc_drift_ppb: int("sim.phc_drift_ppb")?,
        phc_step: table.get("sim.phc_step", span)?,
        phc_tick: table.get("sim.phc_tick", span)?.max(Nanos(1)),
        phc_read: table.get("sim.phc_read", span)?,
    })
}
