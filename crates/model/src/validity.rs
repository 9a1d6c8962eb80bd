// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `[validity]` of an experiment file may set about the rules of validity: how much a rule
//! weighs, and from where on.
//!
//! A rule that judges the conditions of the measuring may be made less severe, because the user may
//! know of a disturbance and want the figures all the same. A rule that finds that a figure is not
//! what happened (a clock jumped, stamps are missing, the recorder was full), or that is itself
//! what the path did (packets were lost), may only be made stricter: losing more must never cost
//! less.

use crate::verdict::{Level, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From where on a rule's verdict has its full weight: a share, or a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "rule_limit")]
pub enum RuleLimit {
    /// A share of the time or of the packets.
    Share(#[schemars(range(min = 0))] f64),
    /// A span of time, ns.
    Ns(#[schemars(range(min = 1))] i64),
}

/// One rule, as it is by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleDefault {
    pub id: &'static str,
    /// Its limit, if it has one that can be set.
    pub limit: Option<RuleLimit>,
    /// The most that its verdicts weigh.
    pub level: Level,
    /// May it be made less severe?
    pub milder: bool,
}

const fn condition(id: &'static str, level: Level) -> RuleDefault {
    RuleDefault { id, limit: None, level, milder: true }
}

const fn limited(id: &'static str, limit: RuleLimit) -> RuleDefault {
    RuleDefault { id, limit: Some(limit), level: Level::Invalid, milder: true }
}

const fn fact(id: &'static str) -> RuleDefault {
    RuleDefault { id, limit: None, level: Level::Invalid, milder: false }
}

/// The rule that refuses a figure between the clocks of two hosts.
pub const CLOCK_BOUND: &str = "clock-bound";

/// The rule about clocks that did not run evenly against each other.
pub const CLOCK_BEND: &str = "clock-bend";

/// The rule about frames for more than one receiver.
pub const GROUP_LOST: &str = "group-lost";

/// The rule about frames as long as the path's MTU.
pub const LONG_LOST: &str = "long-lost";

/// The rule about packets whose checksum the sender's device is to write.
pub const CHECKSUM_LOST: &str = "checksum-lost";

/// All rules that can be set, in the order in which verdicts are reported.
pub const RULES: &[RuleDefault] = &[
    fact("failed"),
    fact("late-start"),
    fact("receiver-broke"),
    condition("interrupted", Level::Note),
    fact("added-tag"),
    fact("program-drops"),
    condition(GROUP_LOST, Level::Invalid),
    condition(LONG_LOST, Level::Invalid),
    condition(CHECKSUM_LOST, Level::Invalid),
    fact("tai-offset"),
    fact("clock-step"),
    fact("clocks-disagree"),
    RuleDefault { id: CLOCK_BEND, limit: Some(RuleLimit::Share(0.10)), level: Level::Warning, milder: true },
    fact("causality"),
    RuleDefault { id: CLOCK_BOUND, limit: Some(RuleLimit::Share(0.10)), level: Level::Warning, milder: true },
    condition("policy", Level::Invalid),
    fact("shaper"),
    fact("no-gates"),
    condition("load", Level::Invalid),
    condition("starved-load", Level::Warning),
    condition("softirq", Level::Invalid),
    limited("core", RuleLimit::Share(0.01)),
    limited("rate", RuleLimit::Share(0.01)),
    fact("send-errors"),
    fact("launch-drops"),
    fact("loss"),
    condition("after-silence", Level::Note),
    fact("vlan-tags"),
    fact("vlan-pcp"),
    fact("recorder"),
    condition("recorder-delay", Level::Note),
    fact("queue-overflow"),
    fact("no-metadata"),
    fact("late-stamps"),
    fact("coverage"),
    condition("warmup", Level::Warning),
    condition("advance", Level::Warning),
    condition("narrow-windows", Level::Warning),
    condition("rt-bandwidth", Level::Invalid),
    condition("starved-copy", Level::Warning),
    condition("added-up", Level::Warning),
    limited("steal", RuleLimit::Share(0.10)),
    limited("competing-cpu", RuleLimit::Share(0.10)),
    condition("shared-cpu", Level::Warning),
    condition("other-runs", Level::Note),
    condition("pm-qos", Level::Warning),
    condition("bpf-jit", Level::Warning),
    condition("launch-ignored", Level::Note),
    condition("moved-point", Level::Warning),
    condition("flow-misses", Level::Warning),
    condition("printk", Level::Warning),
    condition("device-number", Level::Warning),
    condition("generic-xdp", Level::Warning),
    condition("programs", Level::Note),
    condition("other-route", Level::Warning),
    condition("routers", Level::Note),
    condition("clock-source", Level::Note),
    condition("xdp-mode", Level::Note),
    condition("foreign", Level::Note),
    condition("ruler", Level::Warning),
    limited("guest-timer", RuleLimit::Ns(1_000_000)),
];

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static RuleDefault> {
    RULES.iter().find(|rule| rule.id == id)
}

/// What was set of one rule of validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "setting")]
pub struct Setting {
    /// From where on its verdicts have their full weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<RuleLimit>,
    /// The most that its verdicts weigh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [Level::Note, Level::Warning, Level::Invalid]))]
    pub level: Option<Level>,
}

/// One value that is not the default, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The rule's id: `competing-cpu`.
    pub rule: &'static str,
    /// What of it was set: `limit` or `level`.
    pub what: &'static str,
    /// As it is set.
    pub is: String,
    /// What it is by default.
    pub default: String,
    /// True if it judges more mildly so.
    pub milder: bool,
}

/// What was set of the rules, by id. Empty: all is as by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Validity {
    pub set: BTreeMap<String, Setting>,
}

/// What a verdict of `level` weighs where `set` is the rule's level.
fn weighed(level: Level, set: Level, id: &str) -> Level {
    match rule(id) {
        Some(default) if set < default.level && default.milder => level.min(set),
        Some(default) if set >= default.level && level >= default.level => set.max(level),
        _ => level,
    }
}

/// True if two verdicts have the same evidence but for the limit that they were judged by.
fn is_of_the_same(a: &Verdict, b: &Verdict) -> bool {
    let facts = |of: &Verdict| {
        let of = of.evidence.iter().filter(|(name, _)| !name.starts_with("limit"));
        of.map(|(name, figure)| (name.clone(), figure.clone())).collect::<Vec<_>>()
    };
    a.id == b.id && facts(a) == facts(b)
}

impl Validity {
    /// True if nothing was set.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    fn limit(&self, id: &str) -> Option<RuleLimit> {
        let set = self.set.get(id).and_then(|setting| setting.limit);
        set.or_else(|| rule(id)?.limit)
    }

    /// The share from which on a rule's verdict has its full weight; above all shares for a rule
    /// that has none.
    pub fn share(&self, id: &str) -> f64 {
        match self.limit(id) {
            Some(RuleLimit::Share(share)) => share,
            _ => f64::INFINITY,
        }
    }

    /// The same of a rule whose limit is a span of time, ns.
    pub fn ns(&self, id: &str) -> i64 {
        match self.limit(id) {
            Some(RuleLimit::Ns(ns)) => ns,
            _ => i64::MAX,
        }
    }

    /// A rule's verdicts, each with the weight that was set, which its sentence mentions. A less
    /// severe level is the most that any verdict of the rule weighs; a stricter one is that of the
    /// verdicts that have the rule's full weight. `judge` gives the verdicts by a limit: where
    /// another one is set it is asked twice, for what the verdicts weigh by default.
    pub fn weigh(&self, id: &str, judge: impl Fn(&Validity) -> Vec<Verdict>) -> Vec<Verdict> {
        let judged = judge(self);
        let Some(setting) = self.set.get(id) else { return judged };
        let by_default = setting.limit.map(|_| judge(&Validity::default()));
        let weigh = |verdict: Verdict| {
            let before = match &by_default {
                None => Some(verdict.level),
                Some(all) => all.iter().find(|other| is_of_the_same(other, &verdict)).map(|other| other.level),
            };
            let level = setting.level.map_or(verdict.level, |set| weighed(verdict.level, set, id));
            if before == Some(level) {
                return Verdict { level, ..verdict };
            }
            let before = before.map_or("nothing", Level::name);
            let says = format!("{} ({before} by default; `[validity]` says {})", verdict.says, level.name());
            Verdict { level, says, ..verdict }.with("level_by_default", before)
        };
        judged.into_iter().map(weigh).collect()
    }

    /// Every value that is not the default.
    pub fn changed(&self) -> Vec<Changed> {
        let mut changed = Vec::new();
        for (id, setting) in &self.set {
            let Some(rule) = rule(id) else { continue };
            if let (Some(is), Some(default)) = (setting.limit, rule.limit)
                && is != default
            {
                let milder = match (is, default) {
                    (RuleLimit::Share(is), RuleLimit::Share(default)) => is > default,
                    (RuleLimit::Ns(is), RuleLimit::Ns(default)) => is > default,
                    _ => true,
                };
                let (is, default) = (is.to_string(), default.to_string());
                changed.push(Changed { rule: rule.id, what: "limit", is, default, milder });
            }
            if let Some(is) = setting.level.filter(|is| *is != rule.level) {
                let (name, default) = (is.name().to_owned(), rule.level.name().to_owned());
                changed.push(Changed { rule: rule.id, what: "level", is: name, default, milder: is < rule.level });
            }
        }
        changed
    }
}

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} instead of {}", self.rule, self.what, self.is, self.default)
    }
}

impl std::fmt::Display for RuleLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Ten digits are more than anybody writes, and few enough to hide that a share is a
            // binary fraction.
            RuleLimit::Share(share) => write!(f, "{} %", (share * 100.0 * 1e10).round() / 1e10),
            RuleLimit::Ns(ns) if ns % 1_000_000 == 0 => write!(f, "{} ms", ns / 1_000_000),
            RuleLimit::Ns(ns) if ns % 1_000 == 0 => write!(f, "{} µs", ns / 1_000),
            RuleLimit::Ns(ns) => write!(f, "{ns} ns"),
        }
    }
}
