// SPDX-License-Identifier: MIT OR Apache-2.0
//! One key of the experiment file: its pattern, the kind of its value, its default and its meaning;
//! and how a text of each kind is read.

use crate::error::Reason;
use crate::schema::units::{self, Wrong, show_duration};
use crate::synonyms;
use crate::tree::{Node, Toml};
use tardy_model::expect::{Of, QUANTILES};
use tardy_model::load::Distribution;
use tardy_model::point::{Metric, Point};
use tardy_model::shaper::{Entry, Queues};
use tardy_model::stream::{CpuChoice, Policy};
use tardy_model::time::Nanos;

/// A key that an experiment file may have.
#[derive(Debug)]
pub struct Key {
    /// Dotted; `*` matches a name that the user gives.
    pub pattern: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What it is if left out.
    pub default: Default,
    /// What it means, in one line.
    pub doc: &'static str,
    /// It belongs to the whole experiment: no case and no axis may set it.
    pub whole: bool,
    /// The key next to it that sets the same in another way; a file may have one of the two.
    pub rival: Option<&'static str>,
}

/// What a key is if left out.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// It must be there.
    Required,
    /// Nothing, or what the text describes.
    None(&'static str),
    /// Text, as it would be written.
    Text(&'static str),
    /// A whole number, in the key's own unit.
    Integer(i64),
    /// A share of all, 0 to 1.
    Float(f64),
    /// Whether a switch is on.
    Flag(bool),
    /// A list of texts.
    List(&'static [&'static str]),
}

impl Default {
    /// The default as a file would have it; `None` if there is none.
    pub(crate) fn node(self) -> Option<Node> {
        Some(Node::default(match self {
            Default::Required | Default::None(_) => return None,
            Default::Text(text) => Toml::Text(text.to_owned()),
            Default::Integer(number) => Toml::Integer(number),
            Default::Float(number) => Toml::Float(number),
            Default::Flag(flag) => Toml::Flag(flag),
            Default::List(items) => {
                Toml::List(items.iter().map(|item| Node::default(Toml::Text((*item).to_owned()))).collect())
            }
        }))
    }
}

impl Key {
    pub(crate) const fn new(pattern: &'static str, kind: Kind, default: Default, doc: &'static str) -> Key {
        Key { pattern, kind, default, doc, whole: false, rival: None }
    }

    pub(crate) const fn whole(mut self) -> Key {
        self.whole = true;
        self
    }

    pub(crate) const fn rival(mut self, rival: &'static str) -> Key {
        self.rival = Some(rival);
        self
    }

    /// What is between the dots of the pattern.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static str> {
        self.pattern.split('.')
    }

    /// The dotted key of the rival of `key`, an instance of this pattern.
    pub(crate) fn rival_of(&self, key: &str) -> Option<String> {
        let (table, _) = key.rsplit_once('.')?;
        self.rival.map(|rival| format!("{table}.{rival}"))
    }
}

/// What a key's value is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A name of letters, digits, `.`, `_` and `-`.
    Name,
    /// The name of a station of the same file.
    Word,
    /// A network device's name.
    Device,
    /// A machine, as OpenSSH's client takes it.
    Ssh,
    /// An object file of the user's, and a section in it.
    Object,
    /// A whole number within these bounds, which are allowed too.
    Integer { min: i64, max: i64 },
    /// A span of time with its unit, within these bounds.
    Duration {
        min_ns: i64,
        max_ns: i64,
        /// A word that may replace it.
        word: Option<&'static str>,
    },
    /// The time from one to the next of what is repeated: a span of time, or how often a second.
    Cycle { min_ns: i64, max_ns: i64 },
    /// A size with its unit, within these bounds, bytes.
    Size { min: i64, max: i64 },
    /// A share of all: a percentage with `%`, or a fraction 0 to 1.
    Share,
    /// `true` or `false`, not in quotes.
    Flag,
    /// One of several words.
    Choice { built: &'static [&'static str] },
    /// The number of a CPU, or a word for how it is chosen.
    Cpu,
    /// A scheduling policy, with its parameters.
    Policy,
    /// A list of points.
    Points {
        /// A word that may replace it.
        word: &'static str,
    },
    /// A list of metrics.
    Metrics {
        /// A word that may replace it.
        word: &'static str,
    },
    /// One metric, but for `delta`, whose blocks say nothing of repeatability.
    Metric,
    /// A list of some of these words, each at most once.
    Several {
        /// The words that there are.
        of: &'static [&'static str],
    },
    /// A list of packet numbers.
    Numbers,
    /// One limit of a metric, or a list of them.
    Limits,
    /// The size of a socket's buffer, or `default`.
    Buffer,
    /// Bits a second, with a unit.
    Rate,
    /// A distribution, of times or of sizes.
    Spread {
        /// True for times, false for sizes.
        time: bool,
    },
    /// A list of texts: a program and its arguments.
    Words,
    /// A list of traffic classes.
    Classes {
        /// The class of each of this number of priorities.
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
    /// The word that replaces a value.
    Word,
}

/// Highest CPU number that a Linux kernel can be built for.
pub(super) const LAST_CPU: i64 = 8191;
/// IFNAMSIZ − 1: the longest name of a device, bytes.
pub(super) const LONGEST_DEVICE: usize = 15;
/// PATH_MAX: the longest path, bytes.
pub(super) const LONGEST_PATH: usize = 4_096;
/// A limit of a rule is shorter than any trial of use: an hour, ns.
pub(super) const LONGEST_LIMIT: i64 = 3_600_000_000_000;
pub(super) const POLICIES: &str = "write other, fifo:90, rr:50 or deadline:200us/1ms/1ms";
pub(super) const LIMIT: &str = "write \"p99.9 < 80us\"";

impl Kind {
    /// True of a list each entry of which is right or wrong by itself.
    pub(crate) fn reads_items_alone(&self) -> bool {
        matches!(
            self,
            Kind::Points { .. }
                | Kind::Metrics { .. }
                | Kind::Several { .. }
                | Kind::Numbers
                | Kind::Limits
                | Kind::Words
                | Kind::Classes { each_of: None }
                | Kind::Queues
                | Kind::Entries
        )
    }

    /// A value as it is kept: a rate as its cycle, so that a file that sets the same twice is
    /// noticed.
    pub(crate) fn plain(&self, node: &Node, value: &Value) -> Node {
        match (self, value) {
            (Kind::Cycle { .. }, Value::Span(span)) if node.plain().ends_with("Hz") => {
                Node { value: Toml::Text(show_duration(*span)), at: node.at.clone() }
            }
            _ => node.clone(),
        }
    }
}

/// A name that can be part of a file's name: begins with a letter or digit, contains only what
/// `allowed` accepts.
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
    let fixed = |c: char| [c, c.to_ascii_lowercase()].into_iter().find(|c| allowed(*c)).unwrap_or('-');
    let allowed_only: String = text.chars().map(fixed).collect();
    let allowed_only = allowed_only.trim_start_matches(|c| !first(c));
    let help = match allowed_only {
        "" => "write a name of letters, digits and `-`".to_owned(),
        allowed_only => format!("write `{allowed_only}`"),
    };
    wrong(format!("`{text}` holds characters that a name cannot have, or begins with one"), help)
}

pub(super) fn policy(text: &str) -> Result<Policy, Wrong> {
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
            // The kernel's lower limit: `runtime >= 1 << DL_SCALE` in __checkparam_dl
            // (kernel/sched/deadline.c).
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
            match (synonyms::of_policy(text), synonyms::nearest(name, ["other", "fifo", "rr", "deadline"])) {
                (Some(help), _) => help,
                (None, Some(near)) => format!("did you mean `{near}`? {POLICIES}"),
                (None, None) => POLICIES.to_owned(),
            },
        )),
    }
}

pub(super) fn point(text: &str) -> Result<Point, (Reason, Wrong)> {
    let names = Point::OF_PACKETS.map(Point::name);
    match text.parse::<Point>() {
        Ok(Point::Scheduled) => Err((
            Reason::Value,
            Wrong {
                message: "`scheduled` is the schedule itself and needs no stamp".into(),
                help: "leave it out".into(),
            },
        )),
        Ok(point) if point.is_of_copy() => Err((
            Reason::Value,
            Wrong {
                message: format!("`{point}` is of a copying thread, and no packet has it"),
                help: "leave it out; a copy is an experiment of its own, kind = \"copy\"".into(),
            },
        )),
        Ok(point) => Ok(point),
        Err(message) => Err((Reason::Value, Wrong { message, help: synonyms::suggestion(text, names) })),
    }
}

/// How to fix a text that is no metric: the one that it most likely was, or what there is. `None`
/// for a metric.
pub fn metric_meant(text: &str) -> Option<String> {
    metric(text).err().map(|wrong| wrong.help)
}

/// Reads a metric's name.
pub(crate) fn metric(text: &str) -> Result<Metric, Wrong> {
    let names = Point::OF_PACKETS.map(Point::name);
    text.parse::<Metric>().map_err(|message| {
        let help = match text.split_once("..") {
            None if synonyms::nearest(text, ["delta"]).is_some() => "did you mean `delta`?".to_owned(),
            None if synonyms::nearest(text, ["transit"]).is_some() => "did you mean `transit`?".to_owned(),
            None => "write \"scheduled..rx_kernel\" or \"delta\"".to_owned(),
            Some((a, b)) => match (a.parse::<Point>(), b.parse::<Point>()) {
                (Ok(a), Ok(b)) if a == b => "name two different points".to_owned(),
                (Ok(a), Ok(b)) => format!("write \"{b}..{a}\""),
                _ => {
                    let near = |part| synonyms::nearest(part, names);
                    match (near(a), near(b)) {
                        (Some(a), Some(b)) => format!("did you mean `{a}..{b}`?"),
                        _ => format!("points: {}", synonyms::list(names)),
                    }
                }
            },
        };
        Wrong { message, help }
    })
}

pub(super) fn limit(text: &str) -> Result<(Of, i64, bool), Wrong> {
    let wrong = |message: String, help: String| Wrong { message, help };
    let Some(at) = text.find(['<', '>', '=', '≤']) else {
        return Err(match limit_meant(text) {
            Some(help) => wrong(format!("\"{text}\" is not a limit: it has no `<`"), help),
            None => wrong(format!("\"{text}\" is not a limit"), LIMIT.into()),
        });
    };
    let (figure, rest) = text.split_at(at);
    let figure = figure.trim();
    let (inclusive, span) = match (rest.strip_prefix("<="), rest.strip_prefix('<')) {
        (Some(span), _) => (true, span),
        (None, Some(span)) => (false, span),
        _ => {
            let help = limit_meant(text).unwrap_or_else(|| LIMIT.into());
            return Err(wrong(format!("\"{text}\": a limit is an upper one, < or <="), help));
        }
    };
    let Some(of) = figure_called(figure) else {
        let known = || MOMENTS.iter().map(|of| of.0).chain(QUANTILES.iter().map(|q| q.1));
        if let (true, Some(help)) = (figure.is_empty(), limit_meant(text)) {
            return Err(wrong(format!("\"{text}\" names no figure"), help));
        }
        let help = match synonyms::of_figure(figure) {
            Some(figure) => format!("write {figure}"),
            None => format!("known here: {}", synonyms::list(known())),
        };
        return Err(wrong(format!("\"{text}\": `{figure}` is not a figure"), help));
    };
    Ok((of, units::duration(span.trim())?.0, inclusive))
}

const MOMENTS: [(&str, Of); 4] = [("min", Of::Min), ("mean", Of::Mean), ("stddev", Of::Stddev), ("max", Of::Max)];

/// The figure of this name, as a limit has it.
pub(crate) fn figure_called(name: &str) -> Option<Of> {
    let quantile = || QUANTILES.iter().position(|quantile| quantile.1 == name).map(Of::Quantile);
    MOMENTS.iter().find(|of| of.0 == name).map(|of| of.1).or_else(quantile)
}

/// Words that stand for the sign of a limit.
const BELOW: [&str; 7] = ["below", "under", "within", "less", "than", "at", "most"];

/// How to write a limit of which the figure, the time or both are there: `p99 300us`, `300us`,
/// `p99 below 300us`.
pub(crate) fn limit_meant(text: &str) -> Option<String> {
    let is_time = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && units::duration(word).is_ok();
    let signs = |c: char| c.is_whitespace() || "<>=≤≥:,".contains(c);
    let words: Vec<&str> = text.split(signs).filter(|word| !word.is_empty() && !BELOW.contains(word)).take(3).collect();
    let (figure, time) = match words[..] {
        [time] if is_time(time) => ("p99", time),
        [figure, time] if is_time(time) => (figure, time),
        _ => return None,
    };
    let figure = if figure_called(figure).is_some() { figure } else { synonyms::of_figure(figure)? };
    Some(format!("write \"{figure} < {time}\""))
}
