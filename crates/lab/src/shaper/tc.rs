// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of shaper says to tc: the step that sets the root and what hangs below it, and
//! tc's words for classes and places. And what the kernel made of it, by `tc -j -s qdisc`: what
//! differs from what was asked for, and what its counters say.

use crate::path::LinkEnd;
use crate::step::{Action, Inverse, Question, Step};
use serde_json::Value;
use tardy_model::qdisc::{QdiscRecord, ShaperRecord};
use tardy_model::shaper::{Cbs, Classes, Etf, Mode, Queues, Shaper, Taprio};

/// Why a step of the plan is taken; by this a refusal is known to be the queue discipline's.
pub const WHY: &str = "the queue discipline of a device that streams leave by";
/// The handle that tardy gives each root queue discipline.
pub const ROOT: &str = "100:";

/// The one step that sets the root and its children. Gone with the root are its children.
pub(super) fn step(end: &LinkEnd, root: &[String], children: Vec<Vec<String>>) -> Vec<Step> {
    let device = end.device.as_str();
    let tc = |place: &[&str], words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        end.place.tc(&[&["qdisc", "replace", "dev", device], place, &words[..]].concat())
    };
    let mut does = vec![tc(&["root", "handle", ROOT], root)];
    for child in &children {
        let [parent, words @ ..] = &child[..] else { continue };
        does.push(tc(&["parent", parent], words));
    }
    let undoes = vec![Inverse::within(&end.place, Action::DeleteQdisc { device: device.to_owned() })];
    vec![Step::new(&end.place, WHY, does).undone_by(undoes)]
}

/// Words of a command.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Classes as tc takes them.
pub(super) fn classes(classes: &Classes) -> String {
    let map: Vec<String> = classes.map.iter().map(u8::to_string).collect();
    let queues: Vec<String> = classes.queues.iter().map(|of| format!("{}@{}", of.count, of.offset)).collect();
    format!("num_tc {} map {} queues {}", classes.count(), map.join(" "), queues.join(" "))
}

/// Places below the root that serve these classes, as tc writes them: in hexadecimal.
pub(super) fn places<'a>(classes: &'a Classes, at: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    at.iter().flat_map(|class| classes.minors(*class)).map(|minor| format!("{ROOT}{minor:x}"))
}

/// What hangs below the root: a place, then the words.
pub(super) fn children(at: &[u8], of: &Classes, child: &str) -> Vec<Vec<String>> {
    places(of, at).map(|place| [vec![place], words(child)].concat()).collect()
}

/// Asks for the queue disciplines of an end, with their counters.
pub fn question(end: &LinkEnd) -> Question {
    Question::at(&end.place, end.place.tc(&["-j", "-s", "qdisc", "show", "dev", &end.device]))
}

/// A class by the place of a child: `100:3`.
fn class_of(parent: &str, classes: Option<&Classes>) -> Option<u8> {
    let minor = parent.strip_prefix(ROOT)?;
    classes?.of_minor(u32::from_str_radix(minor, 16).ok()?)
}

/// The queue disciplines in what tc printed, the root first.
pub fn qdiscs(says: &Value, shaper: &Shaper) -> Vec<QdiscRecord> {
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let mut found: Vec<QdiscRecord> = says
        .as_array()
        .into_iter()
        .flatten()
        .map(|of| {
            let parent = of["parent"].as_str().map(str::to_owned);
            QdiscRecord {
                kind: text(of, "kind"),
                handle: text(of, "handle"),
                class: parent.as_deref().and_then(|parent| class_of(parent, shaper.classes())),
                parent,
                bytes: number(of, "bytes"),
                packets: number(of, "packets"),
                drops: number(of, "drops"),
                overlimits: number(of, "overlimits"),
                requeues: number(of, "requeues"),
            }
        })
        .collect();
    found.sort_by(|a, b| (a.parent.is_some(), a.class, &a.parent).cmp(&(b.parent.is_some(), b.class, &b.parent)));
    found
}

/// What the counters grew by between two readings. A queue discipline that was not there before
/// counts from nothing.
pub fn grown(before: &[QdiscRecord], after: Vec<QdiscRecord>) -> Vec<QdiscRecord> {
    let since = |now: QdiscRecord| {
        let same =
            |then: &&QdiscRecord| then.kind == now.kind && then.handle == now.handle && then.parent == now.parent;
        let then = before.iter().find(same).cloned().unwrap_or_default();
        QdiscRecord {
            bytes: now.bytes.saturating_sub(then.bytes),
            packets: now.packets.saturating_sub(then.packets),
            drops: now.drops.saturating_sub(then.drops),
            overlimits: now.overlimits.saturating_sub(then.overlimits),
            requeues: now.requeues.saturating_sub(then.requeues),
            ..now
        }
    };
    after.into_iter().map(since).collect()
}

/// The record of a trial from readings before and after it. A reading that there is not has the
/// reason in its place.
pub fn record(
    shaper: &Shaper,
    device: &str,
    before: Result<&Value, &str>,
    after: Result<&Value, &str>,
) -> ShaperRecord {
    let (qdiscs, differs) = match before.and_then(|before| Ok((read(before, shaper)?, after?))) {
        Ok((before, says)) => match read(says, shaper) {
            Ok(after) => (grown(&before, after), differs(shaper, says)),
            Err(why) => (Vec::new(), vec![unread(why)]),
        },
        Err(why) => (Vec::new(), vec![unread(why)]),
    };
    let schedule = shaper.taprio().map(|taprio| taprio.schedule.clone());
    ShaperRecord { asked: shaper.kind().to_owned(), device: device.to_owned(), driver: None, schedule, qdiscs, differs }
}

/// A device always has a queue discipline, if only one that holds nothing: if tc shows none, that
/// is no answer.
fn read(says: &Value, shaper: &Shaper) -> Result<Vec<QdiscRecord>, &'static str> {
    Some(qdiscs(says, shaper)).filter(|found| !found.is_empty()).ok_or("tc reports none")
}

fn unread(why: &str) -> String {
    format!("it could not be read back ({why})")
}

/// What was asked for and is not what tc printed, a sentence each. What was asked for and is not
/// printed at all is among it.
pub fn differs(shaper: &Shaper, says: &Value) -> Vec<String> {
    let all: Vec<&Value> = says.as_array().into_iter().flatten().collect();
    let root = all.iter().find(|of| of["root"] == Value::Bool(true)).copied().unwrap_or(&Value::Null);
    let mut differences = Differences(Vec::new());
    let expected = match shaper {
        // Whatever the kernel gave it.
        Shaper::None => return Vec::new(),
        Shaper::Cbs(_) => "mqprio",
        shaper => shaper.kind(),
    };
    if root["kind"].as_str() != Some(expected) {
        let there = root["kind"].as_str().unwrap_or("nothing");
        return vec![format!("the root is {there}, not {expected}")];
    }
    let options = &root["options"];
    if let Some(classes) = shaper.classes() {
        differences.classes(classes, options);
    }
    let below = |classes: &Classes,
                 at: &[u8],
                 differences: &mut Differences,
                 compare: &dyn Fn(&mut Differences, &str, &Value)| {
        for place in places(classes, at) {
            match all.iter().find(|of| of["parent"].as_str() == Some(&place)) {
                Some(child) => compare(differences, &place, child),
                None => differences.0.push(format!("nothing is at {place}")),
            }
        }
    };
    match shaper {
        Shaper::None => {}
        Shaper::Etf(etf) => differences.etf("etf", etf, root),
        Shaper::Taprio(taprio) => {
            differences.taprio(taprio, options);
            if let Some((etf, at)) = &taprio.etf {
                below(&taprio.classes, at, &mut differences, &|differences, place, child| {
                    differences.etf(place, etf, child)
                });
            }
        }
        Shaper::Mqprio(mqprio) => {
            if let Some((etf, at)) = &mqprio.etf {
                below(&mqprio.classes, at, &mut differences, &|differences, place, child| {
                    differences.etf(place, etf, child)
                });
            }
        }
        Shaper::Cbs(cbs) => below(&cbs.classes, &cbs.at, &mut differences, &|differences, place, child| {
            differences.cbs(place, cbs, child)
        }),
    }
    differences.0
}

/// What differs, as it is found.
struct Differences(Vec<String>);

impl Differences {
    fn number(&mut self, what: &str, asked: i64, is: &Value) {
        match is.as_i64() {
            Some(is) if is == asked => {}
            Some(is) => self.0.push(format!("{what} is {is}, not {asked}")),
            None => self.0.push(format!("{what} is not reported, and {asked} was asked for")),
        }
    }

    fn clock(&mut self, whose: &str, is: &Value) {
        match is.as_str() {
            Some("TAI") => {}
            Some(clock) => self.0.push(format!("{whose} clock is {clock}, not TAI")),
            None => self.0.push(format!("{whose} clock is not reported, and TAI was asked for")),
        }
    }

    /// `on` and `off`, or 1 and 0. A program that knows no such flag prints none and has set none.
    fn flag(&mut self, what: &str, asked: bool, is: &Value) {
        let on = match is {
            Value::String(word) => Some(word == "on"),
            Value::Number(number) => Some(number.as_i64() != Some(0)),
            Value::Bool(flag) => Some(*flag),
            _ => None,
        };
        let word = |on: bool| if on { "on" } else { "off" };
        match on {
            Some(on) if on != asked => self.0.push(format!("{what} is {}, not {}", word(on), word(asked))),
            None if asked => self.0.push(format!("{what} is not reported, and on was asked for")),
            _ => {}
        }
    }

    fn classes(&mut self, classes: &Classes, options: &Value) {
        self.number("the number of classes", classes.count().into(), &options["tc"]);
        let map: Vec<u64> = options["map"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let other = (0..classes.map.len()).find(|n| map.get(*n) != Some(&u64::from(classes.map[*n])));
        if let Some(n) = other {
            self.0.push(match map.get(n) {
                Some(class) => format!("priority {n} goes to class {class}, not {}", classes.map[n]),
                None => format!("the class of priority {n} is not reported, and {} was asked for", classes.map[n]),
            });
        }
        for (class, asked) in classes.queues.iter().enumerate() {
            let is = &options["queues"][class];
            // taprio prints offset and count, mqprio the first and the last.
            let is = match is {
                Value::Array(ends) => match (ends.first().and_then(Value::as_u64), ends.get(1).and_then(Value::as_u64))
                {
                    (Some(first), Some(last)) => Some((last.saturating_sub(first) + 1, first)),
                    _ => None,
                },
                is => is["count"].as_u64().zip(is["offset"].as_u64()),
            };
            let Queues { count, offset } = asked;
            match is {
                Some(is) if is == (u64::from(*count), u64::from(*offset)) => {}
                Some((n, first)) => {
                    self.0.push(format!("class {class} has queues {n}@{first}, not {count}@{offset}"));
                }
                None => self
                    .0
                    .push(format!("the queues of class {class} are not reported, and {count}@{offset} was asked for")),
            }
        }
    }

    fn taprio(&mut self, taprio: &Taprio, options: &Value) {
        let Taprio { schedule, mode, .. } = taprio;
        let flags = match mode {
            Mode::Software => 0,
            Mode::TxtimeAssist { .. } => 1,
            Mode::Offload => 2,
        };
        let is = options["flags"].as_str().and_then(|hex| i64::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
        if is.unwrap_or(0) != flags {
            self.0.push(format!("its flags are {:#x}, not {flags:#x}", is.unwrap_or(0)));
        }
        if let Mode::TxtimeAssist { delay } = mode {
            // A delay of 0 is not printed.
            let none = Value::from(0);
            let is = Some(&options["txtime_delay"]).filter(|is| !is.is_null());
            self.number("txtime-delay", delay.0, is.unwrap_or(&none));
        }
        // In full offload it is the device's.
        if flags != 2 {
            self.clock("its", &options["clockid"]);
        }
        self.number("the cycle", schedule.cycle.0, &options["cycle_time"]);
        let phase = |at: i64| at.rem_euclid(schedule.cycle.0.max(1));
        match options["base_time"].as_i64() {
            Some(base) if phase(base) == phase(schedule.offset.0) => {}
            Some(base) => self.0.push(format!("the base time, {base}, is not aligned as asked")),
            None => self.0.push("the base time is not reported".to_owned()),
        }
        let entries: Vec<&Value> = options["schedule"].as_array().into_iter().flatten().collect();
        if entries.len() != schedule.entries.len() {
            self.0.push(format!("it has {} entries, not {}", entries.len(), schedule.entries.len()));
            return;
        }
        for (n, (is, asked)) in entries.iter().zip(&schedule.entries).enumerate() {
            let mask =
                is["gatemask"].as_str().and_then(|hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
            match mask {
                Some(mask) if mask == asked.open => {}
                Some(mask) => self.0.push(format!("entry {n} opens gates {mask:#x}, not {:#x}", asked.open)),
                None => self.0.push(format!("entry {n}'s gates are not reported, and {:#x} was asked for", asked.open)),
            }
            self.number(&format!("entry {n}'s length"), asked.length.0, &is["interval"]);
        }
    }

    fn etf(&mut self, place: &str, etf: &Etf, child: &Value) {
        if !self.is(place, "etf", child) {
            return;
        }
        let options = &child["options"];
        self.number(&format!("{place}: delta"), etf.delta.0, &options["delta"]);
        self.flag(&format!("{place}: deadline_mode"), etf.deadline_mode, &options["deadline_mode"]);
        self.flag(&format!("{place}: skip_sock_check"), etf.skip_sock_check, &options["skip_sock_check"]);
        self.flag(&format!("{place}: offload"), etf.offload, &options["offload"]);
        self.clock(&format!("{place}: its"), &options["clockid"]);
    }

    fn cbs(&mut self, place: &str, cbs: &Cbs, child: &Value) {
        if !self.is(place, "cbs", child) {
            return;
        }
        let (options, credits) = (&child["options"], cbs.credits());
        self.number(&format!("{place}: idleslope"), credits.idleslope, &options["idleslope"]);
        self.number(&format!("{place}: sendslope"), credits.sendslope, &options["sendslope"]);
        self.number(&format!("{place}: hicredit"), credits.hicredit, &options["hicredit"]);
        self.number(&format!("{place}: locredit"), credits.locredit, &options["locredit"]);
        self.flag(&format!("{place}: offload"), cbs.offload, &options["offload"]);
    }

    fn is(&mut self, place: &str, kind: &str, child: &Value) -> bool {
        let there = child["kind"].as_str().unwrap_or("nothing");
        if there != kind {
            self.0.push(format!("{place} is {there}, not {kind}"));
        }
        there == kind
    }
}
