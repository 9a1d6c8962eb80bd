// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are each right, but do not go together. Those of one path or of one stream are
//! here, those of several streams of a cell in `check/together.rs`. What `[validity]` of the file
//! may set is in `check/rules.rs`.

mod rules;
mod together;

use crate::cell::{Table, View};
use crate::error::Problem;
use crate::experiment::Station;
use crate::schema::{Value, show_duration};
pub(crate) use rules::validity;
use std::collections::BTreeMap;
use tardy_model::ethernet::{ETHERTYPE, MOST_HEAD, TAGS};
use tardy_model::path::{Backend, BpfJit, Devices, MacvtapMode, PathKind, PathTraits};
use tardy_model::port::TagBy;
use tardy_model::stream::{CpuChoice, Kind, Policy, Stream, Wait};
use tardy_model::xdp::{TO_ONE_LINE, XdpMode};
pub(crate) use together::{nothing_changes, pcp_queues, ports, queues, sizes, softirq, spinners, tags};

/// A key of a path that belongs to some kinds only, and to which.
type OfSomePaths = (&'static str, fn(&PathTraits) -> bool);

const OF_SOME_PATHS: [OfSomePaths; 10] = [
    ("a", PathTraits::may_be_named),
    ("b", PathTraits::may_be_named),
    ("take", PathTraits::may_be_named),
    ("queues", |path| path.devices.are_made()),
    ("napi", |path| path.napi_on_request),
    ("xdp_mode", |path| path.by_xdp),
    ("xdp_printk", |path| path.by_xdp),
    ("bpf_jit", |path| path.by_xdp),
    ("macvtap_mode", |path| matches!(path.devices, Devices::OfGuest(Backend::Macvtap))),
    ("vf", |path| matches!(path.devices, Devices::OfGuest(Backend::Vfio))),
];

/// What helps where the machine's device is the other station's too.
pub(crate) const NO_UPLINK: &str = "leave it out, or write path.kind as one of \"bridge\", \"macvtap\", \"ovs\", \"ovs-netdev\", \"xdp\", which lead to a network device";

/// True if the key of a path, without `path`, has a meaning for one of this kind.
pub(crate) fn belongs_to_path(field: &str, path: &PathTraits) -> bool {
    OF_SOME_PATHS.iter().find(|(key, _)| *key == field).is_none_or(|(_, belongs)| belongs(path))
}

/// Keys of a path of another kind. Where some other cell has a path of that kind, they are that
/// one's; and where `--set` chose the kind, those of the file are the former kind's.
pub(crate) fn path(view: &View<'_>, table: &Table<'_>, kind: PathKind) {
    for (field, belongs) in OF_SOME_PATHS.into_iter().filter(|(_, belongs)| !belongs(&kind.traits())) {
        let mut others = PathKind::ALL.into_iter().map(PathKind::traits).filter(belongs);
        // Written out, the default of a file is what it has anyway.
        let is_default = match field {
            "xdp_mode" => table.find(field) == Some(&Value::Text(XdpMode::Native.name().into())),
            "xdp_printk" | "vf" => table.find(field) == Some(&Value::Flag(false)),
            "bpf_jit" => table.find(field) == Some(&Value::Text(BpfJit::AsSet.name().into())),
            "macvtap_mode" => table.find(field) == Some(&Value::Text(MacvtapMode::Bridge.name().into())),
            _ => view.is_of_former_kind(&table.key(field), "path.kind"),
        };
        if table.is_written(field) && !is_default && !others.any(|other| view.is_somewhere("path.kind", other.name)) {
            let message = format!("`path.{field}` has no meaning on path `{}`", kind.traits().name);
            let help = match field {
                "napi" => "leave it out: what a device's packets take is its driver's affair",
                "xdp_mode" | "xdp_printk" | "bpf_jit" => "write kind = \"xdp\", or leave it out",
                "macvtap_mode" => "write kind = \"macvtap\", or leave it out",
                "vf" => "write kind = \"vfio\", or leave it out",
                "queues" => "leave it out: a device keeps its queues",
                _ if kind.traits().devices.backend().is_some() => NO_UPLINK,
                _ => "write kind = \"wire\", or leave it out",
            };
            view.keep::<()>(Err(table.wrong(&[field, "kind"], message, help)));
        }
    }
}

/// A path into a virtual machine joins one with a network namespace, and other paths join no
/// machines.
pub(crate) fn machines(view: &View<'_>, path: PathTraits, stations: &BTreeMap<String, Station>) -> Result<(), Problem> {
    let key = |name: &str| format!("station.{name}.kind");
    let (machines, others): (Vec<_>, Vec<_>) = stations.iter().partition(|(_, of)| of.kind.traits().is_machine);
    let joins = path.devices.backend().is_some();
    match (joins, &machines[..], &others[..]) {
        (true, [_], [_]) | (false, [], _) => Ok(()),
        (true, [_, _], []) if path.joins_machines => Ok(()),
        (true, [], _) => {
            let message = format!("path {} leads into a virtual machine, and no station is one", path.name);
            let keys = ["path.kind".to_owned()].into_iter().chain(stations.keys().map(|name| key(name)));
            let help = "write kind = \"guest\" for one of the stations, or path.kind = \"veth\"".to_owned();
            Err(view.combination(&keys.collect::<Vec<_>>(), message, help))
        }
        (true, ..) => {
            let names = stations.keys().cloned().collect::<Vec<_>>().join("` and `");
            let message = format!(
                "path {} joins one virtual machine with one network namespace, and stations `{names}` are both \
                 machines",
                path.name
            );
            let keys: Vec<String> = stations.keys().map(|name| key(name)).collect();
            let help = "write kind = \"netns\" for one of them, or path.kind as one of \"bridge\", \"macvtap\", \"ovs\", \"ovs-netdev\", \"xdp\"";
            Err(view.combination(&keys, message, help.to_owned()))
        }
        (false, [(name, _), ..], _) => {
            let message =
                format!("station `{name}` is a virtual machine, and path {} does not lead into one", path.name);
            let ways: Vec<String> = PathKind::ALL
                .into_iter()
                .filter(|kind| kind.traits().devices.backend().is_some())
                .map(|kind| format!("\"{}\"", kind.name()))
                .collect();
            let help = format!("write path.kind as one of {}", ways.join(", "));
            Err(view.combination(&[key(name), "path.kind".to_owned()], message, help))
        }
    }
}

/// Keys of a stream that belong to some streams only: which, how a message describes them, and
/// the keys that decide it.
type Belongs = (&'static str, fn(&Stream) -> bool, &'static str, &'static [&'static str]);

const ANSWERED: &str = "a stream that is answered (reflect = true or kind = \"pingpong\")";
const BY_XDP: &str = "a stream that is received on port xdp";
const SENT_BY_XDP: &str = "a stream that is sent through port xdp (tx.port = \"xdp\")";
const REFLECTED: &str = "a reflected stream (reflect = true)";
/// What decides who answers, by which port packets go out, and by which they come in.
const KIND: &[&str] = &["kind", "reflect"];
const SENT: &[&str] = &["port", "tx.port"];
const RECEIVED: &[&str] = &["port", "rx.port"];
const BOTH: &[&str] = &["kind", "reflect", "port", "tx.port"];
const PORTS: &[&str] = &["port", "tx.port", "rx.port"];

const BELONGS: [Belongs; 25] = [
    ("cycle", |stream| stream.kind.is_scheduled(), "a cyclic stream", KIND),
    ("launch", |stream| stream.kind.is_scheduled() && !stream.port.traits().is_connection, "a cyclic stream", BOTH),
    ("overrun", |stream| stream.kind.is_scheduled(), "a cyclic stream", KIND),
    ("tx.advance", |stream| stream.kind.is_scheduled(), "a cyclic stream", KIND),
    ("tx.spin", |stream| stream.kind.is_scheduled(), "a cyclic stream", KIND),
    ("tx.wait", |stream| stream.kind.is_answered(), ANSWERED, KIND),
    ("reply_size", |stream| stream.kind.is_answered(), ANSWERED, KIND),
    ("reply.cpu", |stream| stream.kind == Kind::Reflected, REFLECTED, KIND),
    ("reply.policy", |stream| stream.kind == Kind::Reflected, REFLECTED, KIND),
    ("in_flight", |stream| stream.kind == Kind::Pingpong, "a ping-pong", KIND),
    (
        "timeout",
        |stream| stream.kind == Kind::Pingpong && !stream.port.traits().is_connection,
        "a ping-pong over UDP",
        BOTH,
    ),
    ("nodelay", |stream| stream.port.traits().is_connection, "a stream over TCP", SENT),
    ("ip", |stream| !stream.port.traits().is_frames, "a stream over IP", SENT),
    ("ethertype", |stream| stream.port.traits().is_frames, "a stream on port packet or xdp", SENT),
    ("vlan", |stream| stream.port.traits().tag != TagBy::Nobody, "a stream on port packet, xdp or udp", SENT),
    (
        "sync",
        |stream| stream.rx.port.passes_xdp(),
        "a stream that is received through port xdp (rx.port = \"xdp\")",
        RECEIVED,
    ),
    (
        "rx.bulk",
        |stream| stream.rx.wait == Wait::Scheduled,
        "a receiver that waits by the schedule (rx.wait = \"scheduled\")",
        &["rx.wait"],
    ),
    ("pcp", |stream| stream.tag.is_some(), "a stream with a VLAN tag (vlan = 100)", &["vlan"]),
    ("rx.core", |stream| stream.rx.port.passes_xdp(), BY_XDP, RECEIVED),
    ("rx.hints", |stream| stream.rx.port.passes_xdp(), BY_XDP, RECEIVED),
    ("rx.queue", |stream| stream.rx.port.passes_xdp(), BY_XDP, RECEIVED),
    ("rx.frames", |stream| stream.rx.port.passes_xdp(), BY_XDP, RECEIVED),
    ("tx.queue", |stream| !stream.port.traits().passes_qdisc, SENT_BY_XDP, SENT),
    ("tx.frames", |stream| !stream.port.traits().passes_qdisc, SENT_BY_XDP, SENT),
    ("rx.cpu", |stream| stream.rx.core.is_none(), "a receiver without rx.core", &["rx.core"]),
];

/// True if the key of a stream, without the stream's name, has a meaning for it.
pub(crate) fn belongs(field: &str, stream: &Stream) -> bool {
    BELONGS.iter().find(|(key, ..)| *key == field).is_none_or(|(_, belongs, ..)| belongs(stream))
}

/// Checks one stream by itself.
pub(crate) fn stream(view: &View<'_>, table: &Table<'_>, stream: &Stream) {
    keys_without_meaning(view, table, stream);
    kind(view, table, stream);
    for (field, frames) in [("tx.frames", stream.tx.frames), ("rx.frames", stream.rx.frames)] {
        table.check(&[field], || power_of_two(table, field, frames));
    }
    xdp_program(view, table, stream);
    if stream.rx.port.receives_from(stream.port) {
        by_xdp(table, stream);
    } else {
        table.check(PORTS, || Err(other_frames(table, stream)));
    }
    if stream.port.traits().is_frames {
        table.check(&["port", "tx.port", "ethertype"], || ethertype(table, stream));
        frames(table, stream);
    }
    table.check(&["kind", "reflect", "tx.wait"], || replies_by_schedule(table, stream));
    table.check(&["rx.port", "port", "rx.wait", "rx.object"], || by_schedule(table, stream));
    if stream.kind.is_scheduled() {
        table.check(&["kind", "reflect", "cycle", "launch", "tx.advance"], || advance(table, stream));
        table.check(&["kind", "reflect", "cycle", "tx.spin"], || spin(table, stream));
    }
    cpus(table, stream);
    sim_keys(view, table, stream);
}

/// True if one of the keys that decide what other keys mean has several values in the experiment.
fn decides_differently(view: &View<'_>, table: &Table<'_>) -> bool {
    ["kind", "reflect", "port", "rx.port", "rx.core", "vlan"].iter().any(|field| view.differs(&table.key(field)))
}

/// True if the stream is cyclic on a port that has ping-pongs only.
fn is_wrong_way(stream: &Stream) -> bool {
    stream.port.traits().is_connection && stream.kind != Kind::Pingpong
}

/// Keys that streams of another kind, or on another port, have.
fn keys_without_meaning(view: &View<'_>, table: &Table<'_>, stream: &Stream) {
    let (differs, is_wrong_way) = (decides_differently(view, table), is_wrong_way(stream));
    for (field, belongs, to, decided_by) in BELONGS {
        // Over TCP whatever is cyclic is wrong, and reported with its kind.
        let is_told = is_wrong_way && matches!(field, "launch");
        // Where an axis has other ways to wait it is for the cells that have this one.
        let is_told = is_told || field == "rx.bulk" && view.differs(&table.key("rx.wait"));
        let is_told = is_told || matches!(field, "tx.queue" | "tx.frames") && view.differs(&table.key("tx.port"));
        if table.is_written(field) && !differs && !belongs(stream) && !is_told {
            table.check(decided_by, || {
                let message = format!("`{}` has no meaning here: it belongs to {to}", table.key(field));
                let keys: Vec<&str> = [field].into_iter().chain(decided_by.iter().copied()).collect();
                Err(table.wrong(&keys, message, "leave it out"))
            });
        }
    }
}

/// A kind that the stream's port does not have, or that is answered in any case.
fn kind(view: &View<'_>, table: &Table<'_>, stream: &Stream) {
    if stream.kind == Kind::Pingpong && table.is_written("reflect") && !decides_differently(view, table) {
        table.check(KIND, || {
            let message = format!("`{}`: a ping-pong is answered by itself", table.key("reflect"));
            Err(table.wrong(&["reflect", "kind"], message, "leave it out"))
        });
    } else if is_wrong_way(stream) {
        table.check(BOTH, || {
            let message = format!("`{}` is \"{}\" and the stream is cyclic", table.key("port"), stream.port.name());
            Err(table.wrong(&["port", "kind"], message, "write kind = \"pingpong\", or port = \"udp\""))
        });
    }
}

/// What belongs to tardy's own XDP program only, and to any XDP program only.
fn xdp_program(view: &View<'_>, table: &Table<'_>, stream: &Stream) {
    if !stream.rx.hints.is_empty() && stream.rx.object.is_some() {
        table.check(&["rx.hints", "rx.object"], || {
            let message = format!(
                "`{}`: what a program of your own asks the device for is its own affair",
                table.key("rx.hints")
            );
            let help = "leave it out, or leave rx.object out: tardy's own program asks for these";
            Err(table.wrong(&["rx.hints", "rx.object"], message, help))
        });
    }
    if table.is_written("rx.object") && !stream.rx.port.passes_xdp() && !view.differs(&table.key("rx.port")) {
        table.check(&["port", "rx.port", "rx.object"], || {
            let message =
                format!("`{}` has no meaning here: an XDP program belongs to port xdp", table.key("rx.object"));
            Err(table.wrong(&["rx.object", "rx.port"], message, "write rx.port = \"xdp\", or leave it out"))
        });
    }
}

/// The model of a path belongs to port `sim`.
fn sim_keys(view: &View<'_>, table: &Table<'_>, stream: &Stream) {
    if !stream.port.traits().is_simulated {
        let prefix = format!("{}.", table.key("sim"));
        if let Some((_, assignment)) = view.below(&prefix).next() {
            let keys = [assignment.key.clone(), table.key("port"), table.key("tx.port")];
            let message = format!("`{}` has no meaning on port `{}`", assignment.key, stream.port.name());
            let help = "write port = \"sim\", or leave it out".to_owned();
            view.keep::<()>(Err(view.combination(&keys, message, help)));
        }
    }
}

/// The kernel takes no ring of another size.
fn power_of_two(table: &Table<'_>, field: &str, frames: u32) -> Result<(), Problem> {
    if frames.is_power_of_two() {
        return Ok(());
    }
    let message = format!(
        "`{}` is {frames}, and a ring of AF_XDP, which has an entry for each frame, has a power of two of them",
        table.key(field)
    );
    let above = frames.next_power_of_two();
    Err(table.wrong(&[field], message, format!("write {} or {above}", above / 2)))
}

/// EtherTypes that are somebody else's.
fn ethertype(table: &Table<'_>, stream: &Stream) -> Result<(), Problem> {
    let taken = [(0x0800, "IPv4"), (0x0806, "ARP"), (0x86dd, "IPv6")];
    let tags = TAGS.map(|tag| (tag, "a VLAN tag"));
    if let Some((_, whose)) = taken.into_iter().chain(tags).find(|(taken, _)| *taken == stream.ethertype) {
        let message = format!("`{}` of {:#06x} is that of {whose}", table.key("ethertype"), stream.ethertype);
        return Err(table.wrong(&["ethertype"], message, format!("write {ETHERTYPE:#06x}, or leave it out")));
    }
    Ok(())
}

/// What port `packet` cannot have.
fn frames(table: &Table<'_>, stream: &Stream) {
    for (field, wait, used, decided_by) in [
        ("rx.wait", stream.rx.wait, !stream.rx.port.passes_xdp(), PORTS),
        ("tx.wait", stream.tx.wait, stream.kind.is_answered(), BOTH),
    ] {
        if used && wait == Wait::Busypoll {
            table.check(decided_by, || {
                let message = format!(
                    "`{}` is \"busypoll\", and the kernel gives a packet socket no NAPI context to poll",
                    table.key(field)
                );
                Err(table.wrong(&[field, "port"], message, "write \"spin\" or \"block\", or port = \"udp\""))
            });
        }
    }
}

/// What one end sends and the other does not receive.
fn other_frames(table: &Table<'_>, stream: &Stream) -> Problem {
    let (tx, rx) = (stream.port.name(), stream.rx.port.name());
    let message = format!("`{}`: what port {tx} sends, port {rx} does not receive", table.key("rx.port"));
    let help = match stream.rx.port.passes_xdp() {
        true => "write tx.port = \"xdp\", or \"packet\": their frames are those that the XDP program knows",
        false => "write the same port for both ends",
    };
    table.wrong(&["rx.port", "tx.port", "port"], message, help)
}

/// The longest frame that has room where AF_XDP receives it: a page without what stays free before
/// each packet; and where it sends it: without what may go with a packet.
const MOST_BY_XDP: [u32; 2] = [4_096 - 256 - TO_ONE_LINE, 4_096 - 64];

/// What an end on port `xdp` cannot have. Of one that cannot be on it at all, that alone.
fn by_xdp(table: &Table<'_>, stream: &Stream) {
    let most = match (stream.rx.port.passes_xdp(), stream.port.traits().passes_qdisc) {
        (false, true) => return,
        (receives, _) => MOST_BY_XDP[usize::from(!receives)],
    };
    if !table.are_sound(PORTS) {
        return;
    }
    // The other end may be written too, and be on another port.
    let ends = [("rx.port", stream.rx.port.passes_xdp()), ("tx.port", !stream.port.traits().passes_qdisc)];
    let field = ends.into_iter().find(|(end, is_it)| *is_it && table.is_written(end)).map_or("port", |(end, _)| end);
    if stream.kind.is_answered() && table.are_sound(KIND) {
        let message = format!(
            "`{}` is \"xdp\" and the stream is answered: AF_XDP has one memory for a queue, which in this version is \
             of one direction",
            table.key(field)
        );
        let help = format!("write {field} = \"packet\"");
        return table.check(&[], || Err(table.wrong(&[field, "kind", "reflect"], message, help)));
    }
    if stream.rx.port.passes_xdp() && stream.rx.wait == Wait::Block {
        table.check(&["rx.wait"], || {
            let key = table.key("rx.wait");
            let message = format!("`{key}` is \"block\", and an AF_XDP socket has no receive call that sleeps");
            Err(table.wrong(&["rx.wait", field], message, "write rx.wait = \"poll\", or \"spin\""))
        });
    }
    if u32::from(stream.size) > most - MOST_HEAD as u32 {
        let message = format!(
            "`{}` of {}B does not fit one frame of AF_XDP's memory, {most} bytes with what comes before it",
            table.key("size"),
            stream.size
        );
        let help = format!("write at most \"{}B\"", most - MOST_HEAD as u32);
        table.check(&["size"], || Err(table.wrong(&["size", field], message, help)));
    }
}

/// Replies go out when a packet has come.
fn replies_by_schedule(table: &Table<'_>, stream: &Stream) -> Result<(), Problem> {
    if stream.kind.is_answered() && stream.tx.wait == Wait::Scheduled {
        let message = format!("`{}` is \"scheduled\", and replies have no schedule of their own", table.key("tx.wait"));
        return Err(table.wrong(&["tx.wait", "kind", "reflect"], message, "write tx.wait = \"block\", or \"spin\""));
    }
    Ok(())
}

/// Only AF_XDP gives each packet with the instant at which it arrived, whenever it is fetched.
fn by_schedule(table: &Table<'_>, stream: &Stream) -> Result<(), Problem> {
    if stream.rx.wait == Wait::Scheduled && !stream.rx.port.passes_xdp() {
        let message = format!(
            "`{}` is \"scheduled\", and on port {} nothing but the receive call says when a packet arrived",
            table.key("rx.wait"),
            stream.rx.port.name()
        );
        let help = "write tx.port = \"packet\" and rx.port = \"xdp\", or another wait";
        return Err(table.wrong(&["rx.wait", "rx.port", "port"], message, help));
    }
    if stream.rx.wait == Wait::Scheduled && stream.rx.object.is_some() {
        let message = format!(
            "`{}` is \"scheduled\", and a program of your own does not mark the frames that carry the schedule",
            table.key("rx.wait")
        );
        return Err(table.wrong(
            &["rx.wait", "rx.object"],
            message,
            "write rx.wait = \"poll\", or leave rx.object out",
        ));
    }
    Ok(())
}

/// An advance must fit into a cycle.
fn advance(table: &Table<'_>, stream: &Stream) -> Result<(), Problem> {
    let cycle = show_duration(stream.cycle);
    // Packets with a launch time wait in the queue discipline, so that the next may be handed over
    // meanwhile.
    if stream.tx.advance >= stream.cycle && !stream.launch.is_some() {
        let message = format!(
            "`{}` of {} is not below the cycle, {cycle}",
            table.key("tx.advance"),
            show_duration(stream.tx.advance)
        );
        return Err(table.wrong(&["tx.advance", "cycle"], message, "write an advance below one cycle"));
    }
    Ok(())
}

/// So must the stretch in which the sender spins.
fn spin(table: &Table<'_>, stream: &Stream) -> Result<(), Problem> {
    let cycle = show_duration(stream.cycle);
    if stream.tx.spin > stream.cycle {
        let message = format!(
            "`{}` of {} is longer than the cycle, {cycle}",
            table.key("tx.spin"),
            show_duration(stream.tx.spin)
        );
        return Err(table.wrong(&["tx.spin", "cycle"], message, "write a spin of at most one cycle"));
    }
    Ok(())
}

/// CPUs that are relative to each other, and those that a policy does not go with, end by end.
fn cpus(table: &Table<'_>, stream: &Stream) {
    let relative = |cpu| matches!(cpu, CpuChoice::Same | CpuChoice::Different);
    let (tx, rx) = (stream.tx.cpu, stream.rx.cpu);
    let is_circular = relative(tx) && relative(rx);
    if is_circular {
        table.check(&["tx.cpu", "rx.cpu"], || {
            let message = format!(
                "`{}` is \"{tx}\" and `{}` is \"{rx}\": each is relative to the other",
                table.key("tx.cpu"),
                table.key("rx.cpu")
            );
            let help = match table.is_written("rx.cpu") {
                true => "write tx.cpu = \"auto\"",
                false => "write rx.cpu = \"auto\" too, or leave tx.cpu out",
            };
            Err(table.wrong(&["tx.cpu", "rx.cpu"], message, help))
        });
    }
    let ends = [("tx", tx, rx, stream.tx.policy), ("rx", rx, tx, stream.rx.policy)];
    let reply = Some(("reply", stream.reply.cpu, tx, stream.reply.policy)).filter(|_| stream.kind == Kind::Reflected);
    // Of a sender whose CPU was reported, that is enough.
    for (end, cpu, other, policy) in ends.into_iter().chain(reply).skip(usize::from(is_circular)) {
        let other_end = if end == "tx" { "rx" } else { "tx" };
        let [cpu_field, other_field, policy_field] =
            [format!("{end}.cpu"), format!("{other_end}.cpu"), format!("{end}.policy")];
        // A reply has the policy of its request where it has none of its own.
        let has_own = || table.is_written("reply.policy") || table.are_sound(&["tx.policy"]);
        if end != "reply" || table.are_sound(&["kind", "reflect"]) && has_own() {
            let threads = [&*cpu_field, &*other_field, &*policy_field];
            table.check(&threads, || cpu_of_end(table, end, [cpu, other], policy, &other_field));
        }
    }
}

fn cpu_of_end(
    table: &Table<'_>,
    end: &str,
    [cpu, other]: [CpuChoice; 2],
    policy: Policy,
    other_field: &str,
) -> Result<(), Problem> {
    let (cpu_field, policy_field) = (format!("{end}.cpu"), format!("{end}.policy"));
    if matches!(policy, Policy::Deadline { .. }) && cpu != CpuChoice::Any {
        let message = format!(
            "`{}` is deadline and `{}` is \"{cpu}\": the kernel refuses SCHED_DEADLINE on a pinned thread (EPERM)",
            table.key(&policy_field),
            table.key(&cpu_field)
        );
        return Err(table.wrong(&[&policy_field, &cpu_field], message, format!("write {end}.cpu = \"any\"")));
    }
    if cpu == CpuChoice::Same && other == CpuChoice::Any {
        let message = format!("`{}` is \"same\" as that of the other end, which is not pinned", table.key(&cpu_field));
        let help = format!("write {other_field} = \"auto\"");
        return Err(table.wrong(&[&cpu_field, other_field], message, help));
    }
    Ok(())
}
