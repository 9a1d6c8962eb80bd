// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that other tools have for a key or a value of an experiment file, and what means the same
//! here: those of isochron, cyclictest, sockperf, netperf, iperf3, stress-ng, `tc` and `ip`.
//! And the known word that a misspelled one most likely was.

use crate::tree::{Node, Toml};

/// Words that mean a key.
#[derive(Debug)]
pub struct Synonym {
    /// The table in which they are written; `*` matches any name.
    pub table: &'static str,
    /// The words, in lower case and with `_`.
    pub words: &'static [&'static str],
    /// The key that means it: of the same table if it begins with a dot. Empty if there is none.
    pub key: &'static str,
    pub says: &'static str,
}

const fn of(table: &'static str, words: &'static [&'static str], key: &'static str, says: &'static str) -> Synonym {
    Synonym { table, words, key, says }
}

const DEVICES: &str = "and `path.b`, the devices of both ends: [path] kind = \"wire\", a = \"enp1s0\", b = \"enp2s0\"";
const THREADS: &str = "and that of `rx`: each thread has its own CPU: tx = { cpu = 2 }, rx = { cpu = 3 }";
const POLICY: &str = "how the thread is scheduled: policy = \"fifo:90\" is SCHED_FIFO with priority 90";
const ELSEWHERE: &str = "another machine, as OpenSSH's client takes it: ssh = \"root@lab2\"";
const EMULATED: &str = "leave it out: tardy adds no delay, loss or limit to a path, it measures the path as it is; port = \"sim\" has a stream's `sim.loss` and others";
const DEVICE_WORDS: &[&str] = &["dev", "device", "interface", "iface", "ifname", "if_name", "nic", "netdev", "eth"];

/// Every word that means a key.
#[rustfmt::skip]
pub const KEYS: &[Synonym] = &[
    of("stream.*", &["rate", "frequency", "freq", "hz", "interval", "period", "pps", "mps", "packet_rate", "packets_per_second", "cycle_time", "ipg", "gap"], ".cycle",
        "the time from one packet to the next, or how many a second: cycle = \"1ms\" or \"1kHz\" (a ping-pong has none: its next request follows the reply)"),
    of("stream.*", &["bandwidth", "bitrate", "bit_rate", "bw", "throughput"], "",
        "leave it out: a stream has `cycle` and `size`; traffic of a bit rate is a load: [load.bulk] kind = \"udp_flood\", rate = \"10Mbit\""),
    of("stream.*", &["payload", "len", "length", "packet_size", "msg_size", "message_size", "frame_size", "request_size", "bytes", "buflen"], ".size",
        "a packet's payload: size = \"200B\""),
    of("stream.*", &["response_size", "reply_length", "reply_len"], ".reply_size", "a reply's payload: reply_size = \"200B\""),
    of("stream.*", &["prio", "skb_priority", "sk_priority", "so_priority", "socket_priority"], ".priority",
        "the socket's (SO_PRIORITY), by which a shaper classes packets: priority = 3; that of a thread is tx = { policy = \"fifo:90\" }, that in a VLAN tag is pcp"),
    of("stream.*", &["sched", "scheduler", "sched_policy", "sched_priority", "sched_fifo", "sched_rr", "rt_priority", "rtprio", "fifo", "policy"], ".tx.policy",
        "and that of `rx`: each thread is scheduled by itself: tx = { policy = \"fifo:90\" }"),
    of("stream.*", &["cpu", "cpus", "cpu_mask", "cpumask", "affinity", "core", "cores"], ".tx.cpu", THREADS),
    of("stream.*", &["packets", "num_packets", "frames", "num_frames", "num_readings", "n", "loops", "iterations", "samples", "requests", "transactions", "messages"], ".count",
        "packets of a trial: count = 10_000"),
    of("stream.*", &["time", "runtime", "seconds", "test_time", "length_of_test"], ".duration", "the length of a trial: duration = \"10s\""),
    of("stream.*", &["src", "source", "sender", "client", "talker", "tx_station", "host", "station", "namespace", "netns"], ".from", "the station that sends: from = \"a\", to = \"b\""),
    of("stream.*", &["dst", "dest", "destination", "receiver", "server", "listener", "sink", "target", "rx_station"], ".to", "the station that receives: to = \"b\""),
    of("stream.*", &["proto", "protocol", "transport", "socket"], ".port", "what it goes through: port = \"udp\", \"tcp\" or \"packet\""),
    of("stream.*", &["type", "mode", "test"], ".kind", "kind = \"cyclic\" or \"pingpong\""),
    of("stream.*", &["echo", "round_trip", "roundtrip", "reflector", "bidirectional"], ".reflect", "reflect = true sends each packet back; request and response is kind = \"pingpong\""),
    of("stream.*", &["vid", "vlan_id"], ".vlan", "the id in the VLAN tag: vlan = 100"),
    of("stream.*", &["vlan_priority", "vlan_prio", "qos"], ".pcp", "the priority in the VLAN tag: pcp = 3, with vlan"),
    of("stream.*", &["etype", "ether_type", "eth_type"], ".ethertype", "port = \"packet\", ethertype = 0x88B5"),
    of("stream.*", &["txtime", "so_txtime", "launch_time", "launchtime"], ".launch", "packets have launch times: launch = \"strict\" or \"deadline\""),
    of("stream.*", &["advance_time", "txtime_advance"], ".tx.advance", "how long before its instant the sender wakes: tx = { advance = \"300us\" }"),
    of("stream.*", &["busy_poll", "busy_wait", "polling", "blocking", "recv_mode"], ".rx.wait", "how the receiver waits: rx = { wait = \"spin\" }"),
    of("stream.*", &["window", "outstanding", "concurrency", "parallel", "pipeline"], ".in_flight", "requests on their way at once: in_flight = 4"),
    of("stream.*", &["omit", "warm_up_time", "warmup_time"], ".warmup", "how long the warm-up may take: warmup = \"2s\""),
    of("stream.*", &["limit", "threshold", "max_latency", "breaktrace", "deadline_miss"], "expect.*", "limits of figures: [expect.ctl] \"scheduled..receive\" = \"p99 < 80us\""),
    of("stream.*", &["runs", "repetitions", "reps", "repeat", "repeats", "trials"], "trials", "repetitions of each cell, at the top of the file: trials = 5"),
    of("stream.*", &["dscp", "tos", "traffic_class", "ip_tos", "ttl"], "", "leave it out: tardy does not set it; the socket's priority is `priority`, that in a VLAN tag is `pcp` with `vlan`"),
    of("stream.*", &["delay", "latency", "jitter"], "", EMULATED),
    of("stream.*", DEVICE_WORDS, "path.a", DEVICES),
    of("stream.*", &["qdisc", "tc", "shaper"], "shaper.kind", "the queue discipline that streams leave by: [shaper] kind = \"etf\""),

    of("stream.*.*", &["sched", "scheduler", "sched_policy", "sched_priority", "prio", "priority", "rt_priority", "rtprio", "fifo"], ".policy", POLICY),
    of("stream.*.tx", &["core"], ".cpu", "the thread's CPU: cpu = 2"),
    of("stream.*.*", &["cpus", "cores", "affinity", "cpu_mask", "cpumask"], ".cpu", "the thread's CPU: cpu = 2"),
    of("stream.*.*", &["busy_poll", "poll", "polling", "blocking", "mode", "busy_wait"], ".wait", "how the thread waits: wait = \"spin\""),
    of("stream.*.*", DEVICE_WORDS, "path.a", DEVICES),

    of("path", &["delay", "latency", "jitter", "loss", "netem", "rate", "bandwidth", "speed", "duplicate", "reorder", "corrupt"], "", EMULATED),
    of("path", DEVICE_WORDS, ".a", DEVICES),
    of("path", &["type", "mode"], ".kind", "kind = \"veth\""),
    of("path", &["qdisc", "tc", "shaper"], "shaper.kind", "the queue discipline that streams leave by: [shaper] kind = \"etf\""),
    of("path", &["channels", "rings", "num_queues", "tx_queues", "rx_queues", "numtxqueues", "numrxqueues"], ".queues", "transmit and receive queues of each end: queues = 4"),
    of("path", &["rps", "irq", "softirq", "irq_cpu"], "station.*.softirq", "the CPU that receives packets from the device: [station.b] softirq = 2"),

    of("station.*", &["namespace", "netns", "ns", "type"], ".kind", "kind = \"netns\" is a fresh network namespace"),
    of("station.*", &["addr", "host", "hostname", "user", "remote"], ".ssh", ELSEWHERE),
    of("station.*", &["cpu", "irq", "irq_cpu", "rps", "rps_cpus", "rps_cpu", "smp_affinity"], ".softirq",
        "the CPU that receives packets from the device: softirq = 2; that of a thread is stream.NAME.tx.cpu or rx.cpu"),
    of("station.*", &["dev", "device", "interface", "iface", "ifname", "if_name", "netdev", "eth"], ".nic",
        "its network device on path wire: [path] kind = \"wire\", and nic = \"enp1s0\" of each station"),
    of("station.*", &["qdisc", "tc", "shaper"], "shaper.kind", "the queue discipline that streams leave by: [shaper] kind = \"etf\""),

    of("shaper", &["qdisc", "type", "discipline"], ".kind", "kind = \"etf\""),
    of("shaper", &["num_tc", "tcs", "traffic_classes"], ".classes", "how many traffic classes: classes = 4"),
    of("shaper", &["prio_tc_map", "prio2tc", "priomap"], ".map", "the class of each of 16 priorities"),
    of("shaper", &["queues"], ".class_queues", "the queues of each class: class_queues = [\"1@0\", \"1@1\"]"),
    of("shaper", &["sched_entry", "sched_entries", "schedule", "gates", "gcl"], ".entries", "the gates of a cycle: entries = [\"1 100us\", \"0 400us\"]"),
    of("shaper", &["cycle", "cycle_time"], ".gate_cycle", "how long the entries last together: gate_cycle = \"500us\""),
    of("shaper", &["flags"], ".mode", "tc's flags 0x1 are mode = \"txtime-assist\", 0x2 are \"offload\""),
    of("shaper", &["delta"], ".etf.delta", "etf.delta = \"300us\""),
    of("shaper", &["sendslope", "hicredit", "locredit"], ".cbs.idleslope", "the other credits follow from it: cbs.idleslope = \"20Mbit\""),
    of("shaper", &["rate", "speed", "link_speed", "bandwidth"], ".port_rate", "what the device sends: port_rate = \"1Gbit\""),
    of("shaper", &["clockid", "clock", "handle", "parent"], "", "leave it out: tardy sets it, and the clock is TAI"),
    of("shaper", DEVICE_WORDS, "", "leave it out: the shaper is at the sending end of the path"),

    of("load.*", &["type", "test", "tool"], ".kind", "what the load does: kind = \"tcp_stream\""),
    of("load.*", &["station", "host", "where", "source", "src", "client", "namespace", "netns"], ".from", "the station where it runs: from = \"a\""),
    of("load.*", &["dst", "dest", "destination", "server", "target", "receiver"], ".to", "the other station: to = \"b\""),
    of("load.*", &["bandwidth", "bitrate", "bit_rate", "bw", "throughput"], ".rate", "rate = \"500Mbit\""),
    of("load.*", &["pps", "packets_per_second", "mps"], ".packet_rate", "datagrams a second of a `udp_flood`: packet_rate = 10_000"),
    of("load.*", &["len", "length", "payload", "msg_size", "message_size", "block_size", "buflen", "request_size"], ".size", "bytes of a call: size = \"1400B\""),
    of("load.*", &["response_size"], ".reply_size", "bytes of a response: reply_size = \"64B\""),
    of("load.*", &["instances", "parallel", "streams", "flows", "workers", "threads", "procs", "n"], ".count", "instances at once: count = 4"),
    of("load.*", &["cmd", "program", "exec", "args", "argv", "client_command"], ".command", "kind = \"command\", command = [\"stress-ng\", \"--cpu\", \"1\"]"),
    of("load.*", &["server_command", "peer_cmd", "server_cmd"], ".peer_command", "the program at the other station: peer_command = [\"iperf3\", \"-s\"]"),
    of("load.*", &["util", "utilization", "utilisation", "load", "cpu_load", "busy"], ".duty", "the share of a CPU that a `cpu` takes: duty = \"50%\""),
    of("load.*", &["vm_bytes", "bytes", "memory"], ".working_set", "the bytes that a `memory` copies within: working_set = \"8MiB\""),
    of("load.*", &["sched", "scheduler", "prio", "priority", "nice", "rt_priority"], ".policy", POLICY),
    of("load.*", &["core", "affinity", "cpus", "cpu_mask", "taskset"], ".cpu", "its thread's CPU: cpu = 1"),
    of("load.*", &["window", "sndbuf", "so_sndbuf", "buffer"], ".send_buffer", "send_buffer = \"128KiB\""),
    of("load.*", &["rcvbuf", "so_rcvbuf"], ".receive_buffer", "receive_buffer = \"128KiB\""),
    of("load.*", &["frame_rate", "framerate"], ".fps", "frames a second of a `camera`: fps = 30"),
    of("load.*", &["interval"], ".gap", "the time between bursts of a `sporadic`: gap = \"fixed:50ms\"; of a `cpu` it is period"),
    of("load.*", &["duration", "time", "timeout", "seconds", "runtime"], ".stop", "when it ends after the first packet: stop = \"5s\"; left out, with the streams"),
    of("load.*", DEVICE_WORDS, "", "leave it out: it goes over the path of the streams"),

    of("expect.*", &["loss", "losses", "drop", "drops", "dropped", "packet_loss"], ".lost", "the most packets that may be lost: lost = 0"),
    of("expect.*", &["unsent", "skipped", "overruns"], ".not_sent", "the most packets that may not be sent: not_sent = 0"),
    of("expect.*", &["out_of_order", "ooo", "misordered"], ".reordered", "the most packets that may be reordered: reordered = 0"),
    of("expect.*", &["missed", "deadline_misses", "misses"], ".late", "the most packets that may be late: late = 0"),
    of("expect.*", &["latency", "delay", "lateness", "rtt"], "", "name both points: \"scheduled..receive\" = \"p99 < 80us\", of a round trip \"send..reply_receive\""),
    of("expect.*", &["jitter"], ".delta", "delta = \"p99 < 510us\" limits the time from one arrival to the next"),

    of("", &["host", "hosts", "namespace", "namespaces", "netns", "node", "nodes", "endpoint", "machine", "stations"], "station", "[station.a] and [station.b]"),
    of("", &["link", "links", "network", "topology", "wire", "cable"], "path", "[path] kind = \"veth\""),
    of("", &["qdisc", "tc", "taprio", "etf", "scheduler", "shaping"], "shaper", "[shaper] kind = \"etf\""),
    of("", &["flow", "flows", "traffic", "talker", "streams"], "stream", "[stream.ctl] with from and to"),
    of("", &["background", "stress", "stressor", "noise", "disturbance", "interference", "iperf3", "hackbench", "loads"], "load", "[load.bulk] kind = \"tcp_stream\""),
    of("", &["expectations", "limits", "thresholds", "assert", "slo"], "expect", "[expect.ctl] \"scheduled..receive\" = \"p99 < 80us\""),
    of("", &["axes", "axis", "sweep", "parameters", "params", "grid"], "matrix", "[matrix] \"stream.ctl.cycle\" = [\"1ms\", \"2ms\"]"),
    of("", &["scenario", "scenarios", "variant", "variants", "cases"], "case", "[[case]] name = \"idle\""),
    of("", &["runs", "repetitions", "reps", "repeat", "repeats"], "trials", "repetitions of each cell: trials = 5"),
    of("", &["title", "label", "id"], "name", "name = \"my-path\""),
    of("", DEVICE_WORDS, "path.a", DEVICES),
];

/// Words that mean a value of a key, and what to write instead.
#[rustfmt::skip]
const VALUES: &[(&str, &[&str], &str)] = &[
    ("load.*.kind", &["iperf", "iperf3"], "write \"tcp_stream\", or \"udp_flood\" for UDP; iperf3 itself is kind = \"command\", command = [\"iperf3\", \"-c\", \"{to}\", \"-t\", \"1000\"]"),
    ("load.*.kind", &["netperf", "netserver"], "write \"tcp_stream\", \"tcp_maerts\" or \"tcp_rr\", which do what its tests of these names do; netperf itself is kind = \"command\""),
    ("load.*.kind", &["stress-ng", "stress", "stressng", "rtla", "hog"], "write \"cpu\" or \"memory\"; stress-ng itself is kind = \"command\", command = [\"stress-ng\", \"--cpu\", \"1\"]"),
    ("load.*.kind", &["hackbench", "fio", "dd", "program", "exec", "shell", "script", "process"], "write \"command\", with command = [\"hackbench\", \"-l\", \"100000\"]"),
    ("load.*.kind", &["udp", "udp_stream", "flood", "pktgen", "udp_rr"], "write \"udp_flood\""),
    ("load.*.kind", &["tcp", "bulk", "download", "upload"], "write \"tcp_stream\", or \"tcp_maerts\" for the other direction"),
    ("load.*.kind", &["rr", "ping", "request-response", "netperf_rr"], "write \"tcp_rr\"; what is to be measured is a stream: kind = \"pingpong\""),
    ("load.*.kind", &["video", "stream"], "write \"camera\", or \"tcp_stream\""),
    ("load.*.kind", &["vm", "mem", "cache", "membw"], "write \"memory\""),
    ("load.*.kind", &["burst", "bursts", "poisson", "onoff", "on-off"], "write \"sporadic\""),
    ("stream.*.kind", &["periodic", "isochronous", "isochron", "time-triggered", "tt", "talker", "udp_stream"], "write \"cyclic\""),
    ("stream.*.kind", &["rr", "tcp_rr", "udp_rr", "request", "request-response", "request_response", "reflect", "echo", "ping", "netperf", "sockperf", "under-load", "roundtrip", "round-trip", "rtt"], "write \"pingpong\", or reflect = true for packets that are sent by the clock"),
    ("stream.*.kind", &["reflect", "reflected", "echo"], "write reflect = true, with kind = \"cyclic\""),
    ("stream.*.kind", &["udp", "tcp", "packet"], "write port = \"udp\", \"tcp\" or \"packet\"; kind is \"cyclic\" or \"pingpong\""),
    ("stream.*.port", &["raw", "l2", "ethernet", "af_packet", "eth"], "write \"packet\""),
    ("stream.*.port", &["af_xdp", "xsk"], "write \"xdp\""),
    ("stream.*.launch", &["true", "on", "txtime", "etf"], "write \"strict\" or \"deadline\""),
    ("path.kind", &["cable", "direct", "b2b", "back-to-back", "nic", "physical", "real"], "write \"wire\", with the devices of both ends: a = \"enp1s0\", b = \"enp2s0\""),
    ("path.kind", &["loopback", "lo", "pair", "virtual"], "write \"veth\""),
    ("shaper.kind", &["fq", "fq_codel", "pfifo_fast", "pfifo", "noqueue", "mq", "default"], "write \"none\", which leaves the device's own"),
    ("shaper.kind", &["tas", "qbv", "802.1qbv"], "write \"taprio\""),
    ("shaper.kind", &["qav", "802.1qav"], "write \"cbs\""),
    ("shaper.kind", &["txtime", "so_txtime", "tbs", "launchtime"], "write \"etf\""),
    ("station.*.kind", &["namespace", "ns", "container", "local"], "write \"netns\""),
    ("stream.*.*.wait", &["busy", "busy-wait", "busywait", "nonblocking", "non-blocking"], "write \"spin\""),
    ("stream.*.*.wait", &["sleep", "recv", "recvmsg", "blocking"], "write \"block\", which sleeps in the receive call, or \"poll\", \"select\" or \"epoll\""),
    ("stream.*.overrun", &["drop", "ignore"], "write \"skip\""),
];

/// Names of scheduling policies elsewhere.
const POLICIES: &[(&str, &str)] = &[
    ("sched_fifo", "fifo"),
    ("fifo", "fifo"),
    ("ff", "fifo"),
    ("rt", "fifo"),
    ("realtime", "fifo"),
    ("sched_rr", "rr"),
    ("rr", "rr"),
    ("sched_other", "other"),
    ("sched_normal", "other"),
    ("other", "other"),
    ("normal", "other"),
    ("default", "other"),
    ("cfs", "other"),
    ("eevdf", "other"),
    ("none", "other"),
];

/// What figures are called elsewhere.
const FIGURES: &[(&[&str], &str)] = &[
    (&["avg", "average", "avrg"], "mean"),
    (&["median", "med", "p50.0"], "p50"),
    (&["maximum", "worst", "peak", "p100"], "max"),
    (&["minimum", "best", "p0"], "min"),
    (&["std", "sd", "mdev", "sigma", "jitter"], "stddev"),
];

/// What units are called elsewhere, the unit here, and how many of them one is.
const UNITS: &[(&[&str], &str, u64)] = &[
    (&["sec", "secs", "second", "seconds", "S"], "s", 1),
    (&["msec", "msecs", "millis", "millisecond", "milliseconds"], "ms", 1),
    (&["usec", "usecs", "micros", "microsecond", "microseconds", "u"], "us", 1),
    (&["nsec", "nsecs", "nanos", "nanosecond", "nanoseconds", "n"], "ns", 1),
    (&["m", "mins", "minute", "minutes"], "min", 1),
    (&["hr", "hrs", "hour", "hours"], "h", 1),
    (&["b", "byte", "bytes", "octets"], "B", 1),
    (&["k", "K"], "kB", 1),
    (&["Ki"], "KiB", 1),
    (&["M"], "MB", 1),
    (&["Mi"], "MiB", 1),
    (&["G", "gb"], "GB", 1),
    (&["Gi"], "GiB", 1),
    (&["bps", "b/s", "bit/s"], "bit", 1),
    (&["k", "K", "kb", "Kb", "kbps", "Kbps", "kb/s", "kbit/s"], "kbit", 1),
    (&["M", "m", "mb", "Mb", "mbps", "Mbps", "Mb/s", "Mbit/s"], "Mbit", 1),
    (&["G", "g", "gb", "Gb", "gbps", "Gbps", "Gb/s", "Gbit/s"], "Gbit", 1),
    (&["pps", "/s", "p/s", "fps", "hz", "HZ"], "Hz", 1),
    (&["kpps"], "kHz", 1),
    (&["Mpps"], "MHz", 1),
];

fn spelled(word: &str) -> String {
    word.trim().to_lowercase().replace('-', "_")
}

/// What another tool's word means here: the key for it, if there is one, and what to write.
/// `is_there` decides which keys there are.
pub(crate) fn of_key(
    above: &[String],
    wrong: &str,
    is_there: impl Fn(&str) -> bool,
) -> Option<(Option<String>, String)> {
    let word = spelled(wrong);
    // A stream's key at the top of the file is still a stream's.
    let stray = |of: &&Synonym| above.is_empty() && of.table == "stream.*";
    let of_table = KEYS.iter().filter(|of| of.is_of(above)).chain(KEYS.iter().filter(stray));
    of_table.filter(|of| of.words.contains(&word.as_str())).find_map(|found| found.key_and_advice(above, &is_there))
}

/// Words shorter than this are a slip away from too many others.
const LONG_ENOUGH: usize = 5;

/// The word of another tool that belongs into this table and is one slip away from `wrong`.
pub(crate) fn slip_of(above: &[String], wrong: &str) -> Option<&'static str> {
    let word = spelled(wrong);
    let words = KEYS.iter().filter(|of| of.is_of(above)).flat_map(|of| of.words.iter().copied());
    let mut long = words.filter(|known| known.len() >= LONG_ENOUGH && word.len() <= LONGEST);
    long.find(|known| strsim::damerau_levenshtein(&word, known) == 1)
}

impl Synonym {
    /// True if it is a word of this table.
    fn is_of(&self, above: &[String]) -> bool {
        let mut parts = self.table.split('.').filter(|part| !part.is_empty());
        let fits = above.iter().all(|part| parts.next().is_some_and(|of| of == "*" || of == part));
        fits && parts.next().is_none()
    }

    /// The full key for a word in the table `above`, and what to write; `None` if that table has
    /// no such key.
    fn key_and_advice(&self, above: &[String], is_there: impl Fn(&str) -> bool) -> Option<(Option<String>, String)> {
        if self.key.is_empty() {
            return Some((None, self.says.to_owned()));
        }
        let full = match self.key.strip_prefix('.') {
            Some(_) if above.is_empty() => format!("{}{}", self.table, self.key),
            Some(field) => above.iter().map(String::as_str).chain([field]).collect::<Vec<_>>().join("."),
            None => self.key.to_owned(),
        };
        // `expect.*` belongs to the stream whose table contains the word; nobody knows whose
        // station is meant.
        let full = match above.get(1).filter(|_| matches!((self.table, self.key), ("stream.*", "expect.*"))) {
            Some(name) => full.replacen('*', name, 1),
            None => full,
        };
        let says = format!("write `{}`, {}", full.replacen('*', "NAME", 1), self.says);
        is_there(&full).then_some((Some(full), says))
    }
}

/// What to write instead of a value that another tool has.
pub(crate) fn of_value(key: &str, word: &str) -> Option<String> {
    let word = word.trim().to_lowercase();
    let is_of_this_key = |of: &str| {
        let mut parts = key.split('.');
        of.split('.').all(|part| parts.next().is_some_and(|own| part == "*" || part == own)) && parts.next().is_none()
    };
    VALUES
        .iter()
        .find(|(of, words, _)| is_of_this_key(of) && words.contains(&word.as_str()))
        .map(|(.., says)| (*says).to_owned())
}

/// How a scheduling policy of another spelling is written here: `SCHED_FIFO:90`, `FIFO 90`, or
/// cyclictest's bare `90`.
pub(crate) fn of_policy(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let (name, number) = match text.find(|c: char| c.is_ascii_digit()) {
        Some(at) => (text[..at].trim_end_matches(|c: char| " :/=,(-".contains(c)), text[at..].trim_end_matches(')')),
        None => (text.as_str(), ""),
    };
    let priority = number.parse::<u8>().ok().filter(|priority| (1..=99).contains(priority));
    let policy = match name {
        "" => "fifo",
        name => POLICIES.iter().find(|(known, _)| *known == name)?.1,
    };
    match (policy, number, priority) {
        ("other", ..) => Some("write \"other\"".to_owned()),
        (policy, "", _) => Some(format!("write \"{policy}:90\", with its priority, 1 to 99")),
        (policy, _, Some(priority)) => Some(format!("write \"{policy}:{priority}\"")),
        _ => None,
    }
}

/// The figure that is called otherwise elsewhere.
pub(crate) fn of_figure(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    FIGURES.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, figure)| *figure)
}

/// A quantity whose unit is called otherwise elsewhere, as it is written here; `units` are those
/// that it may have.
pub(crate) fn of_unit<'a>(number: &str, unit: &str, units: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let fits = |of: &&(&[&str], &str, u64)| of.0.contains(&unit) && units.clone().any(|known| known == of.1);
    let (_, here, times) = UNITS.iter().find(fits)?;
    match times {
        1 => Some(format!("{number}{here}")),
        times => Some(format!("{}{here}", number.parse::<u64>().ok()?.checked_mul(*times)?)),
    }
}

/// How to fix a value where a table belongs: a stream's `tx = "fifo:90"`.
pub(crate) fn table_as_value(path: &[String], node: &Node) -> Option<String> {
    let [root, _, end] = path else { return None };
    if root != "stream" || !matches!(end.as_str(), "tx" | "rx" | "reply") {
        return None;
    }
    match &node.value {
        Toml::Text(text) if text.starts_with("fifo") || text.starts_with("rr") || text == "other" => {
            Some(format!("write {end} = {{ policy = \"{text}\" }}"))
        }
        _ => None,
    }
}

/// Words beyond this length are near to nothing.
const LONGEST: usize = 100;

/// The nearest of `words` to `wrong`, if it is near enough to be a slip of the finger. A word that
/// shares no character with it is a guess, however short both are.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    // A word pasted from elsewhere may be very long, and the distance costs the product of both
    // lengths.
    if wrong.len() > LONGEST {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let near = |word: &str| strsim::damerau_levenshtein(&wrong, &word.to_lowercase());
    let longer = |word: &str| word.chars().count().max(wrong.chars().count());
    let limit = |word: &str| (longer(word) / 3).max(1).min(longer(word).saturating_sub(1));
    let short = words.clone().into_iter().filter(|word| word.len() <= LONGEST);
    let slips = short.map(|word| (near(word), word)).filter(|(far, word)| *far <= limit(word));
    let begins = |word: &str| wrong.len() >= 3 && word.to_lowercase().starts_with(&wrong);
    let mut begun = words.clone().into_iter().filter(|word| begins(word));
    // Of two words as near as each other, `siz` is the one that it begins.
    let slip = slips.min_by_key(|(far, word)| (*far, !begins(word), *word));
    // What several words may be short for is no hint.
    let mut shortened = words.into_iter().filter(|word| abbreviates(&wrong, &word.to_lowercase()));
    let only = || shortened.next().filter(|_| shortened.next().is_none());
    slip.map(|found| found.1).or_else(|| begun.next()).or_else(only)
}

/// True if `short` is `word` without some of its letters, but with its first and its last: `cnt`.
fn abbreviates(short: &str, word: &str) -> bool {
    let mut letters = word.chars();
    let ends = |of: &str| (of.chars().next(), of.chars().next_back());
    short.len() >= 3
        && 2 * short.len() >= word.len()
        && ends(short) == ends(word)
        && short.chars().all(|letter| letters.any(|other| other == letter))
}

/// How to fix an unknown word: the nearest one, or the list of all.
pub(crate) fn suggestion<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, words.clone()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known here: {}", list(words)),
    }
}

/// Words joined for a sentence.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    if words.is_empty() { "nothing".into() } else { words.join(", ") }
}
