// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value as it is written in the file: how one of each kind is read, and the message when it is
//! wrong.

use super::parts;
use super::units::{self, Wrong, show_duration};
use crate::error::{Problem, Reason};
use crate::experiment::Remote;
use crate::schema::key::{
    Kind, LAST_CPU, LIMIT, LONGEST_DEVICE, LONGEST_LIMIT, LONGEST_PATH, POLICIES, Value, checked_name, limit, metric,
    point, policy,
};
use crate::synonyms;
use crate::tree::{Node, Toml};
use tardy_model::point::Metric;
use tardy_model::stream::CpuChoice;
use tardy_model::time::Nanos;
use tardy_model::xdp::XdpObject;

impl Kind {
    /// Reads the value of `key`.
    pub(crate) fn read(&self, key: &str, node: &Node) -> Result<Value, Problem> {
        let written = Written { key, node };
        Ok(match *self {
            Kind::Name => Value::Text(written.name()?),
            Kind::Word => Value::Text(written.name_like()?.to_owned()),
            Kind::Device => Value::Text(written.device()?),
            Kind::Ssh => Value::Text(written.ssh()?),
            Kind::Object => Value::Text(written.object()?),
            Kind::Integer { min, max } => Value::Integer(written.integer(min, max)?),
            Kind::Duration { min_ns, max_ns, word } => written.duration(min_ns, max_ns, word)?,
            Kind::Cycle { min_ns, max_ns } => written.cycle(min_ns, max_ns)?,
            Kind::Size { min, max } => Value::Integer(written.size(min, max)?),
            Kind::Share => Value::Share(written.share()?),
            Kind::Flag => Value::Flag(written.flag()?),
            Kind::Choice { built } => Value::Text(written.choice(built)?),
            Kind::Cpu => Value::Cpu(written.cpu()?),
            Kind::Policy => Value::Policy(written.policy()?),
            Kind::Points { word } => written.points(word)?,
            Kind::Metrics { word } => written.metrics(word)?,
            Kind::Metric => Value::Metrics(vec![written.metric()?]),
            Kind::Several { of } => Value::Words(written.several(of)?),
            Kind::Numbers => Value::Numbers(written.numbers()?),
            Kind::Limits => written.limits()?,
            Kind::Buffer => written.buffer()?,
            Kind::Rate => Value::Integer(written.rate()?),
            Kind::Spread { time } => written.spread(time)?,
            Kind::Words => Value::Words(written.words()?),
            Kind::Classes { each_of } => Value::Classes(parts::classes(key, node, each_of)?),
            Kind::Queues => Value::Queues(parts::queues(key, node)?),
            Kind::Entries => Value::Entries(parts::entries(key, node)?),
            Kind::Limit => written.limit()?,
        })
    }
}

/// A value and its key.
#[derive(Clone, Copy)]
struct Written<'w> {
    key: &'w str,
    node: &'w Node,
}

/// What is wrong with it, and how to fix it.
impl<'w> Written<'w> {
    fn wrong(self, message: String, help: impl Into<String>) -> Problem {
        Problem::new(Reason::Value, &self.node.at, message, help)
    }

    /// It is not what it must be.
    fn not(self, wants: &str, help: &str) -> Problem {
        self.wrong(format!("`{}` is {}; it must be {wants}", self.key, self.node.what()), help)
    }

    /// Its text is wrong.
    fn of_text(self, wrong: Wrong) -> Problem {
        self.wrong(format!("`{}`: {}", self.key, wrong.message), wrong.help)
    }

    /// The number, if it is one of these.
    fn within(self, number: i64, (min, max): (i64, i64), show: impl Fn(i64) -> String) -> Result<i64, Problem> {
        let help = if number < min {
            format!("write at least {}", show(min))
        } else if number > max {
            format!("write at most {}", show(max))
        } else {
            return Ok(number);
        };
        // Whoever writes 80 there means a thread's.
        let help = match self.key.ends_with(".priority") {
            true => format!(
                "{help}, the packets' SO_PRIORITY; a thread's priority is in its policy: tx.policy = \"fifo:80\""
            ),
            false => help,
        };
        // As it was written, so that its author finds it.
        let written = match &self.node.value {
            Toml::Text(text) => format!("\"{text}\""),
            _ => show(number),
        };
        Err(self.wrong(format!("`{}` is {written}, out of its range", self.key), help))
    }

    /// Its items as texts, each read by `read`, none of them twice.
    fn each<T: PartialEq>(
        self,
        what: &str,
        items: &[Node],
        read: impl Fn(&str) -> Result<T, (Reason, Wrong)>,
    ) -> Result<Vec<T>, Problem> {
        let mut out = Vec::new();
        for item in items {
            let at = Written { node: item, ..self };
            let Toml::Text(text) = &item.value else {
                let message = format!("`{}`: a {what} is text, this is {}", self.key, item.what());
                return Err(at.wrong(message, "write it in quotes"));
            };
            let value = read(text).map_err(|(reason, wrong)| {
                Problem::new(reason, &item.at, format!("`{}`: {}", self.key, wrong.message), wrong.help)
            })?;
            if out.contains(&value) {
                let message = format!("`{}`: \"{text}\" is there twice", self.key);
                return Err(at.wrong(message, "leave one of the two out"));
            }
            out.push(value);
        }
        Ok(out)
    }
}

/// Values that are names or words.
impl<'w> Written<'w> {
    /// A text that is a name of some sort.
    fn name_like(self) -> Result<&'w str, Problem> {
        let quoted = || match self.node.value {
            Toml::List(_) | Toml::Table(_) => "it in quotes".to_owned(),
            _ => format!("\"{}\"", self.node.plain()),
        };
        match &self.node.value {
            Toml::Text(text) => Ok(text),
            _ => Err(self.not("text", &format!("write {}", quoted()))),
        }
    }

    fn name(self) -> Result<String, Problem> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        checked_name(self.name_like()?, 100, allowed).map_err(|wrong| self.of_text(wrong))
    }

    /// What the kernel takes as a device's name (`dev_valid_name` in net/core/dev.c), but for
    /// characters that a shell or iproute2 would take apart.
    fn device(self) -> Result<String, Problem> {
        let text = self.name_like()?;
        let fits = (1..=LONGEST_DEVICE).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte))
            && !matches!(text.as_bytes()[0], b'-' | b'.');
        if fits {
            return Ok(text.to_owned());
        }
        let message = format!("`{}`: \"{text}\" cannot be a network device's name", self.key);
        let help = format!("write a name as `ip link` shows it, at most {LONGEST_DEVICE} characters: \"enp1s0\"");
        Err(self.wrong(message, help))
    }

    /// What OpenSSH's client takes for a machine.
    fn ssh(self) -> Result<String, Problem> {
        let help = "write it as for `ssh`: \"lab2\", \"root@lab2\" or \"ssh://root@lab2:2222\"";
        let Toml::Text(text) = &self.node.value else { return Err(self.not("a machine", help)) };
        if Remote::is_called(text) {
            return Ok(text.clone());
        }
        Err(self.wrong(format!("`{}`: \"{text}\" cannot be a machine that is reached over ssh", self.key), help))
    }

    fn object(self) -> Result<String, Problem> {
        let help = "write the object file that clang made: \"own_hints.o\", or \"own_hints.o:xdp\" with its section";
        let Toml::Text(text) = &self.node.value else { return Err(self.not("a file", help)) };
        let object = XdpObject::of(text);
        let is_name = |name: &str| !name.is_empty() && !name.ends_with('@');
        let is_whole = is_name(&object.file) && object.section.as_deref().is_none_or(is_name);
        if is_whole && text.len() <= LONGEST_PATH && !text.contains(char::is_control) {
            return Ok(text.clone());
        }
        Err(self.wrong(
            format!(
                "`{}`: \"{text}\" cannot be the path of a file, with a section and with members behind `@`",
                self.key
            ),
            help,
        ))
    }

    fn flag(self) -> Result<bool, Problem> {
        match self.node.value {
            Toml::Flag(flag) => Ok(flag),
            _ => Err(self.not("true or false", "write true or false, without quotes")),
        }
    }

    fn choice(self, built: &[&str]) -> Result<String, Problem> {
        let Toml::Text(text) = &self.node.value else {
            return Err(self.not("a word", &format!("write one of: \"{}\"", built.join("\", \""))));
        };
        if built.contains(&text.as_str()) {
            return Ok(text.clone());
        }
        let help =
            synonyms::of_value(self.key, text).unwrap_or_else(|| synonyms::suggestion(text, built.iter().copied()));
        Err(self.wrong(format!("`{}`: `{text}` is not known", self.key), help))
    }

    fn cpu(self) -> Result<CpuChoice, Problem> {
        let text = match &self.node.value {
            Toml::Text(text) => text.as_str(),
            Toml::Integer(number) => {
                let number = self.within(*number, (0, LAST_CPU), |n| n.to_string())?;
                return Ok(CpuChoice::Number(number as u32));
            }
            _ => return Err(self.not("a CPU", "write \"auto\", \"same\", \"different\", \"any\" or a number")),
        };
        Ok(match text {
            "auto" => CpuChoice::Auto,
            "same" => CpuChoice::Same,
            "different" => CpuChoice::Different,
            "any" => CpuChoice::Any,
            _ => {
                let help = match text.parse::<u32>() {
                    Ok(number) => format!("write {number} without quotes"),
                    Err(_) => match synonyms::nearest(text, ["auto", "same", "different", "any"]) {
                        Some(word) => format!("did you mean \"{word}\"?"),
                        None => "write \"auto\", \"same\", \"different\", \"any\" or a number".to_owned(),
                    },
                };
                return Err(self.wrong(format!("`{}`: \"{text}\" is not a CPU", self.key), help));
            }
        })
    }

    fn policy(self) -> Result<tardy_model::stream::Policy, Problem> {
        match &self.node.value {
            Toml::Text(text) => policy(text).map_err(|wrong| self.of_text(wrong)),
            Toml::Integer(_) => {
                let help = synonyms::of_policy(&self.node.plain());
                Err(self.not("a scheduling policy", help.as_deref().unwrap_or(POLICIES)))
            }
            _ => Err(self.not("a scheduling policy", POLICIES)),
        }
    }
}

/// Numbers, with a unit and without.
impl<'w> Written<'w> {
    fn integer(self, min: i64, max: i64) -> Result<i64, Problem> {
        match &self.node.value {
            Toml::Integer(number) => self.within(*number, (min, max), |n| n.to_string()),
            Toml::Text(text) if text.replace('_', "").parse::<i64>().is_ok() => {
                Err(self.not("a whole number", &format!("write {text} without quotes")))
            }
            // TOML has 2e3 for a number with a fraction.
            Toml::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => {
                Err(self.not("a whole number", &format!("write {}", *number as i64)))
            }
            Toml::Text(text) => match units::in_full(text, min, max) {
                Some(number) => Err(self.not("a whole number", &format!("write {number}"))),
                None => Err(self.not("a whole number", &format!("write a number, from {min}"))),
            },
            _ => Err(self.not("a whole number", &format!("write a number, from {min}"))),
        }
    }

    /// A span of time, out of its text.
    fn span(self, text: &str, range: (i64, i64)) -> Result<Value, Problem> {
        self.of_length(units::duration(text), range)
    }

    fn of_length(self, read: Result<Nanos, Wrong>, range: (i64, i64)) -> Result<Value, Problem> {
        let span = read.map_err(|wrong| self.of_text(wrong))?;
        let show = |ns: i64| format!("\"{}\"", show_duration(Nanos(ns)));
        Ok(Value::Span(Nanos(self.within(span.0, range, show)?)))
    }

    /// A span of time, or how often a second.
    fn cycle(self, min_ns: i64, max_ns: i64) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) => self.of_length(units::cycle(text), (min_ns, max_ns)),
            Toml::Integer(_) | Toml::Float(_) => Err(self.no_unit(units::CYCLE_UNITS)),
            _ => Err(self.not("a duration in quotes", "write \"500us\"")),
        }
    }

    /// It is a number alone, where a length of time is needed.
    fn no_unit(self, units: &str) -> Problem {
        let help = format!("add one, in quotes, as in \"{}us\": {units}", self.node.plain());
        self.wrong(format!("`{}` is a duration and needs a unit", self.key), help)
    }

    fn duration(self, min_ns: i64, max_ns: i64, word: Option<&str>) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) if word == Some(text.as_str()) => Ok(Value::Word),
            Toml::Text(text) => self.span(text, (min_ns, max_ns)),
            Toml::Integer(_) | Toml::Float(_) => Err(self.no_unit(units::TIME_UNITS)),
            _ => Err(self.not("a duration in quotes", "write \"500us\"")),
        }
    }

    /// Bytes, out of their text.
    fn bytes(self, text: &str, range: (i64, i64)) -> Result<i64, Problem> {
        let bytes = units::size(text).map_err(|wrong| self.of_text(wrong))?;
        self.within(bytes, range, |bytes| format!("\"{bytes}B\""))
    }

    fn size(self, min: i64, max: i64) -> Result<i64, Problem> {
        match &self.node.value {
            Toml::Text(text) => self.bytes(text, (min, max)),
            Toml::Integer(_) | Toml::Float(_) => {
                let help = format!("write \"{}B\"; units: {}", self.node.plain(), units::SIZE_UNITS);
                Err(self.wrong(format!("`{}` is a size and needs a unit", self.key), help))
            }
            _ => Err(self.not("a size in quotes", "write \"64B\"")),
        }
    }

    fn buffer(self) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) if text == "default" => Ok(Value::Word),
            Toml::Text(text) => Ok(Value::Integer(self.bytes(text, parts::BUFFER)?)),
            _ => Err(self.not("a size in quotes", "write \"128KiB\" or \"default\"")),
        }
    }

    fn rate(self) -> Result<i64, Problem> {
        let Toml::Text(text) = &self.node.value else {
            return Err(self.not("a rate in quotes", "write \"100Mbit\""));
        };
        let rate = parts::rate(text).map_err(|wrong| self.of_text(wrong))?;
        self.within(rate, parts::RATE, |bits| format!("\"{bits}bit\""))
    }

    fn spread(self, time: bool) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) => Ok(Value::Spread(parts::read(text, time).map_err(|wrong| self.of_text(wrong))?)),
            _ => Err(self.not("a distribution in quotes", parts::example(time))),
        }
    }

    fn share(self) -> Result<f64, Problem> {
        let share = match &self.node.value {
            Toml::Text(text) => units::percent(text).map_err(|wrong| self.of_text(wrong))?,
            Toml::Float(number) => *number,
            Toml::Integer(number) => *number as f64,
            _ => return Err(self.not("a share", "write a percentage \"0.1%\" or a fraction 0.001")),
        };
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        let help = "write a fraction 0 to 1, or a percentage \"0%\" to \"100%\"";
        Err(self.wrong(format!("`{}` is {}, which is no share", self.key, self.node.plain()), help))
    }

    /// The limit of a rule of validity.
    fn limit(self) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) if !text.trim_end().ends_with('%') => self.span(text, (1, LONGEST_LIMIT)),
            _ => Ok(Value::Share(self.share()?)),
        }
    }
}

/// Values that are lists, read item by item.
impl<'w> Written<'w> {
    fn points(self, word: &str) -> Result<Value, Problem> {
        match &self.node.value {
            Toml::Text(text) if text == word => Ok(Value::Word),
            Toml::List(items) => Ok(Value::Points(self.each("point", items, point)?)),
            _ => {
                let help = format!("write [\"tx_kernel\", \"rx_kernel\"], or \"{word}\"");
                Err(self.not("a list of points", &help))
            }
        }
    }

    fn metrics(self, word: &str) -> Result<Value, Problem> {
        let read = |text: &str| metric(text).map_err(|wrong| (Reason::Value, wrong));
        match &self.node.value {
            Toml::Text(text) if text == word => Ok(Value::Word),
            Toml::List(items) => Ok(Value::Metrics(self.each("metric", items, read)?)),
            _ => {
                let help = format!("write [\"scheduled..rx_kernel\", \"delta\"], or \"{word}\"");
                Err(self.not("a list of metrics", &help))
            }
        }
    }

    fn metric(self) -> Result<Metric, Problem> {
        let Toml::Text(text) = &self.node.value else {
            return Err(self.not("a metric in quotes", "write \"scheduled..rx_kernel\""));
        };
        match metric(text).map_err(|wrong| self.of_text(wrong))? {
            Metric::Delta => {
                Err(self.wrong(format!("`{}`: `delta` is no latency", self.key), "write \"scheduled..rx_kernel\""))
            }
            metric => Ok(metric),
        }
    }

    fn several(self, of: &[&'static str]) -> Result<Vec<String>, Problem> {
        let Toml::List(items) = &self.node.value else {
            return Err(self.not("a list of words", &format!("write [\"{}\"], or some of them", of.join("\", \""))));
        };
        let read = |text: &str| match of.contains(&text) {
            true => Ok(text.to_owned()),
            false => {
                let message = format!("there is no `{text}` here");
                let help = synonyms::suggestion(text, of.iter().copied());
                Err((Reason::Value, Wrong { message, help }))
            }
        };
        self.each("word", items, read)
    }

    fn numbers(self) -> Result<Vec<u32>, Problem> {
        let not = |of: Written<'_>| of.not("a list of packet numbers", "write [100, 101]");
        let Toml::List(items) = &self.node.value else { return Err(not(self)) };
        let number = |item| {
            let at = Written { node: item, ..self };
            let Toml::Integer(number) = item.value else { return Err(not(at)) };
            Ok(at.within(number, (0, i64::from(u32::MAX)), |n| n.to_string())? as u32)
        };
        items.iter().map(number).collect()
    }

    fn limits(self) -> Result<Value, Problem> {
        let read = |text: &str| limit(text).map_err(|wrong| (Reason::Value, wrong));
        match &self.node.value {
            Toml::Text(text) => Ok(Value::Limits(vec![limit(text).map_err(|wrong| self.of_text(wrong))?])),
            Toml::List(items) if !items.is_empty() => Ok(Value::Limits(self.each("limit", items, read)?)),
            _ => Err(self.not("a limit, or a list of limits", LIMIT)),
        }
    }

    fn words(self) -> Result<Vec<String>, Problem> {
        match &self.node.value {
            Toml::List(items) if !items.is_empty() => items.iter().map(|item| parts::word(self.key, item)).collect(),
            _ => Err(self.not("a program with its arguments", "write [\"iperf3\", \"-c\", \"{to}\"]")),
        }
    }
}
