// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which points a stream stamps, and which metrics can be made of them. A file that names points
//! gets them or is refused. Where it names none, tardy stamps what the metrics need that are asked
//! for: each stamp of the kernel costs time in the path. Of those the ones that a machine does not
//! have are left out with a reason.

use crate::cell::{Table, View, integer};
use crate::error::Problem;
use crate::experiment::Path;
use crate::schema::Value;
use tardy_model::path::DeviceClock;
use tardy_model::point::{Metric, Point};
use tardy_model::port::Port;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Kind, Stream, Wait};

/// True if the file names the points.
pub(crate) fn are_named(table: &Table<'_>) -> bool {
    table.is_written("stamps") && matches!(table.find("stamps"), Some(Value::Points(_)))
}

/// Points that metrics may be made of: as named; else the usual ones, and those of the reply where
/// there is one. `ports` and `waits` are what the sending and the receiving station have.
pub(crate) fn points(
    table: &Table<'_>,
    kind: Kind,
    ports: [Port; 2],
    waits: [Wait; 2],
    in_flight: u32,
) -> Result<Vec<Point>, Problem> {
    let are_named = are_named(table);
    let [port, rx_port] = ports;
    let mut points = match table.find("stamps") {
        Some(Value::Points(points)) => points.clone(),
        _ => {
            let arrival = rx_port.traits().arrival;
            Point::USUAL.map(|point| if point == Point::RxKernel { arrival } else { point }).to_vec()
        }
    };
    let is_known = table.are_sound(&["kind", "reflect"]);
    match points.iter().find(|point| point.is_of_reply()).filter(|_| !kind.is_answered() && is_known) {
        Some(point) => {
            let message = format!("`{}`: `{point}` is of a reply, and the stream is not answered", table.key("stamps"));
            let help = "leave it out, or write reflect = true or kind = \"pingpong\"";
            return Err(table.wrong(&["stamps", "kind"], message, help));
        }
        None if kind.is_answered() && !are_named => {
            points.extend(Point::ALL.into_iter().filter(|point| point.is_of_reply()));
        }
        None => {}
    }
    if kind == Kind::Pingpong && !are_named {
        // Nothing wakes by a timer.
        points.retain(|point| *point != Point::Wakeup);
    }
    if !are_named {
        let is_worthless = |point| is_unseen(point, port) || is_joined(point, port, in_flight);
        points.retain(|point| !ends_waits(*point, kind, port, waits) && !is_worthless(*point));
    }
    points.sort();
    Ok(points)
}

/// True where a stamp that waits to be fetched would end the waits for a packet: over TCP a thread
/// sends and waits on one socket, and poll, select and epoll return for its error queue too.
fn ends_waits(point: Point, kind: Kind, port: Port, [tx, rx]: [Wait; 2]) -> bool {
    let wait = match point {
        Point::TxSched | Point::TxKernel => tx,
        Point::ReplyTxSched | Point::ReplyTxKernel => rx,
        _ => return false,
    };
    kind.is_answered() && port.traits().is_connection && matches!(wait, Wait::Poll | Wait::Select | Wait::Epoll)
}

/// True of the kernel's stamps of packets that pass its queue disciplines by: it takes none.
fn is_unseen(point: Point, port: Port) -> bool {
    let of_sending = [Point::TxSched, Point::TxKernel, Point::ReplyTxSched, Point::ReplyTxKernel];
    !port.traits().passes_qdisc && of_sending.contains(&point)
}

/// The points of the kernel's stamps.
const KERNELS: [Point; 6] =
    [Point::TxSched, Point::TxKernel, Point::RxKernel, Point::ReplyTxSched, Point::ReplyTxKernel, Point::ReplyRxKernel];

/// True over TCP with several in flight: messages that wait to be sent or read are joined, and
/// share one stamp.
pub(crate) fn joins(port: Port, in_flight: u32) -> bool {
    port.traits().is_connection && in_flight > 1
}

/// Why there is no stamp of the kernel then.
const JOINED: &str =
    "TCP joins messages that wait to be sent or read, and they share one stamp; with in_flight = 1 each has its own";

/// True of the kernel's stamps then.
fn is_joined(point: Point, port: Port, in_flight: u32) -> bool {
    joins(port, in_flight) && KERNELS.contains(&point)
}

/// Keeps of the points that no file names those that something asked for is made of. What a
/// measuring thread reads from its clock stays: it costs the path nothing, and verdicts rest on
/// it; so does the kernel's stamp of arrival where there is a schedule. A queue discipline is
/// judged by when packets reach it and leave it.
pub(crate) fn keep_needed(streams: &mut [Stream], shaper: &Shaper) {
    for stream in streams.iter_mut().filter(|stream| !stream.stamps_named) {
        let mut needed = vec![Point::Wakeup, Point::Send, Point::Receive, Point::ReplySend, Point::ReplyReceive];
        needed.extend(stream.metrics.iter().flat_map(|metric| metric.stamps()));
        if stream.metrics.contains(&Metric::Delta) {
            needed.push(stream.rx.port.traits().arrival);
        }
        if stream.kind.is_scheduled() {
            // Whether a packet is early or late is of its arrival.
            needed.push(stream.rx.port.traits().arrival);
        }
        if *shaper != Shaper::None {
            needed.extend([Point::TxSched, Point::TxKernel, Point::TxHw]);
        }
        stream.stamps.retain(|point| needed.contains(point));
    }
}

/// Refuses points that the file names and that no machine can have. What a device lacks is reported
/// when it is examined.
pub(crate) fn check(view: &View<'_>, path: &Path, streams: &[Stream]) {
    for named in view.streams() {
        let table = view.table("stream.*", Some(named));
        let stream = streams.iter().find(|stream| stream.name == named.name && stream.stamps_named);
        let Some(stream) = stream.filter(|_| view.is_sound("path.kind")) else { continue };
        let refused = stream.stamps.iter().filter_map(|point| Some((point, refusal(*point, path, stream)?)));
        for (point, why) in refused {
            table.check(&["kind", "reflect", "port", "tx.port", "rx.port", "in_flight", "stamps"], || {
                let message = format!("`{}`: there is no `{point}` here: {why}", table.key("stamps"));
                let help = "leave it out; stamps that are not named are taken where the machine has them";
                Err(table.wrong(&["stamps", "port"], message, help))
            });
        }
    }
}

/// Why nothing can stamp the point; `None` if something may.
fn refusal(point: Point, path: &Path, stream: &Stream) -> Option<String> {
    let joined = is_joined(point, stream.port, stream.reply.in_flight);
    Some(match point {
        Point::TxHw | Point::RxHw if stream.port.traits().is_simulated && !stream.sim.phc => {
            format!("port {} has no network device; sim.phc = true gives each end one with a clock", stream.port.name())
        }
        Point::TxHw | Point::RxHw if stream.port.traits().is_simulated && stream.kind == Kind::Cyclic => return None,
        Point::TxHw | Point::RxHw if !stream.port.traits().is_simulated && path.traits().clock == DeviceClock::None => {
            format!("path {} joins virtual links, which have no clock of their own", path.traits().name)
        }
        Point::RxXdp if !stream.rx.port.passes_xdp() => {
            format!("port {} has no XDP program", stream.rx.port.name())
        }
        point if is_unseen(point, stream.port) => format!(
            "port {} passes no queue discipline, and the kernel stamps nothing that it sends",
            stream.port.name()
        ),
        Point::RxKernel if stream.rx.port.passes_xdp() => {
            format!("port {} takes packets before the kernel's stack stamps them", stream.rx.port.name())
        }
        Point::TxHw | Point::RxHw if stream.kind.is_answered() => {
            "a device's stamps are read of one-way streams only".to_owned()
        }
        Point::RxHw if stream.rx.port.passes_xdp() => {
            format!("port {} takes packets before the kernel hands over the device's stamp", stream.rx.port.name())
        }
        _ if joined => JOINED.to_owned(),
        _ => return None,
    })
}

/// The first point of a metric that is not stamped.
pub(crate) fn unstamped(metric: Metric, stamps: &[Point]) -> Option<Point> {
    if metric == Metric::Delta && stamps.contains(&Point::RxXdp) {
        return None;
    }
    metric.stamps().into_iter().find(|point| *point != Point::Scheduled && !stamps.contains(point))
}

/// What decides which points a stream stamps.
pub(crate) const MADE_OF: [&str; 9] =
    ["stamps", "kind", "reflect", "port", "tx.port", "rx.port", "tx.wait", "rx.wait", "in_flight"];

/// The message for a metric that a ping-pong cannot have.
pub(crate) const NO_SCHEDULE: &str =
    "has no meaning for a ping-pong, which has no schedule: a request goes out when a reply has come";

/// What to write instead of a metric that streams of this kind cannot have; `None` if they can.
pub(crate) fn meaningless(metric: Metric, kind: Kind) -> Option<String> {
    if kind.is_scheduled() {
        return None;
    }
    match metric {
        Metric::Span(Point::Scheduled | Point::Wakeup, to) if to > Point::Send => Some(format!("write \"send..{to}\"")),
        Metric::Span(Point::Scheduled | Point::Wakeup, _) | Metric::Delta => {
            Some("write \"send..reply_receive\", or kind = \"cyclic\"".to_owned())
        }
        Metric::Span(..) | Metric::Transit => None,
    }
}

/// The metric where packets are stamped elsewhere when they arrive.
fn arriving(metric: Metric, port: Port) -> Metric {
    let at = |point| if point == Point::RxKernel { port.traits().arrival } else { point };
    match metric {
        Metric::Span(from, to) => Metric::Span(at(from), at(to)),
        other => other,
    }
}

/// The metrics of a stream: as named, else those of the usual ones that it can have.
pub(crate) fn metrics(table: &Table<'_>, kind: Kind, port: Port, stamps: &[Point]) -> Result<Vec<Metric>, Problem> {
    let metrics = table.get("metrics", |value| match value {
        Value::Word => Some(None),
        Value::Metrics(metrics) => Some(Some(metrics.clone())),
        _ => None,
    })?;
    let Some(metrics) = metrics else {
        let usual = if kind.is_answered() { &Metric::DEFAULT_ANSWERED[..] } else { &Metric::DEFAULT[..] };
        let of_schedule = |metric: &Metric| metric.points().first() == Some(&Point::Scheduled);
        let fits = |metric: &Metric| kind.is_scheduled() || !of_schedule(metric);
        let stamped = |metric: &Metric| unstamped(*metric, stamps).is_none();
        return Ok(usual
            .iter()
            .map(|metric| arriving(*metric, port))
            .filter(|metric| fits(metric) && stamped(metric))
            .collect());
    };
    let in_flight = table.get("in_flight", integer).map_or(1, |number| number as u32);
    let joins = joins(port, in_flight);
    metrics.iter().for_each(|metric| check_metric(table, "metrics", *metric, (kind, joins), stamps));
    Ok(metrics)
}

/// Refuses a metric, named by the key `field`, that such a stream cannot have.
pub(crate) fn check_metric(
    table: &Table<'_>,
    field: &str,
    metric: Metric,
    (kind, joins): (Kind, bool),
    stamps: &[Point],
) {
    if let Some(help) = meaningless(metric, kind) {
        table.check(&["kind", "reflect"], || {
            let message = format!("`{}`: `{metric}` {NO_SCHEDULE}", table.key(field));
            Err(table.wrong(&[field, "kind"], message, help))
        });
    } else if let Some(Lack { decided_by, blamed, why, help }) = lack(metric, stamps, (kind, joins)) {
        table.check(decided_by, || {
            let fields: Vec<&str> = [field].iter().chain(blamed).copied().collect();
            Err(table.wrong(&fields, format!("`{}`: `{metric}` {why}", table.key(field)), help))
        });
    }
}

/// Why a stream has no metric that needs a point.
pub(crate) struct Lack {
    /// Fields of the stream: while one of them is wrong, nothing is known of it.
    pub decided_by: &'static [&'static str],
    /// Fields of the stream that a user changes to have the point.
    pub blamed: &'static [&'static str],
    pub why: String,
    pub help: String,
}

/// Why a stream of this kind does not have the metric, and what to write for it; `None` if it has.
/// `joins` where messages that wait are joined and share one stamp.
pub(crate) fn lack(metric: Metric, stamps: &[Point], (kind, joins): (Kind, bool)) -> Option<Lack> {
    const ANSWERED: &[&str] = &["kind", "reflect"];
    let point = unstamped(metric, stamps)?;
    // Where no reply comes, no stamp helps: the user's first step is to have replies.
    let of_reply = || metric.stamps().into_iter().find(|point| point.is_of_reply() && !stamps.contains(point));
    if let Some(point) = of_reply().filter(|_| !kind.is_answered()) {
        return Some(Lack {
            decided_by: &["stamps", "kind", "reflect"],
            blamed: ANSWERED,
            why: format!("needs `{point}`, which is of a reply, and the stream is not answered"),
            help: "write reflect = true or kind = \"pingpong\", or leave the metric out".to_owned(),
        });
    }
    if joins && KERNELS.contains(&point) {
        return Some(Lack {
            decided_by: &MADE_OF,
            blamed: &["in_flight"],
            why: format!("needs `{point}`, and {JOINED}"),
            help: "write in_flight = 1, or leave the metric out".to_owned(),
        });
    }
    if point.is_of_copy() {
        return Some(Lack {
            decided_by: &["kind"],
            blamed: &[],
            why: format!("needs `{point}`, which is of a copying thread"),
            help: "leave it out; a copy is an experiment of its own, kind = \"copy\"".to_owned(),
        });
    }
    let help = match point {
        Point::RxXdp => "write rx.port = \"xdp\", or take `rx_kernel`".to_owned(),
        point => format!("add \"{point}\" to stamps, or leave the metric out"),
    };
    let why = format!("needs `{point}`, which is not stamped");
    Some(Lack { decided_by: &MADE_OF, blamed: &["stamps"], why, help })
}
