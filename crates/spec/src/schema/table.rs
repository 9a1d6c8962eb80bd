// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table itself.

use super::key::Default::{Flag, Float, Integer, List, None, Required, Text};
use super::key::{self, Key};
use crate::schema::key::Kind;
use tardy_model::copy::{
    Background, Bind, CopyBackend, MOST_ITERATIONS, MOST_THREADS, Method, Pages, Residence, Submit,
};
use tardy_model::ethernet::ETHERTYPE;
use tardy_model::frame::{HEAD, MOST_PACKETS};
use tardy_model::load::{LoadWord, MOST_INSTANCES};
use tardy_model::path::{BpfJit, MacvtapMode, PathKind};
use tardy_model::port::Port;
use tardy_model::shaper::{MOST_CLASSES, PRIORITIES, ShaperWord};
use tardy_model::station::{KERNELS, Net, StationKind};
use tardy_model::stream::{Launch, Wait};
use tardy_model::time::Ptp;
use tardy_model::xdp::{Core, DeviceHint, FRAMES, LEAST_FRAMES, MOST_FRAMES};

const fn choice(built: &'static [&'static str]) -> Kind {
    Kind::Choice { built }
}

const fn number(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max }
}

/// Frames of a memory of AF_XDP.
const SOME_FRAMES: Kind = number(LEAST_FRAMES as i64, MOST_FRAMES as i64);
/// A span that may be empty.
const SPAN: Kind = Kind::Duration { min_ns: 0, max_ns: DAY, word: Option::None };
/// A span that may be negative.
const SIGNED: Kind = Kind::Duration { min_ns: -DAY, max_ns: DAY, word: Option::None };
/// A span that is not empty.
const SOME: Kind = Kind::Duration { min_ns: 1, max_ns: DAY, word: Option::None };
const DAY: i64 = 86_400_000_000_000;
/// The most UDP payload that an IPv4 packet carries.
const LARGEST: i64 = 65_507;
/// How long before the first packet a load may start.
const LEAD: i64 = 10_000_000_000;
/// The most bytes of a call of a load.
const CALL: i64 = 1 << 20;
/// The highest VLAN id; the one above it is reserved.
const LAST_VLAN: i64 = 4_094;
/// A smaller number is a length.
const LEAST_ETHERTYPE: i64 = 0x0600;
/// The most packets that a receiver fetches at one wake-up: as many as one call takes.
const MOST_BULK: i64 = 64;
/// The most packets from one synchronisation frame to the next.
const MOST_SYNC: i64 = 1_000_000;
const COUNT: Kind = number(0, i64::MAX);
/// Processors of a virtual machine, and queues of each of its network devices, at most.
const MOST_CPUS: i64 = 64;
const MOST_GUEST_QUEUES: i64 = 4;
const MOST_BYSTANDERS: i64 = 16;
/// Memory of a virtual machine, bytes: its kernel with tardy in it needs the least.
const LEAST_MEMORY: i64 = 128 << 20;
const MOST_MEMORY: i64 = 1 << 40;

/// Buffers of a copy, and the bytes of each, at most.
const MOST_BUFFERS: i64 = 1 << 20;
const MOST_BUFFER: i64 = 1 << 44;

/// What a verdict may be set to weigh.
pub(super) const LEVELS: &[&str] = &["note", "warning", "invalid"];

const fn key(pattern: &'static str, kind: Kind, default: key::Default, doc: &'static str) -> Key {
    Key::new(pattern, kind, default, doc)
}

/// Every key of an experiment file, in the order of the effective file.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("name", Kind::Name, None("the file's name without its ending"), "What the experiment is called; part of the run folder's name.").whole(),
    key("trials", number(1, 10_000), Integer(5), "Repetitions of each cell; below 5, `repeats` cannot be judged.").whole(),
    key("kind", choice(&["packets", "copy"]), Text("packets"), "What is measured: packets between stations, or copies of memory by several threads at once (`[copy]`).").whole(),
    key("seed", number(0, i64::MAX), Integer(1), "Seed of phases, nonces and the order of trials.").whole(),

    key("reference", choice(&["R1", "R2", "R2-load", "R3", "R4", "R5"]), None("none"), "A table of the reference results, shown next to this run's figures, clearly as other hardware.").whole(),

    key("station.*.kind", choice(&StationKind::WORDS), Text("netns"), "What the station is: `netns` is a fresh network namespace, `guest` a virtual machine that lives for the whole run, `host` a machine's own network, which every station is on path `network`."),
    key("station.*.address", Kind::Word, None("that by which ssh goes"), "Station `host`: which address of its machine is meant."),
    key("station.*.ssh", Kind::Ssh, None("this machine"), "Another machine on which the station is, as OpenSSH's client takes it (`lab2`, `root@lab2`): tardy goes there with your own keys and configuration; `tardy run` asks for `--allow-hosts`."),
    key("station.*.tap", Kind::Device, None("not said"), "Station `host` with `ssh`, in a virtual machine that you already have: the network device of this machine behind which it is (`vnet3`, a tap or a macvtap); tardy describes the way through it, and changes nothing of it."),
    key("station.*.sudo", Kind::Flag, Flag(false), "With `ssh`: become root there by `sudo -n`, which must ask for no password."),
    key("station.*.nic", Kind::Device, None("what the path says"), "The station's network device, where `path.a` or `path.b` does not name it: paths `wire` and `vfio`, and `bridge`, `macvtap`, `ovs`, `ovs-netdev` and `xdp` if they lead over a cable; it is taken and given back; `tardy run` asks for `--allow-nics`."),
    key("station.*.softirq", Kind::Cpu, Text("any"), "CPU that takes in the packets that arrive here: any (as the kernel does), same or different (as the thread that receives the stream under test here), auto, or a number."),
    key("station.*.kernel", choice(&KERNELS), Text("debian:6.12"), "Station `guest`: the kernel that it boots; `running` is that of this machine."),
    key("station.*.cpus", number(1, MOST_CPUS), Integer(1), "Station `guest`: its processors."),
    key("station.*.memory", Kind::Size { min: LEAST_MEMORY, max: MOST_MEMORY }, Text("256MiB"), "Station `guest`: its memory; whole MiB."),
    key("station.*.net", choice(&Net::WORDS), Text("virtio"), "Station `guest`: its network devices: `virtio` (QEMU moves the packets), `vhost` (the host's kernel does), or an emulated `e1000e` or `igb`."),
    key("station.*.net_queues", number(1, MOST_GUEST_QUEUES), Integer(1), "Station `guest`: queues of each network device; more than one with `virtio` or `vhost`."),
    key("station.*.append", Kind::Words, None("nothing"), "Station `guest`: more words for its kernel's command line, as `[\"idle=poll\"]`."),
    key("station.*.bystanders", number(0, MOST_BYSTANDERS), Integer(0), "Station `guest`: how many further machines like it run meanwhile, without network devices."),
    key("station.*.bystanders_compute", Kind::Flag, Flag(false), "Station `guest`: each processor of those machines computes all the time; else they idle."),
    key("station.*.vcpu.cpu", Kind::Cpu, Text("any"), "Station `guest`: the CPU of this host on which its virtual CPUs run, a number or `any`."),
    key("station.*.vcpu.policy", Kind::Policy, Text("other"), "Station `guest`: scheduling of its virtual CPUs: other, fifo:1, rr:1. A machine that never idles keeps every thread below that from its CPU."),
    key("station.*.vhost.cpu", Kind::Cpu, Text("any"), "Station `guest` with net `vhost`: the CPU of this host on which the kernel's threads move its packets, a number or `any`."),
    key("station.*.vhost.policy", Kind::Policy, Text("other"), "Station `guest` with net `vhost`: scheduling of these threads, as `vcpu.policy`."),
    key("station.*.emulator.cpu", Kind::Cpu, Text("any"), "Station `guest`: the CPU of this host on which QEMU's other threads run, a number or `any`; without vhost its main loop moves the packets."),
    key("station.*.emulator.policy", Kind::Policy, Text("other"), "Station `guest`: scheduling of QEMU's other threads, as `vcpu.policy`."),

    key("path.kind", choice(&PathKind::WORDS), Text("veth"), "How the two stations are joined: a pair of virtual links, two network devices that a cable joins, what joins the machines already (`network`), two simulated devices, which take schedules and keep none, the two emulated igb ports of a guest, or one of the ways into a station of kind `guest`: `tap`, `bridge`, `macvtap`, `ovs`, `ovs-netdev`, `xdp`, `vfio`."),
    key("path.queues", number(1, 64), Integer(4), "Transmit and receive queues of each end of path `veth` or `netdevsim`; a device of path `wire` keeps its own."),
    key("path.mtu", number(576, 65_535), Integer(1500), "Greatest IP packet on the path, bytes."),
    key("path.napi", Kind::Flag, Flag(false), "Path `veth`: packets go through NAPI, as on a real device, and each queue has its own kernel thread that polls it."),
    key("path.xdp_mode", choice(&["native", "generic"]), Text("native"), "Path `xdp`: where the programs that hand packets on run: in the devices' drivers, or behind them, on the kernel's own packet buffers."),
    key("path.xdp_printk", Kind::Flag, Flag(false), "Path `xdp`: the programs print a line for each packet (bpf_printk), a mistake that is often left in one: what does it cost?"),
    key("path.bpf_jit", choice(&BpfJit::WORDS), Text("default"), "Path `xdp`: whether the kernel compiles BPF programs as it loads them (`net.core.bpf_jit_enable`), `on`, or interprets them, `off`. It is set for the whole machine while the path is there; a kernel that always compiles them refuses `off`. `default` leaves it as it is."),
    key("path.macvtap_mode", choice(&MacvtapMode::WORDS), Text("bridge"), "Path `macvtap`: what it lets pass between several on one link, as `ip link` calls it; one in mode `passthru` has the link for itself, and its machine is one of its own."),
    key("path.vf", Kind::Flag, Flag(false), "Path `vfio`: the machine has a virtual function of the device (SR-IOV), and this machine keeps the device."),
    key("path.pcp_queues", Kind::Flag, Flag(false), "Tagged packets that arrive go into the receive queue of their priority, as far as there are queues (ethtool's receive filters); a device without them refuses it."),
    key("path.a", Kind::Device, None("the station's `nic`, needed for path `wire`"), "Path `wire`: the network device of the station that comes first by name; it is moved into the station's namespace and given back; `tardy run` asks for `--allow-nics`. Paths into a virtual machine (`vfio`, `bridge`, `macvtap`, `ovs`, `ovs-netdev`, `xdp`): that of the station that is no machine."),
    key("path.b", Kind::Device, None("the station's `nic`, needed for path `wire`"), "Path `wire`: the network device of the other station. Path `vfio`: the one that the virtual machine has for itself, or of which it has a virtual function; without `a` and `b` it is a port of a guest's own. Paths `bridge`, `macvtap`, `ovs`, `ovs-netdev` and `xdp`: the uplink, a device that a cable joins to `a`: the port of the bridge or of Open vSwitch, the link below the macvtap, or where an XDP program runs; without `a` and `b` the path makes a pair of virtual links."),
    key("path.take", Kind::Flag, Flag(false), "Path `wire`, `a` of path `vfio`, and both devices of the other paths into a virtual machine: also take devices that have addresses; they get them back afterwards."),

    key("cpu.dma_latency", Kind::Duration { min_ns: 0, max_ns: 2_000_000_000_000, word: Some("default") }, Text("default"), "How long a CPU of the stations' hosts may take at most to wake from idle (`/dev/cpu_dma_latency`), held while the cell is measured: whole microseconds; \"0us\" permits polling only; `default` leaves it to the machine."),

    key("clocks.ptp", choice(&Ptp::WORDS), Text("off"), "Path `wire`: `observe` runs a ptp4l (linuxptp) on the device of each end, which steers no clock, as a further source of how far the clocks of both ends are apart; `off` runs none."),

    key("shaper.kind", choice(&ShaperWord::WORDS), Text("none"), "The queue discipline of the device that streams leave by; `none` leaves the device's own."),
    key("shaper.classes", number(1, MOST_CLASSES as i64), None("needed for taprio, mqprio and cbs"), "Traffic classes."),
    key("shaper.map", Kind::Classes { each_of: Some(PRIORITIES) }, None("the lowest priorities in the last class"), "The class of each priority from 0 on (SO_PRIORITY of the sending socket)."),
    key("shaper.class_queues", Kind::Queues, None("one queue for each class, in order"), "The transmit queues of each class: how many, and the first."),
    key("shaper.entries", Kind::Entries, None("needed for taprio"), "taprio: the cycle's entries, in order: the classes whose gates are open, and how long."),
    key("shaper.gate_cycle", SOME, None("the sum of the entries"), "taprio: how long the entries are to last together."),
    key("shaper.base_time", SPAN, Text("0us"), "taprio: a cycle begins this long after each multiple of its length on the TAI clock; the first one in the future."),
    key("shaper.mode", choice(&["software", "txtime-assist", "offload"]), Text("software"), "taprio: who keeps the gates: the kernel, launch times that taprio gives and etf keeps, or the device."),
    key("shaper.txtime_delay", SPAN, None("needed for `txtime-assist`"), "taprio with txtime-assist: a packet's launch time is at least this long after it was enqueued."),
    key("shaper.port_rate", Kind::Rate, Text("1Gbit"), "What the device sends: from it follow how long a frame takes, and the credits of cbs."),
    key("shaper.ptp_priority", number(0, 15), Integer(0), "The priority of PTP frames; their class must not be shut out."),
    key("shaper.etf.delta", SPAN, None("needed for etf"), "etf hands a packet to the driver this long before its launch time."),
    key("shaper.etf.classes", Kind::Classes { each_of: Option::None }, None("all with txtime-assist, none else"), "taprio and mqprio: classes that have etf below them."),
    key("shaper.etf.deadline_mode", Kind::Flag, Flag(false), "etf: launch times are deadlines: packets go out at once, in their order."),
    key("shaper.etf.skip_sock_check", Kind::Flag, None("true with txtime-assist, else false"), "etf takes packets whose socket asked for no launch times."),
    key("shaper.etf.offload", Kind::Flag, Flag(false), "etf: the device holds packets until their launch time."),
    key("shaper.etf.tolerance", SPAN, Text("50us"), "A packet left in time up to this long after `etf.delta` before its launch time."),
    key("shaper.cbs.classes", Kind::Classes { each_of: Option::None }, None("needed for cbs"), "cbs: the classes that it shapes."),
    key("shaper.cbs.idleslope", Kind::Rate, None("needed for cbs"), "cbs: what each of them may send in the long run; the other credits follow."),
    key("shaper.cbs.offload", Kind::Flag, Flag(false), "cbs: the device does it."),

    key("stream.*.kind", choice(&["cyclic", "pingpong"]), Text("cyclic"), "`cyclic`: time-triggered, open loop; `pingpong`: request and response, the next request when a reply has come."),
    key("stream.*.reflect", Kind::Flag, Flag(false), "The receiver of a cyclic stream sends each packet back; the schedule goes on whatever comes back."),
    key("stream.*.from", Kind::Word, Required, "The station that sends."),
    key("stream.*.to", Kind::Word, Required, "The station that receives."),
    key("stream.*.port", choice(&Port::WORDS), Text("udp"), "What the engine sends and receives through; `tcp` for ping-pongs; `packet` for tardy's own Ethernet frames; `xdp` for the same through AF_XDP sockets; `sim` simulates path and clocks."),
    key("stream.*.ip", choice(&["ipv4", "ipv6"]), Text("ipv4"), "Version of the Internet protocol."),
    key("stream.*.cycle", Kind::Cycle { min_ns: 1, max_ns: DAY }, Text("500us"), "Time between scheduled instants, or how many there are a second: `\"1kHz\"` is `\"1ms\"`. A rate must be a whole number of ns; the effective file has the time."),
    key("stream.*.count", number(1, MOST_PACKETS as i64), Integer(10_000), "Intended packets in a trial.").rival("duration"),
    key("stream.*.duration", SOME, None("count × cycle"), "Length of a trial, instead of `count`; refused for a ping-pong, whose length is what it measures.").rival("count"),
    key("stream.*.size", Kind::Size { min: HEAD as i64, max: LARGEST }, Text("64B"), "Payload of a packet: of UDP, or after the EtherType."),
    key("stream.*.reply_size", Kind::Size { min: HEAD as i64, max: LARGEST }, None("as `size`"), "Payload of a reply."),
    key("stream.*.in_flight", number(1, 1_024), Integer(1), "Requests of a ping-pong that may be on their way at once."),
    key("stream.*.timeout", SOME, Text("1s"), "A request of a ping-pong over UDP without a reply after this time is lost, and the next may go out."),
    key("stream.*.nodelay", Kind::Flag, Flag(true), "TCP_NODELAY at both ends of a connection."),
    key("stream.*.priority", number(0, 15), Integer(0), "SO_PRIORITY of the sending socket."),
    key("stream.*.vlan", number(0, LAST_VLAN), None("no tag"), "VLAN id of its packets, 0 for a tag that has a priority only: port `packet` and `xdp` write the tag, under `udp` a VLAN device does."),
    key("stream.*.pcp", number(0, 7), Integer(0), "Priority (PCP) in the VLAN tag."),
    key("stream.*.ethertype", number(LEAST_ETHERTYPE, 65_535), Integer(ETHERTYPE as i64), "Ports `packet` and `xdp`: EtherType of the frames; the default is IEEE 802's Local Experimental 1, 0x88B5."),
    key("stream.*.launch", choice(&Launch::WORDS), Text("none"), "Each packet carries its scheduled instant as launch time (SO_TXTIME): not to leave before it (`strict`), or to have left by it (`deadline`)."),
    key("stream.*.overrun", choice(&["burst", "skip"]), Text("burst"), "Packets whose slot has passed when the sender wakes: `burst` sends them at once, `skip` leaves them not_sent."),
    key("stream.*.sync", number(1, MOST_SYNC), None("64 with rx.wait `scheduled`, else no such frames"), "rx.port `xdp`: every n-th packet, and the first 8, is a synchronisation frame, which says when it arrived and so carries the schedule of the others."),
    key("stream.*.deadline", Kind::Duration { min_ns: 1, max_ns: DAY, word: Some("cycle") }, Text("cycle"), "Received later than scheduled + this is late; `cycle` is one cycle."),
    key("stream.*.max_loss", Kind::Share, Text("0.1%"), "Share of packets that may be lost before a trial is invalid."),
    key("stream.*.warmup", SPAN, Text("2s"), "How long the warm-up may wait for stamps to flow; \"0s\" is none."),
    key("stream.*.stamps", Kind::Points { word: "default" }, Text("default"), "Points to stamp; a named one that is not available is refused. `default` is what `metrics` and `[expect]` need, of what the machine has, and what the measuring threads read from their clocks."),
    key("stream.*.metrics", Kind::Metrics { word: "default" }, Text("default"), "Metrics that must be in the results; `default` is the usual ones that `stamps` allows."),
    key("stream.*.lead", Kind::Metric, None("the metric of its first limit on a latency in `[expect]`, else `scheduled..rx_kernel`, or the whole round trip"), "The metric that leads where one is shown: the headline, the pictures, the progress line, and `repeats`."),
    key("stream.*.tx.port", choice(&Port::WORDS), None("as `port`"), "What its packets are sent through, and so what they look like: `xdp` sends what `packet` sends, past every queue discipline."),
    key("stream.*.tx.cpu", Kind::Cpu, Text("auto"), "CPU of the sending thread: auto, same or different (as the receiver's), any (not pinned), or a number."),
    key("stream.*.tx.policy", Kind::Policy, Text("other"), "Scheduling of the sending thread: other, fifo:90, rr:50, deadline:RUNTIME/DEADLINE/PERIOD."),
    key("stream.*.tx.advance", SPAN, Text("0us"), "The sender aims to wake this long before the scheduled instant."),
    key("stream.*.tx.spin", SPAN, Text("0us"), "The sender spins for the last stretch of this length instead of sleeping."),
    key("stream.*.tx.wait", choice(&Wait::WORDS), Text("block"), "How the station that asked waits for replies; `scheduled` is for a receiver on port `xdp`."),
    key("stream.*.tx.queue", number(0, 63), None("all of them, or all of the stream's class"), "tx.port `xdp`: the one transmit queue of the device that is sent through; otherwise packets stay on one queue while it has room."),
    key("stream.*.tx.frames", SOME_FRAMES, Integer(FRAMES as i64), "tx.port `xdp`: frames of 4096 bytes in the memory that it sends from, a power of two."),
    key("stream.*.rx.port", choice(&Port::WORDS), None("as `port`"), "What they are received through: `xdp` gets by AF_XDP sockets what `packet` or `xdp` sends, each packet stamped by an XDP program (`rx_xdp`)."),
    key("stream.*.rx.cpu", Kind::Cpu, Text("different"), "CPU of the receiving thread: auto, same or different (as the sender's), any (not pinned), or a number."),
    key("stream.*.rx.policy", Kind::Policy, Text("other"), "Scheduling of the receiving thread, as `tx.policy`."),
    key("stream.*.rx.wait", choice(&Wait::WORDS), Text("block"), "How the receiver, or the reflector, waits; port `xdp` has `poll`, `select`, `epoll`, `spin`, `busypoll` and `scheduled`, which sleeps until just after the next bulk of packets should have arrived."),
    key("stream.*.rx.bulk", number(1, MOST_BULK), Integer(8), "rx.wait `scheduled`: packets that the receiver fetches at one wake-up."),
    key("stream.*.rx.core", choice(&Core::WORDS), None("as `rx.cpu` says"), "Port `xdp`, instead of `rx.cpu`: the receiving thread is on the CPU that runs the XDP program (`same`), or on another one (`remote`)."),
    key("stream.*.rx.queue", number(0, 63), None("all of them"), "Port `xdp`: the one receive queue of the device that is received from; packets that come to another queue go on to the kernel and are lost."),
    key("stream.*.rx.frames", SOME_FRAMES, Integer(FRAMES as i64), "Port `xdp`: frames of 4096 bytes in the memory of each receive queue, a power of two: packets that may wait there."),
    key("stream.*.rx.object", Kind::Object, None("tardy's own"), "A BPF object of your own whose XDP program port `xdp` loads in place of tardy's, `\"FILE\"` or `\"FILE:SECTION\"`, relative to the experiment file; `@MEMBER,…` behind it names members that are times, the first being `rx_xdp`; `tardy run` asks for `--allow-commands`. What it leaves before packets becomes columns of `samples.parquet`, and each time a metric `MEMBER..receive`."),
    key("stream.*.rx.hints", Kind::Several { of: &DeviceHint::WORDS }, List(&[]), "Port `xdp`: what tardy's program asks the device for each packet, as columns of `samples.parquet`: when the device received it (`hw_time`), its `hash`, its `vlan` tag. Each costs a call for each packet."),
    key("stream.*.reply.cpu", Kind::Cpu, Text("same"), "CPU of the thread that receives the replies of a reflected stream: auto, same or different (as the sender's), any (not pinned), or a number."),
    key("stream.*.reply.policy", Kind::Policy, None("as `tx.policy`"), "Scheduling of that thread, as `tx.policy`."),

    key("stream.*.sim.loss", Kind::Share, Float(0.0), "Share of packets lost."),
    key("stream.*.sim.drop", Kind::Numbers, List(&[]), "Packets lost on purpose, by number from 0."),
    key("stream.*.sim.delay", SPAN, Text("1us"), "From the sender's driver to the receiver's kernel."),
    key("stream.*.sim.jitter", SPAN, Text("0us"), "Added to the delay, uniform in 0..jitter."),
    key("stream.*.sim.reorder", Kind::Share, Float(0.0), "Share of packets held back until the next one has passed."),
    key("stream.*.sim.duplicate", Kind::Share, Float(0.0), "Share of packets that arrive twice."),
    key("stream.*.sim.remark", Kind::Share, Float(0.0), "Share of tagged packets whose priority is another when they arrive."),
    key("stream.*.sim.retag", Kind::Share, Float(0.0), "Share of tagged packets that arrive with a further tag."),
    key("stream.*.sim.drift_ppb", number(-1_000_000_000, 1_000_000_000), Integer(0), "The receiver's clock runs this many parts per billion fast."),
    key("stream.*.sim.wake", SPAN, Text("10us"), "The sender's timer returns this much after it was asked to."),
    key("stream.*.sim.late_share", Kind::Share, Float(0.0), "Share of wake-ups that are late by `late`."),
    key("stream.*.sim.late", SPAN, Text("0us"), "How late those are."),
    key("stream.*.sim.receive", SPAN, Text("10us"), "From the receiver's kernel to the application."),
    key("stream.*.sim.stamps_after", number(0, u32::MAX as i64), Integer(0), "Packets, counted from the first, that lack their kernel stamp at the receiver."),
    key("stream.*.sim.tai_offset_s", number(-86_400, 86_400), Integer(37), "TAI − REALTIME of both stations' clocks, seconds."),
    key("stream.*.sim.step", SIGNED, Text("0us"), "Both stations' REALTIME clock jumps by this much in the middle of the trial."),
    key("stream.*.sim.tai_offset_change_s", number(-86_400, 86_400), Integer(0), "The kernel's TAI offset changes by this many seconds in the middle of the trial."),
    key("stream.*.sim.hog", Kind::Share, Float(0.0), "Share of the sender's CPU that an ordinary task takes; a sender of policy `other` waits for it as long."),
    key("stream.*.sim.steal", Kind::Share, Float(0.0), "Share of the CPUs' time that the hypervisor takes."),
    key("stream.*.sim.refuse_policy", Kind::Flag, Flag(false), "The scheduling policy that was asked for is refused."),
    key("stream.*.sim.throttle", SPAN, Text("0us"), "A spinning receiver is stopped for this long in each second."),
    key("stream.*.sim.hold", SPAN, Text("0us"), "The timer of the queue discipline fires this much late."),
    key("stream.*.sim.hold_share", Kind::Share, Float(1.0), "Share of the packets that it holds for which it does."),
    key("stream.*.sim.phc", Kind::Flag, Flag(false), "Each end has a device with a clock of its own, for `tx_hw` and `rx_hw` of a one-way stream."),
    key("stream.*.sim.phc_ahead", SIGNED, Text("0us"), "The devices' clocks are ahead by this."),
    key("stream.*.sim.phc_drift_ppb", number(-1_000_000_000, 1_000_000_000), Integer(0), "They run this many parts per billion fast."),
    key("stream.*.sim.phc_step", SIGNED, Text("0us"), "They jump by this much in the middle of the trial."),
    key("stream.*.sim.phc_tick", SPAN, Text("1ns"), "They count in steps of this."),
    key("stream.*.sim.phc_read", SPAN, Text("100ns"), "It takes so long to read one next to the system's clock."),

    key("load.*.kind", choice(&LoadWord::WORDS), Required, "What the background load does."),
    key("load.*.count", number(0, MOST_INSTANCES as i64), Integer(1), "Instances at once; 0 is none."),
    key("load.*.from", Kind::Word, Required, "The station where it runs, or starts from."),
    key("load.*.to", Kind::Word, None("needed by kinds of the network"), "The other station."),
    key("load.*.cpu", Kind::Cpu, Text("any"), "CPU of its thread at `from`: same or different (as that of the stream under test there), auto, any (not pinned), or a number."),
    key("load.*.peer_cpu", Kind::Cpu, Text("any"), "CPU of its thread at `to`."),
    key("load.*.policy", Kind::Policy, Text("other"), "Scheduling of its thread at `from`."),
    key("load.*.peer_policy", Kind::Policy, Text("other"), "Scheduling of its thread at `to`."),
    key("load.*.start", Kind::Duration { min_ns: -LEAD, max_ns: DAY, word: Option::None }, Text("-300ms"), "When it starts after the trial's base time; negative: before its first packet."),
    key("load.*.stop", Kind::Duration { min_ns: -LEAD, max_ns: DAY, word: Some("end") }, Text("end"), "When it stops after the base time; `end`: when the trial's streams are done."),
    key("load.*.size", Kind::Size { min: 1, max: CALL }, None("16384B over TCP, 1400B of a `udp_flood`, 1B of a `tcp_rr`"), "Bytes of a send call; of `udp_flood`, of a datagram; of `tcp_rr`, of a request."),
    key("load.*.reply_size", Kind::Size { min: 1, max: CALL }, Text("1B"), "`tcp_rr`: bytes of a response."),
    key("load.*.send_buffer", Kind::Buffer, Text("default"), "SO_SNDBUF of its sockets; `default` leaves the kernel's."),
    key("load.*.receive_buffer", Kind::Buffer, Text("default"), "SO_RCVBUF of its sockets."),
    key("load.*.rate", Kind::Rate, None("as fast as possible"), "`tcp_stream`, `udp_flood`: payload bits a second of each instance.").rival("packet_rate"),
    key("load.*.packet_rate", number(1, 100_000_000), None("as fast as possible"), "`udp_flood`: datagrams a second of each instance, instead of `rate`.").rival("rate"),
    key("load.*.shortfall", Kind::Share, Text("5%"), "It may stay this much below what was asked before the trial is invalid."),
    key("load.*.fps", number(1, 1_000), Integer(30), "`camera`: frames a second."),
    key("load.*.frame_size", Kind::Size { min: 1, max: 64 << 20 }, Text("50kB"), "`camera`: bytes of a frame."),
    key("load.*.packet_size", Kind::Size { min: 1, max: LARGEST }, Text("1400B"), "`camera`: payload of a datagram."),
    key("load.*.burst", Kind::Spread { time: false }, Text("exponential:256KiB"), "`sporadic`: bytes of a burst."),
    key("load.*.gap", Kind::Spread { time: true }, Text("exponential:50ms"), "`sporadic`: from the end of a burst to the next."),
    key("load.*.duty", Kind::Share, Text("50%"), "`cpu`: share of the time that it computes."),
    key("load.*.period", Kind::Duration { min_ns: 100_000, max_ns: 10_000_000_000, word: Option::None }, Text("10ms"), "`cpu`: in each such period."),
    key("load.*.working_set", Kind::Size { min: 4_096, max: 4 << 30 }, Text("8MiB"), "`memory`: bytes that it copies back and forth within."),
    key("load.*.command", Kind::Words, None("needed for `command`"), "`command`: program and arguments at `from`; `{from}` and `{to}` become the stations' addresses. It runs as root, and `tardy run` asks for `--allow-commands`."),
    key("load.*.peer_command", Kind::Words, None("none"), "`command`: the same at `to`, started before."),

    key("copy.backend", choice(&CopyBackend::WORDS), Text("cpu"), "What copies: `cpu`; `dmatest`, the kernel's own test of DMA controllers, in a guest (`tardy guest fetch --with dmatest`); `sgtest`, a test module of tardy's own that chains `buffers` descriptors, likewise; or `sim`, which draws passes and their times from the seed."),
    key("copy.controllers", number(1, 64), Integer(1), "Controllers; threads × channels × controllers copy at once."),
    key("copy.channels", number(1, 64), Integer(1), "Channels of each controller."),
    key("copy.threads", number(1, MOST_THREADS as i64), Integer(1), "Threads of each channel."),
    key("copy.buffers", number(1, MOST_BUFFERS), Integer(48), "Buffers of each thread: an iteration is a pass over all of them.").rival("total"),
    key("copy.total", number(1, MOST_BUFFERS), None("buffers × all threads"), "Buffers of all threads together, instead of `buffers`: each has an equal part.").rival("buffers"),
    key("copy.bytes", Kind::Size { min: 1, max: MOST_BUFFER }, Text("4KiB"), "Size of a buffer."),
    key("copy.iterations", number(1, MOST_ITERATIONS as i64), Integer(1_000), "Passes of each thread over its buffers."),
    key("copy.method", choice(&Method::WORDS), Text("memcpy"), "How a CPU copies: the C library's `memcpy`, stores that pass the caches by (`non-temporal`), or one instruction for a buffer (`rep-movsb`)."),
    key("copy.pages", choice(&Pages::WORDS), Text("small"), "Pages that the buffers lie in: `small`, of 4 KiB on most machines, or `huge`."),
    key("copy.from", choice(&Residence::WORDS), Text("unlocked"), "Where the buffers are that are read: `locked`, in a window of memory that fits into the cache, or `unlocked`, in more memory than the caches hold."),
    key("copy.to", choice(&Residence::WORDS), Text("unlocked"), "The same of those that are written."),
    key("copy.from_node", number(0, 1_023), None("the kernel's choice"), "The NUMA node whose memory is read."),
    key("copy.to_node", number(0, 1_023), None("the kernel's choice"), "The NUMA node whose memory is written."),
    key("copy.submit", choice(&Submit::WORDS), Text("none"), "Hands each buffer over as a driver of DMA controllers does, by a descriptor from its controller's list and through the queues of its channel, behind locks of this kind: `spin`, `mutex`, `ticket`; or not (`none`)."),
    key("copy.policy", Kind::Policy, Text("other"), "Scheduling of the threads: other, fifo:10, rr:10."),
    key("copy.bind", choice(&Bind::WORDS), Text("any"), "CPUs of the threads: `any` leaves that to the kernel, `spread` binds them in turn to those that may be used, `isolated` to those that the kernel keeps free (`isolcpus`)."),
    key("copy.cpus", Kind::Numbers, List(&[]), "With `bind`: these CPUs alone, by number; none means all."),
    key("copy.background", choice(&Background::WORDS), Text("none"), "What disturbs the copy on each CPU: nothing, a thread that copies through 64 MiB (`memory`), or one that computes (`cpu`)."),
    key("copy.longest", Kind::Duration { min_ns: 1_000_000, max_ns: 600_000_000_000, word: Option::None }, Text("20s"), "A trial takes no longer: passes that are not done by then are `not_sent`."),

    key("copy.sim.overlap", Kind::Share, Float(1.0), "CopyBackend `sim`: the share of its time in which a thread copies together with the one before it."),
    key("copy.sim.rate", Kind::Rate, Text("80Gbit"), "CopyBackend `sim`: what a thread copies while it does."),
    key("copy.sim.jitter", Kind::Share, Float(0.02), "CopyBackend `sim`: noise of a pass, a share of its length."),
    key("copy.sim.multiple", number(0, MOST_BUFFER), Integer(0), "CopyBackend `sim`: buffers of a multiple of this size in bytes are twice as fast; 0 for none."),
    key("copy.sim.beyond", number(0, MOST_BUFFER), Integer(0), "CopyBackend `sim`: buffers of more bytes are half as fast; 0 for none."),

    key("validity.*.limit", Kind::Limit, None("the rule's own"), "From where on the rule's verdict has its full weight, for a rule that has a limit.").whole(),
    key("validity.*.level", choice(LEVELS), None("the rule's own"), "The most that the rule's verdicts weigh; `competing-cpu = \"warning\"` is the short form.").whole(),

    key("expect.*.lost", COUNT, None("no limit"), "At most this many packets lost."),
    key("expect.*.not_sent", COUNT, None("no limit"), "At most this many packets not sent."),
    key("expect.*.early", COUNT, None("no limit"), "At most this many packets received before their scheduled instant."),
    key("expect.*.late", COUNT, None("no limit"), "At most this many packets received after their deadline."),
    key("expect.*.duplicate", COUNT, None("no limit"), "At most this many packets received more than once."),
    key("expect.*.reordered", COUNT, None("no limit"), "At most this many packets received after a later one."),
    key("expect.*.bandwidth", Kind::Rate, None("no limit"), "Of a copy: at least this much by all threads together, over the wall time of the median trial."),
    key("expect.*.*", Kind::Limits, None("no limit"), "Limit of a metric, \"p99.9 < 80us\" (min mean stddev max p50 p90 p99 p99.9 p99.99), or a list of such."),
];
