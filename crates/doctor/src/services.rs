// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that set or steer clocks, and which clock each sets, by its arguments. What a file of
//! its own says is not read.

use crate::root::Root;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

/// Programs that set or steer a clock.
const CLOCK_SERVICES: [&str; 7] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "ts2phc", "timemaster"];

/// A program that sets or steers a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockService {
    pub name: String,
    /// What it was started with, without its own name; `None` if that is not shown.
    pub arguments: Option<Vec<String>>,
}

/// A clock that may be set: the system's, or that of a device, as `/dev/ptp0` where that is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clock {
    Realtime,
    Device(String),
}

impl Clock {
    pub(crate) fn name(&self) -> String {
        match self {
            Clock::Realtime => "CLOCK_REALTIME".to_owned(),
            Clock::Device(of) if of.starts_with('/') => of.clone(),
            Clock::Device(of) => format!("the clock of {of}"),
        }
    }
}

/// What a program does with a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sets {
    pub(crate) clock: Clock,
    /// Whatever the network or other programs decide.
    pub(crate) always: bool,
}

/// Options of a program as they were given, in their order.
struct Options(Vec<(String, String)>);

impl Options {
    /// `takes` are the letters that have a value; every long word has one.
    fn of(arguments: &[String], takes: &str) -> Options {
        let mut found = Vec::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, value.to_owned()),
                    None => (long, words.next().cloned().unwrap_or_default()),
                };
                found.push((name.to_owned(), value));
                continue;
            }
            let Some(letters) = word.strip_prefix('-') else { continue };
            for (at, letter) in letters.char_indices() {
                if !takes.contains(letter) {
                    found.push((letter.to_string(), String::new()));
                    continue;
                }
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() { words.next().cloned().unwrap_or_default() } else { rest.to_owned() };
                found.push((letter.to_string(), value));
                break;
            }
        }
        Options(found)
    }

    fn all<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o str> {
        self.0.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn count(&self, name: &str) -> usize {
        self.all(name).count()
    }

    fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    /// True if this word of linuxptp has this value at last.
    fn is(&self, name: &str, value: &str) -> bool {
        self.all(name).last() == Some(value)
    }
}

/// Which clocks a program sets; `None` if nobody knows. `ptp` has the PTP clock of each network
/// device.
pub(crate) fn sets(of: &ClockService, ptp: &BTreeMap<String, String>) -> Option<Vec<Sets>> {
    let clock = |name: &str| match name {
        "CLOCK_REALTIME" => Clock::Realtime,
        device => Clock::Device(ptp.get(device).cloned().unwrap_or_else(|| device.to_owned())),
    };
    let realtime = |always: bool| vec![Sets { clock: Clock::Realtime, always }];
    let given = of.arguments.as_deref();
    match of.name.as_str() {
        "chronyd" => {
            let options = Options::of(given.unwrap_or_default(), "fFlLPtu");
            let only_looks = options.has("x") || options.has("Q");
            Some(if only_looks { Vec::new() } else { realtime(true) })
        }
        "ptp4l" => Some(of_ptp4l(&Options::of(given?, "fipl"), clock)),
        "phc2sys" => Some(of_phc2sys(&Options::of(given?, "cdfsEPISFRNOLMiunzlt"), clock)),
        "ts2phc" => {
            let options = Options::of(given?, "cfilst");
            Some(options.all("c").map(|name| Sets { clock: clock(name), always: true }).collect())
        }
        // It starts others, which set clocks.
        "timemaster" => Some(Vec::new()),
        _ => Some(realtime(true)),
    }
}

/// As a grandmaster it sets nothing, so it always sets a clock only where it may be none.
fn of_ptp4l(options: &Options, clock: impl Fn(&str) -> Clock) -> Vec<Sets> {
    let is_on = |words: [&str; 2]| words.into_iter().any(|word| options.is(word, "1"));
    if options.is("free_running", "1") || is_on(["serverOnly", "masterOnly"]) {
        return Vec::new();
    }
    let always = options.has("s") || is_on(["clientOnly", "slaveOnly"]);
    if options.has("S") || options.is("time_stamping", "software") {
        return vec![Sets { clock: Clock::Realtime, always }];
    }
    let named = options.all("p").chain(options.all("i"));
    let mut clocks: Vec<Clock> = named.map(clock).collect();
    clocks.sort();
    clocks.dedup();
    // Of several devices only the one that follows is set.
    let always = always && clocks.len() == 1;
    clocks.into_iter().map(|clock| Sets { clock, always }).collect()
}

fn of_phc2sys(options: &Options, clock: impl Fn(&str) -> Clock) -> Vec<Sets> {
    const HANDS_ON: [&str; 3] = ["ntpshm", "nullf", "refclock_sock"];
    let servo = options.all("E").chain(options.all("clock_servo")).last();
    if servo.is_some_and(|servo| HANDS_ON.contains(&servo)) || options.is("free_running", "1") {
        return Vec::new();
    }
    if options.has("a") {
        // Twice, and the system's clock may be what the others follow.
        return match options.count("r") {
            0 => Vec::new(),
            times => vec![Sets { clock: Clock::Realtime, always: times == 1 }],
        };
    }
    let mut sinks: Vec<Clock> = options.all("c").map(clock).collect();
    if sinks.is_empty() {
        sinks.push(Clock::Realtime);
    }
    sinks.into_iter().map(|clock| Sets { clock, always: true }).collect()
}

/// The most that is read of a program's arguments, bytes.
const MOST_ARGUMENTS: u64 = 64 << 10;

/// The programs among these processes, each once: chrony has a second process with the same
/// arguments.
pub(crate) fn read<'t>(root: &Root<'_>, leaders: impl Iterator<Item = (u32, &'t str)>) -> Vec<ClockService> {
    let mut found: Vec<ClockService> = Vec::new();
    for (pid, name) in leaders.filter(|(_, name)| CLOCK_SERVICES.contains(name)) {
        let mut bytes = Vec::new();
        let file = fs::File::open(root.path(&format!("proc/{}/cmdline", pid)));
        let read = file.and_then(|file| file.take(MOST_ARGUMENTS).read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let words = text.trim_end_matches('\0').split('\0').map(str::to_owned);
        let arguments = (read.is_ok() && !bytes.is_empty()).then(|| words.skip(1).collect());
        let service = ClockService { name: name.to_owned(), arguments };
        if !found.contains(&service) {
            found.push(service);
        }
    }
    found
}

/// The PTP clocks of network devices.
pub(crate) fn ptp_clocks(root: &Root<'_>) -> BTreeMap<String, String> {
    let of = |device: String| {
        let clock = root.names(&format!("sys/class/net/{device}/device/ptp")).into_iter().min()?;
        Some((device, format!("/dev/{clock}")))
    };
    root.names("sys/class/net").into_iter().filter_map(of).collect()
}
