// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of values: how each is read, and what is said when it is wrong.

use super::schedule;
use super::spread;
use super::units::{self, Wrong, show_duration};
use crate::error::{Problem, Reason};
use crate::near;
use crate::tree::{Node, Toml};
use tardy_model::expect::Of;
use tardy_model::load::Distribution;
use tardy_model::point::{Metric, Point};
use tardy_model::result::QUANTILES;
use tardy_model::shaper::{Entry, Queues};
use tardy_model::stream::{CpuChoice, Policy};
use tardy_model::time::Nanos;

/// What a key's value is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A name of letters, digits, `.`, `_` and `-`.
    Name,
    /// A station's name.
    Word,
    /// A network device's name.
    Device,
    /// A whole number.
    Integer {
        /// Least.
        min: i64,
        /// Greatest.
        max: i64,
    },
    /// A span of time with its unit.
    Duration {
        /// Least, ns.
        min_ns: i64,
        /// Greatest, ns.
        max_ns: i64,
        /// A word that may stand instead.
        word: Option<&'static str>,
    },
    /// A size with its unit.
    Size {
        /// Least, bytes.
        min: i64,
        /// Greatest, bytes.
        max: i64,
    },
    /// A share of all: a percentage with `%`, or a fraction 0 to 1.
    Share,
    /// True or false.
    Flag,
    /// One of several words.
    Choice {
        /// Those that this version has.
        built: &'static [&'static str],
        /// Those of the glossary that it has not.
        later: &'static [&'static str],
    },
    /// Which CPU.
    Cpu,
    /// A scheduling policy.
    Policy,
    /// A list of points.
    Points {
        /// A word that may stand instead.
        word: &'static str,
    },
    /// A list of metrics.
    Metrics {
        /// A word that may stand instead.
        word: &'static str,
    },
    /// One metric, but for `delta`, whose blocks say nothing of repeatability.
    Metric,
    /// A list of packet numbers.
    Numbers,
    /// One limit of a metric, or a list of them.
    Limits,
    /// The size of a socket's buffer, or `default`.
    Buffer,
    /// Bits a second.
    Rate,
    /// A distribution, of times or of sizes.
    Spread {
        /// Of times.
        time: bool,
    },
    /// Program and arguments.
    Words,
    /// Traffic classes.
    Classes {
        /// The class of each of so many priorities.
        each_of: Option<usize>,
    },
    /// The queues of each class.
    Queues,
    /// Entries of a schedule.
    Entries,
    /// The limit of a rule of validity: a share, or a span of time.
    Limit,
}

/// Limits of a metric: figure, ns, and whether the limit itself is allowed.
pub(crate) type Limits = Vec<(Of, i64, bool)>;

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Span(Nanos),
    Share(f64),
    Flag(bool),
    Cpu(CpuChoice),
    Policy(Policy),
    Points(Vec<Point>),
    Metrics(Vec<Metric>),
    Numbers(Vec<u32>),
    Limits(Limits),
    Spread(Distribution),
    Words(Vec<String>),
    Classes(Vec<u8>),
    Queues(Vec<Queues>),
    Entries(Vec<Entry>),
    /// The word that stands instead of a value.
    Word,
}

/// Highest CPU number that a Linux kernel can be built for.
pub(super) const LAST_CPU: i64 = 8191;
/// IFNAMSIZ − 1.
pub(super) const LONGEST_DEVICE: usize = 15;
/// A limit of a rule is shorter than any trial of use: an hour, ns.
const LONGEST_LIMIT: i64 = 3_600_000_000_000;
const POLICIES: &str = "write other, fifo:90, rr:50 or deadline:200us/1ms/1ms";
const LIMIT: &str = "write \"p99.9 < 80us\"";

impl Kind {
    /// Reads the value of `key`.
    pub(crate) fn read(&self, key: &str, node: &Node) -> Result<Value, Problem> {
        let value = |message: String, help: String| Problem::new(Reason::Value, &node.at, message, help);
        let unit = |wrong: Wrong| value(format!("`{key}`: {}", wrong.message), wrong.help);
        let not =
            |wants: &str, help: &str| value(format!("`{key}` is {}; it must be {wants}", node.what()), help.to_owned());
        Ok(match (self, &node.value) {
            (Kind::Name, Toml::Text(text)) => Value::Text(name(key, text, node)?),
            (Kind::Word, Toml::Text(text)) => Value::Text(text.clone()),
            (Kind::Device, Toml::Text(text)) => Value::Text(device(key, text, node)?),
            (Kind::Name | Kind::Word | Kind::Device, _) => return Err(not("text", &format!("write {}", quote(node)))),
            (Kind::Integer { min, max }, Toml::Integer(number)) => {
                Value::Integer(within(key, node, *number, (*min, *max), |n| n.to_string())?)
            }
            (Kind::Integer { .. }, Toml::Text(text)) if text.replace('_', "").parse::<i64>().is_ok() => {
                return Err(not("a whole number", &format!("write {text} without quotes")));
            }
            (Kind::Integer { min, .. }, _) => {
                return Err(not("a whole number", &format!("write a number, from {min}")));
            }
            (Kind::Duration { word, .. }, Toml::Text(text)) if *word == Some(text.as_str()) => Value::Word,
            (Kind::Duration { min_ns, max_ns, .. }, Toml::Text(text)) => {
                let span = units::duration(text).map_err(unit)?;
                let show = |ns: i64| format!("\"{}\"", show_duration(Nanos(ns)));
                Value::Span(Nanos(within(key, node, span.0, (*min_ns, *max_ns), show)?))
            }
            (Kind::Duration { min_ns, .. }, Toml::Integer(_) | Toml::Float(_)) => {
                // A bare 0 is no length of time where one is needed, whatever its unit.
                let number = node.plain().to_string();
                let number = if number == "0" && *min_ns > 0 { "500".to_owned() } else { number };
                let help = format!("write \"{number}us\"; units: {}", units::TIME_UNITS);
                return Err(value(format!("`{key}` is a duration and needs a unit"), help));
            }
            (Kind::Duration { .. }, _) => return Err(not("a duration in quotes", "write \"500us\"")),
            (Kind::Size { min, max }, Toml::Text(text)) => {
                let show = |bytes: i64| format!("\"{bytes}B\"");
                Value::Integer(within(key, node, units::size(text).map_err(unit)?, (*min, *max), show)?)
            }
            (Kind::Size { .. }, Toml::Integer(_) | Toml::Float(_)) => {
                let help = format!("write \"{}B\"; units: {}", node.plain(), units::SIZE_UNITS);
                return Err(value(format!("`{key}` is a size and needs a unit"), help));
            }
            (Kind::Size { .. }, _) => return Err(not("a size in quotes", "write \"64B\"")),
            (Kind::Share, Toml::Text(text)) => Value::Share(share(key, node, units::percent(text).map_err(unit)?)?),
            (Kind::Share, Toml::Float(number)) => Value::Share(share(key, node, *number)?),
            (Kind::Share, Toml::Integer(number)) => Value::Share(share(key, node, *number as f64)?),
            (Kind::Share, _) => return Err(not("a share", "write a percentage \"0.1%\" or a fraction 0.001")),
            (Kind::Flag, Toml::Flag(flag)) => Value::Flag(*flag),
            (Kind::Flag, _) => return Err(not("true or false", "write true or false, without quotes")),
            (Kind::Choice { built, later }, Toml::Text(text)) => Value::Text(choice(key, node, text, built, later)?),
            (Kind::Choice { built, .. }, _) => {
                return Err(not("a word", &format!("write one of: \"{}\"", built.join("\", \""))));
            }
            (Kind::Cpu, Toml::Text(text)) => Value::Cpu(cpu(key, node, text)?),
            (Kind::Cpu, Toml::Integer(number)) => {
                let number = within(key, node, *number, (0, LAST_CPU), |n| n.to_string())?;
                Value::Cpu(CpuChoice::Number(number as u32))
            }
            (Kind::Cpu, _) => return Err(not("a CPU", "write \"auto\", \"same\", \"different\", \"any\" or a number")),
            (Kind::Policy, Toml::Text(text)) => Value::Policy(policy(text).map_err(unit)?),
            (Kind::Policy, _) => return Err(not("a scheduling policy", POLICIES)),
            (Kind::Points { word }, Toml::Text(text)) if text == word => Value::Word,
            (Kind::Points { .. }, Toml::List(items)) => Value::Points(each(key, "point", items, point)?),
            (Kind::Points { word }, _) => {
                let help = format!("write [\"tx_kernel\", \"rx_kernel\"], or \"{word}\"");
                return Err(not("a list of points", &help));
            }
            (Kind::Metrics { word }, Toml::Text(text)) if text == word => Value::Word,
            (Kind::Metrics { .. }, Toml::List(items)) => {
                Value::Metrics(each(key, "metric", items, |text| metric(text).map_err(|wrong| (Reason::Value, wrong)))?)
            }
            (Kind::Metrics { word }, _) => {
                let help = format!("write [\"scheduled..rx_kernel\", \"delta\"], or \"{word}\"");
                return Err(not("a list of metrics", &help));
            }
            (Kind::Metric, Toml::Text(text)) => match metric(text).map_err(unit)? {
                Metric::Delta => {
                    let message = format!("`{key}`: `delta` is no latency");
                    return Err(Problem::new(Reason::Value, &node.at, message, "write \"scheduled..rx_kernel\""));
                }
                metric => Value::Metrics(vec![metric]),
            },
            (Kind::Metric, _) => return Err(not("a metric in quotes", "write \"scheduled..rx_kernel\"")),
            (Kind::Numbers, Toml::List(items)) => Value::Numbers(
                items
                    .iter()
                    .map(|item| match item.value {
                        Toml::Integer(n) => within(key, item, n, (0, i64::from(u32::MAX)), |n| n.to_string()),
                        _ => Err(numbers(key, item)),
                    })
                    .map(|number| number.map(|n| n as u32))
                    .collect::<Result<_, _>>()?,
            ),
            (Kind::Numbers, _) => return Err(numbers(key, node)),
            (Kind::Limits, Toml::Text(text)) => Value::Limits(vec![limit(text).map_err(unit)?]),
            (Kind::Limits, Toml::List(items)) if !items.is_empty() => {
                Value::Limits(each(key, "limit", items, |text| limit(text).map_err(|wrong| (Reason::Value, wrong)))?)
            }
            (Kind::Limits, _) => return Err(not("a limit, or a list of limits", LIMIT)),
            (Kind::Buffer, Toml::Text(text)) if text == "default" => Value::Word,
            (Kind::Buffer, Toml::Text(text)) => {
                let show = |bytes: i64| format!("\"{bytes}B\"");
                Value::Integer(within(key, node, units::size(text).map_err(unit)?, spread::BUFFER, show)?)
            }
            (Kind::Buffer, _) => return Err(not("a size in quotes", "write \"128KiB\" or \"default\"")),
            (Kind::Rate, Toml::Text(text)) => {
                let show = |bits: i64| format!("\"{bits}bit\"");
                Value::Integer(within(key, node, spread::rate(text).map_err(unit)?, spread::RATE, show)?)
            }
            (Kind::Rate, _) => return Err(not("a rate in quotes", "write \"100Mbit\"")),
            (Kind::Spread { time }, Toml::Text(text)) => Value::Spread(spread::read(text, *time).map_err(unit)?),
            (Kind::Spread { time }, _) => return Err(not("a distribution in quotes", spread::example(*time))),
            (Kind::Words, Toml::List(items)) if !items.is_empty() => {
                Value::Words(items.iter().map(|item| spread::word(key, item)).collect::<Result<_, _>>()?)
            }
            (Kind::Words, _) => {
                return Err(not("a program with its arguments", "write [\"iperf3\", \"-c\", \"{to}\"]"));
            }
            (Kind::Classes { each_of }, _) => Value::Classes(schedule::classes(key, node, *each_of)?),
            (Kind::Queues, _) => Value::Queues(schedule::queues(key, node)?),
            (Kind::Entries, _) => Value::Entries(schedule::entries(key, node)?),
            (Kind::Limit, Toml::Text(text)) if !text.trim_end().ends_with('%') => {
                let span = units::duration(text).map_err(unit)?;
                let show = |ns: i64| format!("\"{}\"", show_duration(Nanos(ns)));
                Value::Span(Nanos(within(key, node, span.0, (1, LONGEST_LIMIT), show)?))
            }
            (Kind::Limit, _) => return Kind::Share.read(key, node),
        })
    }
}

fn quote(node: &Node) -> String {
    match node.value {
        Toml::List(_) | Toml::Table(_) => "it in quotes".to_owned(),
        _ => format!("\"{}\"", node.plain()),
    }
}

fn numbers(key: &str, node: &Node) -> Problem {
    let message = format!("`{key}` is {}; it must be a list of packet numbers", node.what());
    Problem::new(Reason::Value, &node.at, message, "write [100, 101]")
}

fn name(key: &str, text: &str, node: &Node) -> Result<String, Problem> {
    checked_name(text, 100, |c| c.is_ascii_alphanumeric() || "._-".contains(c))
        .map_err(|wrong| Problem::new(Reason::Value, &node.at, format!("`{key}`: {}", wrong.message), wrong.help))
}

/// What the kernel takes as a device's name (`dev_valid_name` in net/core/dev.c), but for characters that a shell or iproute2
/// would take apart.
fn device(key: &str, text: &str, node: &Node) -> Result<String, Problem> {
    let fits = (1..=LONGEST_DEVICE).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte))
        && !matches!(text.as_bytes()[0], b'-' | b'.');
    if fits {
        return Ok(text.to_owned());
    }
    let message = format!("`{key}`: \"{text}\" cannot be a network device's name");
    let help = format!("write a name as `ip link` shows it, at most {LONGEST_DEVICE} characters: \"enp1s0\"");
    Err(Problem::new(Reason::Value, &node.at, message, help))
}

/// A name that can be part of a file's name: begins with a letter or digit, holds only what `allowed` says.
pub(crate) fn checked_name(text: &str, longest: usize, allowed: impl Fn(char) -> bool) -> Result<String, Wrong> {
    let wrong = |message: String, help: String| Err(Wrong { message, help });
    if text.is_empty() {
        return wrong("the name is empty".into(), "write a name of letters, digits and `-`".into());
    }
    if text.chars().count() > longest {
        return wrong(format!("the name is longer than {longest} characters"), "write a shorter one".into());
    }
    let first = |c: char| c.is_ascii_alphanumeric() && allowed(c);
    if text.starts_with(first) && text.chars().all(&allowed) {
        return Ok(text.to_owned());
    }
    let mend = |c: char| [c, c.to_ascii_lowercase()].into_iter().find(|c| allowed(*c)).unwrap_or('-');
    let mended: String = text.chars().map(mend).collect();
    let mended = mended.trim_start_matches(|c| !first(c));
    let help = match mended {
        "" => "write a name of letters, digits and `-`".to_owned(),
        mended => format!("write `{mended}`"),
    };
    wrong(format!("`{text}` holds characters that a name cannot have, or begins with one"), help)
}

fn within(
    key: &str,
    node: &Node,
    number: i64,
    (min, max): (i64, i64),
    show: impl Fn(i64) -> String,
) -> Result<i64, Problem> {
    let got = show(number);
    let help = if number < min {
        format!("write at least {}", show(min))
    } else if number > max {
        format!("write at most {}", show(max))
    } else {
        return Ok(number);
    };
    Err(Problem::new(Reason::Value, &node.at, format!("`{key}` is {got}, out of its range"), help))
}

fn share(key: &str, node: &Node, share: f64) -> Result<f64, Problem> {
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    let help = "write a fraction 0 to 1, or a percentage \"0%\" to \"100%\"";
    Err(Problem::new(Reason::Value, &node.at, format!("`{key}` is {}, which is no share", node.plain()), help))
}

fn choice(key: &str, node: &Node, text: &str, built: &[&str], later: &[&str]) -> Result<String, Problem> {
    if built.contains(&text) {
        return Ok(text.to_owned());
    }
    if later.contains(&text) {
        let message = format!("`{key}`: `{text}` is not in this version");
        return Err(Problem::new(Reason::NotBuilt, &node.at, message, format!("it has: {}", built.join(", "))));
    }
    let help = near::mend(text, built.iter().copied());
    Err(Problem::new(Reason::Value, &node.at, format!("`{key}`: `{text}` is not known"), help))
}

fn cpu(key: &str, node: &Node, text: &str) -> Result<CpuChoice, Problem> {
    Ok(match text {
        "auto" => CpuChoice::Auto,
        "same" => CpuChoice::Same,
        "different" => CpuChoice::Different,
        "any" => CpuChoice::Any,
        _ => {
            let help = match text.parse::<u32>() {
                Ok(number) => format!("write {number} without quotes"),
                Err(_) => match near::nearest(text, ["auto", "same", "different", "any"]) {
                    Some(word) => format!("did you mean \"{word}\"?"),
                    None => "write \"auto\", \"same\", \"different\", \"any\" or a number".to_owned(),
                },
            };
            return Err(Problem::new(Reason::Value, &node.at, format!("`{key}`: \"{text}\" is not a CPU"), help));
        }
    })
}

fn policy(text: &str) -> Result<Policy, Wrong> {
    let wrong = |message: String, help: String| Wrong { message, help };
    let (name, rest) = match text.split_once(':') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    let priority = || match rest.map(str::parse::<u8>) {
        Some(Ok(priority @ 1..=99)) => Ok(priority),
        Some(_) => Err(wrong(format!("\"{text}\": the priority is not 1 to 99"), format!("write \"{name}:90\""))),
        None => Err(wrong(format!("\"{text}\" lacks its priority"), format!("write \"{name}:90\", 1 to 99"))),
    };
    match (name, rest) {
        ("other", None) => Ok(Policy::Other),
        ("other", Some(_)) => Err(wrong(format!("\"{text}\": other has no priority"), "write \"other\"".into())),
        ("fifo", _) => Ok(Policy::Fifo(priority()?)),
        ("rr", _) => Ok(Policy::Rr(priority()?)),
        ("deadline", _) => {
            let parts: Vec<&str> = rest.unwrap_or("").split('/').collect();
            let [runtime, deadline, period] = parts[..] else {
                return Err(wrong(format!("\"{text}\" lacks its times"), "write \"deadline:200us/1ms/1ms\"".into()));
            };
            let (runtime, deadline, period) =
                (units::duration(runtime)?, units::duration(deadline)?, units::duration(period)?);
            // The kernel's own least: `runtime >= 1 << DL_SCALE` in __checkparam_dl (kernel/sched/deadline.c).
            if runtime < Nanos(1 << 10) {
                let message = format!("\"{text}\": the runtime is below the kernel's least, 1024ns");
                return Err(wrong(message, "write \"deadline:200us/1ms/1ms\"".into()));
            }
            if runtime > deadline || deadline > period {
                let message = format!("\"{text}\" breaks runtime <= deadline <= period");
                return Err(wrong(message, "write \"deadline:200us/1ms/1ms\"".into()));
            }
            Ok(Policy::Deadline { runtime, deadline, period })
        }
        _ => Err(wrong(
            format!("\"{text}\" is not a scheduling policy"),
            match near::nearest(name, ["other", "fifo", "rr", "deadline"]) {
                Some(near) => format!("did you mean `{near}`? {POLICIES}"),
                None => POLICIES.to_owned(),
            },
        )),
    }
}

/// Reads a list of texts, none of them twice.
fn each<T: PartialEq>(
    key: &str,
    what: &str,
    items: &[Node],
    read: impl Fn(&str) -> Result<T, (Reason, Wrong)>,
) -> Result<Vec<T>, Problem> {
    let mut out = Vec::new();
    for item in items {
        let Toml::Text(text) = &item.value else {
            let message = format!("`{key}`: a {what} is text, this is {}", item.what());
            return Err(Problem::new(Reason::Value, &item.at, message, "write it in quotes"));
        };
        let value = read(text).map_err(|(reason, wrong)| {
            Problem::new(reason, &item.at, format!("`{key}`: {}", wrong.message), wrong.help)
        })?;
        if out.contains(&value) {
            let message = format!("`{key}`: \"{text}\" stands there twice");
            return Err(Problem::new(Reason::Value, &item.at, message, "leave one of the two out"));
        }
        out.push(value);
    }
    Ok(out)
}

fn point(text: &str) -> Result<Point, (Reason, Wrong)> {
    let names = Point::ALL.map(Point::name);
    match text.parse::<Point>() {
        Ok(Point::Scheduled) => Err((
            Reason::Value,
            Wrong {
                message: "`scheduled` is the schedule itself and needs no stamp".into(),
                help: "leave it out".into(),
            },
        )),
        Ok(Point::RxXdp) => Err((
            Reason::NotBuilt,
            Wrong { message: "`rx_xdp` is not in this version".into(), help: "stamp `rx_kernel`".into() },
        )),
        Ok(point) => Ok(point),
        Err(message) => Err((Reason::Value, Wrong { message, help: near::mend(text, names) })),
    }
}

/// Reads a metric's name.
pub(crate) fn metric(text: &str) -> Result<Metric, Wrong> {
    let names = Point::ALL.map(Point::name);
    text.parse::<Metric>().map_err(|message| {
        let help = match text.split_once("..") {
            None if near::nearest(text, ["delta"]).is_some() => "did you mean `delta`?".to_owned(),
            None if near::nearest(text, ["transit"]).is_some() => "did you mean `transit`?".to_owned(),
            None => "write \"scheduled..rx_kernel\" or \"delta\"".to_owned(),
            Some((a, b)) => match (a.parse::<Point>(), b.parse::<Point>()) {
                (Ok(a), Ok(b)) if a == b => "name two different points".to_owned(),
                (Ok(a), Ok(b)) => format!("write \"{b}..{a}\""),
                _ => {
                    let near = |part| near::nearest(part, names);
                    match (near(a), near(b)) {
                        (Some(a), Some(b)) => format!("did you mean `{a}..{b}`?"),
                        _ => format!("points: {}", near::list(names)),
                    }
                }
            },
        };
        Wrong { message, help }
    })
}

fn limit(text: &str) -> Result<(Of, i64, bool), Wrong> {
    let wrong = |message: String, help: String| Wrong { message, help };
    let Some(at) = text.find(['<', '>', '=', '≤']) else {
        return Err(wrong(format!("\"{text}\" is not a limit"), LIMIT.into()));
    };
    let (figure, rest) = text.split_at(at);
    let figure = figure.trim();
    let (inclusive, span) = match (rest.strip_prefix("<="), rest.strip_prefix('<')) {
        (Some(span), _) => (true, span),
        (None, Some(span)) => (false, span),
        _ => return Err(wrong(format!("\"{text}\": a limit is an upper one, < or <="), LIMIT.into())),
    };
    let of = match figure {
        "min" => Of::Min,
        "mean" => Of::Mean,
        "stddev" => Of::Stddev,
        "max" => Of::Max,
        _ => match QUANTILES.iter().position(|quantile| quantile.1 == figure) {
            Some(index) => Of::Quantile(index),
            None => {
                let known = || ["min", "mean", "stddev", "max"].into_iter().chain(QUANTILES.iter().map(|q| q.1));
                let help = format!("known here: {}", near::list(known()));
                return Err(wrong(format!("\"{text}\": `{figure}` is not a figure"), help));
            }
        },
    };
    Ok((of, units::duration(span.trim())?.0, inclusive))
}
