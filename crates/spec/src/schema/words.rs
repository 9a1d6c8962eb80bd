// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of values and defaults in words, for the reference.

use super::units::{SIZE_UNITS, TIME_UNITS};
use super::{Default, Kind, show_duration, spread};
use tardy_model::time::Nanos;

impl Kind {
    /// What may be written, with units and range.
    pub fn words(&self) -> String {
        match self {
            Kind::Name => "a name of letters, digits, `.`, `_` and `-`".to_owned(),
            Kind::Word => "a station's name".to_owned(),
            Kind::Integer { min, max } if *max == i64::MAX => format!("a whole number, from {min}"),
            Kind::Integer { min, max } => format!("a whole number, {min} to {max}"),
            Kind::Duration { min_ns, max_ns, word } => {
                let (min, max) = (show_duration(Nanos(*min_ns)), show_duration(Nanos(*max_ns)));
                let word = word.map(|word| format!("`\"{word}\"`, or ")).unwrap_or_default();
                format!("{word}a duration in {TIME_UNITS}, `\"{min}\"` to `\"{max}\"`")
            }
            Kind::Cycle { min_ns, max_ns } => {
                let (min, max) = (show_duration(Nanos(*min_ns)), show_duration(Nanos(*max_ns)));
                format!("a duration in {TIME_UNITS}, `\"{min}\"` to `\"{max}\"`, or a rate in Hz, kHz, MHz, GHz")
            }
            Kind::Size { min, max } => format!("a size in {SIZE_UNITS}, `\"{min}B\"` to `\"{max}B\"`"),
            Kind::Share => "a share: `\"0.1%\"` or `0.001`".to_owned(),
            Kind::Flag => "`true` or `false`".to_owned(),
            Kind::Choice { built, .. } => format!("`\"{}\"`", built.join("\"`, `\"")),
            Kind::Device => "a network device's name".to_owned(),
            Kind::Cpu => "`\"auto\"`, `\"same\"`, `\"different\"`, `\"any\"` or a CPU's number".to_owned(),
            Kind::Policy => {
                "`\"other\"`, `\"fifo:90\"`, `\"rr:50\"` (priority 1 to 99) or `\"deadline:200us/1ms/1ms\"`".to_owned()
            }
            Kind::Points { word } => format!("`\"{word}\"`, or a list of points"),
            Kind::Metrics { word } => format!("`\"{word}\"`, or a list of metrics"),
            Kind::Metric => "a metric's name, but for `delta`".to_owned(),
            Kind::Numbers => "a list of packet numbers".to_owned(),
            Kind::Buffer => format!("`\"default\"`, or a size in {SIZE_UNITS}, `\"{}B\"` to `\"{}B\"`", spread::BUFFER.0, spread::BUFFER.1),
            Kind::Rate => format!("bits a second in {}", spread::RATE_UNITS),
            Kind::Spread { time: true } => {
                "`\"fixed:50ms\"`, `\"uniform:10ms..1s\"`, `\"exponential:50ms\"` (mean) or `\"pareto:20ms/1.5\"` (least, exponent)"
                    .to_owned()
            }
            Kind::Spread { time: false } => {
                "`\"fixed:64KiB\"`, `\"uniform:10kB..1MB\"`, `\"exponential:256KiB\"` (mean) or `\"pareto:64KiB/1.5\"` (least, exponent)"
                    .to_owned()
            }
            Kind::Words => "a list of texts: program and arguments".to_owned(),
            Kind::Classes { each_of: Some(many) } => format!("a list of {many} classes"),
            Kind::Classes { each_of: Option::None } => "a list of classes".to_owned(),
            Kind::Queues => "a list as `[\"1@0\", \"2@1\"]`: how many queues, and the first".to_owned(),
            Kind::Entries => {
                "a list as `[\"1 100us\", \"0,2 200us\"]`: classes whose gates are open (`all`, `none`), and how long".to_owned()
            }
            Kind::Limit => "a share: `\"60%\"` or `0.6`; of `guest-timer`, a duration: `\"5ms\"`".to_owned(),
            Kind::Limits => "a limit as `\"p99.9 < 80us\"`, or a list of limits".to_owned(),
        }
    }

    /// Words of the glossary that this version knows and refuses here.
    pub fn later(&self) -> &'static [&'static str] {
        match self {
            Kind::Choice { later, .. } => later,
            _ => &[],
        }
    }
}

impl Default {
    /// The default as it would be written, or what a missing key means.
    pub fn words(self) -> String {
        match self {
            Default::Required => "required".to_owned(),
            Default::None(says) => says.to_owned(),
            Default::Text(text) => format!("`\"{text}\"`"),
            Default::Integer(number) => format!("`{number}`"),
            Default::Float(number) => format!("`{number}`"),
            Default::Flag(flag) => format!("`{flag}`"),
            Default::List([]) => "`[]`".to_owned(),
            Default::List(items) => format!("`[\"{}\"]`", items.join("\", \"")),
        }
    }
}
