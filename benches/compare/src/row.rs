// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the table: pairs, their ratios, the bound that applies to them, and the spread that
//! they had in an earlier run. And the raw outputs, kept so that every figure of the table can be
//! looked up.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Ours and the peer's; no peer where only a bound is held.
pub type Pair = (f64, Option<f64>);

/// What a row must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The median of the ratios ours/peer is at most this.
    RatioAtMost(f64),
    /// It is at least this.
    RatioAtLeast(f64),
    /// The median of ours is at most this.
    AtMost(f64),
    None,
}

/// Whether a row keeps its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Met {
    Yes,
    /// The median of the ratios misses it, and some pair keeps it: this machine cannot tell.
    Perhaps,
    No,
}

/// Which way the figure of a row improves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Better {
    Lower,
    Higher,
    /// Neither way: a peer against itself.
    Neither,
    /// No way: a count that adds up with others of this run, or what the machine does without
    /// tardy. It is compared with no earlier one.
    Uncompared,
}

/// Where the figures of several pairs lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub least: f64,
    pub median: f64,
    pub greatest: f64,
    /// Of ratios: the median of the factors, from 1 on, by which they differ from 1.
    pub typical: f64,
}

/// Where the figures of today's pairs lie compared with those of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No earlier run has figures of this row.
    New,
    Within,
    /// Beyond it, with so few pairs that chance does that too often.
    TooFew,
    Better,
    Worse,
    /// Beyond it, of a row that improves neither way.
    Outside,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    /// Unit of both figures.
    pub unit: &'static str,
    pub better: Better,
    pub peer: String,
    /// How ours was made.
    pub command: String,
    /// How the peer's was made.
    pub peer_command: String,
    pub pairs: Vec<Pair>,
    pub bound: Bound,
    /// The peer against itself under the same conditions, where that is measured.
    pub itself: Option<Spread>,
    /// What an earlier run kept of this row.
    pub earlier: Option<Spread>,
}

/// The middle value; of an even number, the mean of the two in the middle. `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

fn ratios(pairs: &[Pair]) -> Vec<f64> {
    pairs.iter().filter_map(|(ours, peer)| peer.map(|peer| ours / peer)).filter(|ratio| ratio.is_finite()).collect()
}

/// A factor between two spreads that is no chance.
const FAR: f64 = 1.2;

impl Spread {
    /// Of these values; `None` if there are none.
    fn of(values: Vec<f64>) -> Option<Spread> {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let greatest = values.iter().copied().max_by(f64::total_cmp)?;
        let typical = median(values.iter().map(|ratio| ratio.max(1.0 / ratio)).collect())?;
        Some(Spread { count: values.len(), least, median: median(values)?, greatest, typical })
    }

    /// Of the pairs' ratios, where there is a peer; else of our own figures, which tell less,
    /// because no peer shows how fast the machine was.
    pub fn of_pairs(pairs: &[Pair]) -> Option<Spread> {
        let alone = pairs.iter().all(|(_, peer)| peer.is_none());
        Spread::of(if alone { pairs.iter().map(|(ours, _)| *ours).collect() } else { ratios(pairs) })
    }

    /// What a ratio is worth where a peer against itself has this spread, as a factor from 1 on.
    /// The two sides are one program, so which of them is called ours is chance.
    fn worth(self) -> f64 {
        self.greatest.max(1.0 / self.least).max(1.0)
    }

    /// True if the two lie so far apart that no number of pairs is too few: unchanged code on a
    /// shared machine has put two pairs 10 % beyond two others, and never this much.
    fn is_far(self, other: Spread) -> bool {
        self.greatest * FAR < other.least || other.greatest * FAR < self.least
    }

    /// Whether two spreads overlap decides, not their medians. Today's reaches as far as its
    /// figures, and further by what the peer against itself shows that a ratio is worth.
    pub fn verdict(self, earlier: Option<Spread>, better: Better, itself: Option<Spread>) -> Verdict {
        let Some(earlier) = earlier else { return Verdict::New };
        let worth = itself.map_or(1.0, Spread::worth);
        let (lower, higher) = (self.greatest * worth < earlier.least, self.least / worth > earlier.greatest);
        match better {
            _ if !lower && !higher => Verdict::Within,
            _ if !self.is_far(earlier) && !tells_apart(self.count, earlier.count) => Verdict::TooFew,
            Better::Neither | Better::Uncompared => Verdict::Outside,
            Better::Lower if lower => Verdict::Better,
            Better::Higher if higher => Verdict::Better,
            Better::Lower | Better::Higher => Verdict::Worse,
        }
    }
}

/// True if `n` values of one thing all lie on one side of `m` others by chance in less than one of
/// 100 cases: there are C(n + m, n) orders of them, and two are such. A table has some thirty rows,
/// and a third of those with two pairs and two would lie apart by chance alone.
fn tells_apart(n: usize, m: usize) -> bool {
    let orders = (1..=n).fold(1.0, |orders, k| orders * (m + k) as f64 / k as f64);
    2.0 / orders < 0.01
}

impl Display for Spread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.least, self.greatest)
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::New => "new",
            Verdict::Within => "within its earlier spread",
            Verdict::TooFew => "apart from its earlier spread, by too few pairs to tell",
            Verdict::Better => "better than its earlier spread",
            Verdict::Worse => "worse than its earlier spread",
            Verdict::Outside => "outside its earlier spread",
        })
    }
}

impl Row {
    /// Nothing measured yet, no peer and no bound.
    pub fn new(what: impl Into<String>, unit: &'static str, better: Better) -> Row {
        Row {
            what: what.into(),
            unit,
            better,
            peer: String::new(),
            command: String::new(),
            peer_command: String::new(),
            pairs: Vec::new(),
            bound: Bound::None,
            itself: None,
            earlier: None,
        }
    }

    pub fn ours(&self) -> Option<f64> {
        median(self.pairs.iter().map(|(ours, _)| *ours).collect())
    }
    /// Median of the peer's.
    pub fn peers(&self) -> Option<f64> {
        median(self.pairs.iter().filter_map(|(_, peer)| *peer).collect())
    }
    /// Of the pairs' ratios. Its median is not the ratio of the medians.
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of(ratios(&self.pairs))
    }
    /// Whether the bound holds; `None` where there is none, or nothing to hold it against.
    pub fn met(&self) -> Option<Met> {
        // By what it typically differs, and not by its worst pair: one would decide.
        let (spread, worth) = (self.ratio(), self.itself.map_or(1.0, |itself| itself.typical));
        let (by_median, by_spread) = match self.bound {
            Bound::RatioAtMost(most) => (spread?.median <= most, spread?.least / worth <= most),
            Bound::RatioAtLeast(least) => (spread?.median >= least, spread?.greatest * worth >= least),
            Bound::AtMost(most) => (self.ours()? <= most, false),
            Bound::None => return None,
        };
        Some(match (by_median, by_spread) {
            (true, _) => Met::Yes,
            (false, true) => Met::Perhaps,
            (false, false) => Met::No,
        })
    }
    /// What it differs in from the other rows.
    pub fn name(&self) -> String {
        if self.peer.is_empty() { self.what.clone() } else { format!("{} (compared with {})", self.what, self.peer) }
    }
    /// Of a row that is worse than earlier: its name and both spreads.
    pub fn worse(&self) -> Option<String> {
        let (today, earlier) = (Spread::of_pairs(&self.pairs)?, self.earlier?);
        let worse = self.verdict() == Some(Verdict::Worse);
        worse.then(|| format!("{}: {today}, earlier {earlier}", self.name()))
    }
    /// `None` where today's pairs give no figure that could be compared with an earlier one.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.better == Better::Uncompared {
            return None;
        }
        Some(Spread::of_pairs(&self.pairs)?.verdict(self.earlier, self.better, self.itself))
    }
}

/// The pairs of an earlier run by comparison, what was measured, its unit and the peer.
pub struct Earlier(BTreeMap<[String; 4], Vec<Pair>>);

impl Earlier {
    /// The table that [`Raw::keep_pairs`] has written, of what it has of this machine: how fast
    /// another one was says nothing, not even by its ratios. Where there is none yet, every row is
    /// new.
    pub fn read(path: &Path, machine: &str) -> Result<Earlier> {
        let shown = path.display();
        match fs::read_to_string(path) {
            Ok(text) => Earlier::parse(&text, machine)
                .with_context(|| format!("{shown} holds no pairs of an earlier run: `git checkout {shown}`")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Earlier(BTreeMap::new())),
            Err(error) => Err(error).with_context(|| format!("{shown} cannot be read")),
        }
    }

    pub fn parse(text: &str, machine: &str) -> Result<Earlier> {
        let mut rows: BTreeMap<[String; 4], Vec<Pair>> = BTreeMap::new();
        for (n, line) in text.lines().enumerate().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [comparison, what, unit, peer, _, ours, peers, on] = cells[..] else {
                bail!("line {} has {} columns instead of 8", n + 1, cells.len());
            };
            let figure =
                |text: &str| text.parse::<f64>().with_context(|| format!("line {}: `{text}` is no figure", n + 1));
            let pair = (figure(ours)?, if peers.is_empty() { None } else { Some(figure(peers)?) });
            if on == machine {
                rows.entry([comparison, what, unit, peer].map(str::to_owned)).or_default().push(pair);
            }
        }
        Ok(Earlier(rows))
    }

    /// The row that says the same of the same peer, in the same unit.
    pub fn spread(&self, comparison: &str, row: &Row) -> Option<Spread> {
        let key = [comparison, &row.what, row.unit, &row.peer].map(str::to_owned);
        Spread::of_pairs(self.0.get(&key)?)
    }
}

const PAIRS: &str = "pairs.tsv";

/// A comparison's folder below `results/`.
pub struct Raw {
    folder: PathBuf,
}

impl Raw {
    /// Made anew, so that no results of an earlier run are next to new ones.
    pub fn create(folder: PathBuf) -> Result<Raw> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be emptied", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Raw { folder })
    }

    /// Keeps one side's output of a pair.
    pub fn keep(&self, pair: usize, side: &str, text: &str) -> Result<()> {
        let path = self.folder.join(format!("{:02}-{side}.txt", pair + 1));
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Keeps the pairs' figures.
    pub fn rows(&self, rows: &[Row]) -> Result<()> {
        let mut text = String::from("what\tunit\tpeer\tpair\tours\tpeers\n");
        for row in rows {
            for (n, (ours, peer)) in row.pairs.iter().enumerate() {
                let peer = peer.map_or_else(String::new, |peer| peer.to_string());
                writeln!(text, "{}\t{}\t{}\t{}\t{ours}\t{peer}", row.what, row.unit, row.peer, n + 1)?;
            }
        }
        let path = self.folder.join(PAIRS);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Puts them into the table at `path`, in the place of those of `comparison` there: its first
    /// column names the comparison, its last one the machine.
    pub fn keep_pairs(&self, comparison: &str, machine: &str, path: &Path) -> Result<()> {
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
        let (own, old) = (read(&self.folder.join(PAIRS))?, if path.exists() { read(path)? } else { String::new() });
        let mut lines = own.lines();
        let head = format!("comparison\t{}\tmachine", lines.next().context("a table without a head")?);
        let own: Vec<String> = lines.map(|line| format!("{comparison}\t{line}\t{machine}")).collect();
        let begins = format!("{comparison}\t");
        let is_own = |line: &&str| line.starts_with(&begins);
        let mut kept: Vec<&str> = old.lines().skip(1).collect();
        let at = kept.iter().position(is_own).unwrap_or(kept.len());
        kept.retain(|line| !is_own(line));
        kept.splice(at..at, own.iter().map(String::as_str));
        fs::write(path, format!("{head}\n{}\n", kept.join("\n")))
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Which processor `/proc/cpuinfo` describes. A cloud's hypervisor may call several generations by
/// one name, so family, model and stepping belong to it, and how fast its counter runs.
pub fn processor(info: &str) -> String {
    let value = |name: &str| {
        let of = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        info.lines().find_map(of)
    };
    let numbers = ["cpu family", "model", "stepping"].map(|name| Some(format!("{name} {}", value(name)?)));
    // bogomips are twice the counter's MHz, and its last digits change from boot to boot.
    let counter = || Some(format!("{:.2} GHz", value("bogomips")?.parse::<f64>().ok()? / 2_000.0));
    let parts = [value("model name")].into_iter().chain(numbers).chain([counter()]).flatten().collect::<Vec<_>>();
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

const ANEW: &str = "Measured anew on ";

/// The words of a text in lines of at most 100 columns.
pub fn filled(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The text of a page that says on which machine these comparisons were measured anew, where that
/// is another one than the page's. What it said of them before goes. Each machine has a paragraph.
pub fn with_anew(text: &str, machine: &str, names: &[String]) -> String {
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_said = text.split("\n\n").any(|paragraph| joined(paragraph).starts_with(&format!("{ANEW}{machine}: ")));
    let mut out: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let line = joined(paragraph);
        if let Some((of, listed)) = line.strip_prefix(ANEW).and_then(|rest| rest.trim_end_matches('.').split_once(": "))
        {
            let mut kept: Vec<&str> = listed.split(", ").filter(|name| !names.iter().any(|new| new == name)).collect();
            if of == machine {
                kept.extend(names.iter().map(String::as_str));
            }
            if !kept.is_empty() {
                out.push(filled(&format!("{ANEW}{of}: {}.", kept.join(", "))));
            }
            continue;
        }
        out.push(paragraph.to_owned());
        let is_of_page = line.starts_with("tardy ") && line.contains(" on ");
        if is_of_page && !line.contains(&format!("on {machine}.")) && !is_said {
            out.push(filled(&format!("{ANEW}{machine}: {}.", names.join(", "))));
        }
    }
    out.join("\n\n")
}
