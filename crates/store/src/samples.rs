// SPDX-License-Identifier: MIT OR Apache-2.0
//! `samples.parquet` as a file: [`tardy_parquet`] packs and reads it; this adds the path to errors,
//! and describes the columns. Its bytes are a function of the samples alone.

use crate::{StoreError, held};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use tardy_model::FORMAT;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::xdp::Hints;
use tardy_parquet::{CodecError, HintPages, Reader, column_name};

/// A `samples.parquet` that is open for reading.
pub struct SamplesFile {
    path: PathBuf,
    reader: Reader,
}

/// The rows of one stream, batch by batch.
pub struct Batches {
    path: PathBuf,
    batches: tardy_parquet::Batches,
    hints: Option<InStep>,
}

/// What was left before the packets of a stream, given out in step with its batches.
struct InStep {
    pages: HintPages,
    /// The page that is open, and how many of its rows were given out.
    page: Hints,
    given: usize,
}

impl InStep {
    /// The next rows, which are all of one page, as those of a batch are.
    fn next(&mut self, rows: usize) -> Result<Hints, CodecError> {
        if self.given >= self.page.of.len() {
            let page = self.pages.next().transpose()?;
            let short = || CodecError::Damaged("it has fewer rows of hints than rows".to_owned());
            (self.page, self.given) = (page.ok_or_else(short)?, 0);
        }
        let part = self.given..self.given + rows;
        self.given += rows;
        Ok(self.page.part(part))
    }
}

impl SamplesFile {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is cut short or is not a file of samples,
    /// [`StoreError::Newer`] if a later tardy wrote it, [`StoreError::Io`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        SamplesFile::of(held::open(path)?, path)
    }

    /// The same of a file that is open.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, StoreError> {
        let reader = Reader::open(file).map_err(|error| unread(path, error))?;
        Ok(SamplesFile { path: path.to_owned(), reader })
    }

    /// The streams' names, in the order of their rows.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.reader.streams()
    }

    /// Rows of a stream: packets intended in this trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn rows(&self, stream: &str) -> Result<usize, StoreError> {
        self.reader.rows(stream).map_err(|error| unread(&self.path, error))
    }

    /// The points of a stream that have a source, in causal order, `scheduled` among them.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn points(&self, stream: &str) -> Result<Vec<Point>, StoreError> {
        self.reader.points(stream).map_err(|error| unread(&self.path, error))
    }

    /// The rows of a stream, at most [`tardy_parquet::BATCH_ROWS`] at a time. A stream without rows
    /// gives nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`]; [`StoreError::Damaged`] if a column of the stream is missing.
    pub fn batches(&self, stream: &str) -> Result<Batches, StoreError> {
        let batches = self.reader.batches(stream).map_err(|error| unread(&self.path, error))?;
        Ok(Batches { path: self.path.clone(), batches, hints: None })
    }

    /// The same with what an XDP program left before the packets, if the file has that: figures are
    /// made of its times.
    ///
    /// # Errors
    /// As [`SamplesFile::batches`].
    pub fn batches_with_hints(&self, stream: &str) -> Result<Batches, StoreError> {
        let pages = self.reader.hints(stream).map_err(|error| unread(&self.path, error))?;
        let hints = pages.map(|pages| InStep { pages, page: Hints::default(), given: 0 });
        Ok(Batches { hints, ..self.batches(stream)? })
    }
}

impl SamplesFile {
    /// The names of the columns of hints; nothing if the file has none. It may have `hint` alone.
    pub fn hint_columns(&self) -> Option<Vec<String>> {
        self.reader.hint_columns()
    }

    /// What an XDP program left before the packets of a stream, page by page; nothing if
    /// no stream of the file has that.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`]; [`StoreError::Damaged`] of a page.
    pub fn hints(
        &self,
        stream: &str,
    ) -> Result<Option<impl Iterator<Item = Result<Hints, StoreError>> + use<>>, StoreError> {
        let pages = self.reader.hints(stream).map_err(|error| unread(&self.path, error))?;
        let path = self.path.clone();
        Ok(pages.map(|pages| pages.map(move |page| page.map_err(|error| unread(&path, error)))))
    }
}

impl Batches {
    /// Replaces a batch by the next rows, using its memory again; false if there are no more.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]; no rows come after it.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, StoreError> {
        let is_read = self.batches.read(batch).map_err(|error| unread(&self.path, error))?;
        // The batch may have those of another stream.
        batch.hints = None;
        if let (true, Some(hints)) = (is_read, &mut self.hints) {
            batch.hints = Some(hints.next(batch.len()).map_err(|error| unread(&self.path, error))?);
        }
        Ok(is_read)
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Batch::default();
        self.read(&mut batch).map(|is_read| is_read.then_some(batch)).transpose()
    }
}

fn unread(path: &Path, error: CodecError) -> StoreError {
    StoreError::of_samples("read", path, error)
}

/// The name that samples have in errors while they lie in memory.
const IN_MEMORY: &str = "samples.parquet";

/// Writes the streams of a trial to `path`, and fsyncs it.
///
/// # Errors
/// [`StoreError::Rows`] if a batch contradicts itself, [`StoreError::Io`] if the disk refuses.
pub fn write_samples(path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    // Before there is a file.
    tardy_parquet::check(streams).map_err(|error| unwritten(path, error))?;
    fill(File::create(path).map_err(StoreError::io("create", path))?, path, streams)
}

/// The same into a file that was made for them, if their numbers are such as a reader takes.
pub(crate) fn write_into(file: File, path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    tardy_parquet::check_numbers(streams).map_err(|error| unwritten(path, error))?;
    fill(file, path, streams)
}

fn fill(file: File, path: &Path, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
    let mut to = BufWriter::new(file);
    tardy_parquet::write(&mut to, streams).map_err(|error| unwritten(path, error))?;
    let file = to.into_inner().map_err(|e| StoreError::io("write", path)(e.into_error()))?;
    file.sync_all().map_err(StoreError::io("sync", path))
}

/// The same bytes, in memory.
///
/// # Errors
/// [`StoreError::Rows`] if a batch contradicts itself.
pub fn encode_samples(streams: &[(&str, &Batch)]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    tardy_parquet::write(&mut bytes, streams).map_err(|error| unwritten(Path::new(IN_MEMORY), error))?;
    Ok(bytes)
}

fn unwritten(path: &Path, error: CodecError) -> StoreError {
    StoreError::of_samples("write", path, error)
}

/// Describes `samples.parquet`: columns, units, and the view.
pub fn samples_schema() -> Value {
    let column = |name: &str, kind: &str, unit: Option<&str>, nullable: bool, says: &str| json!({"name": name, "type": kind, "unit": unit, "nullable": nullable, "says": says});
    let stage = "stamp of the second point − stamp of the first, of two neighbouring points that have a source in the stream; \
                 null if either stamp is missing in this row, or the points are no neighbours in this row's stream";
    let full = "only in a file that needs it: stamp of the point − scheduled, in rows that have this stamp and lack the one \
                before it; null in all others";
    let hint = "only with a user's own XDP program, or with `rx.hints`: what the member of the struct holds, as the program wrote it; null if \
                the struct of this row does not have it, or its `has_MEMBER` is 0. STRUCT is in front where two structs mean different things by the name, or \
                another column has it";
    let flags = [
        (Flags::EARLY, "early", "it arrived before its scheduled instant"),
        (Flags::LATE, "late", "it was received after scheduled + deadline"),
        (Flags::DUPLICATE, "duplicate", "it arrived more than once; the stamps are the first arrival's"),
        (Flags::REORDERED, "reordered", "it arrived after a packet that was sent later"),
        (Flags::OVERRUN, "overrun", "the sender woke after this packet's slot"),
        (
            Flags::LAUNCH_MISSED,
            "launch_missed",
            "not_sent: its launch time had passed when the queue discipline could send it",
        ),
        (Flags::LAUNCH_INVALID, "launch_invalid", "not_sent: the queue discipline refused its launch time"),
        (Flags::QDISC_DROPPED, "qdisc_dropped", "not_sent: the queue discipline dropped it without a report"),
    ];
    json!({
        "format": FORMAT,
        "file": "trials/<cell>/<n>/samples.parquet",
        "row": "one intended packet; a stream's rows stand together, ordered by seq",
        "columns": [
            column("seq", "INT64", None, false, "the packet's number in the trial, from 0"),
            column("scheduled_ns", "INT64", Some("ns"), false, "the intended instant, TAI since 1970"),
            column("stream", "STRING", None, false, "the stream's name"),
            column("outcome", "STRING", None, false, "what became of the packet: one of `outcomes`"),
            column("flags", "INT32", None, false, "sum of the bits in `flags`"),
            column("pcp", "INT32", None, true, "the VLAN priority that arrived, where the port sees one"),
        ],
        "stages": column("POINT..POINT", "INT64", Some("ns"), true, stage),
        "full_width": column("scheduled..POINT", "INT64", Some("ns"), true, full),
        "hint": column("hint", "STRING", None, true, "only with a user's own XDP program, or with `rx.hints`: the name of the struct that it left before the packet; null if it left none"),
        "hint_members": column("MEMBER or STRUCT.MEMBER", "INT64 or UINT64", None, true, hint),
        "outcomes": Outcome::ALL.map(Outcome::name),
        "flags": flags.map(|(bit, name, says)| json!({"bit": bit.0, "name": name, "says": says})),
        "points": Point::ALL.map(Point::name),
        "clocks": "a value that two clocks took is here as it was converted, also where the rule clock-bound refuses the figure; how wrong it may be is in trial.json, in the stream's `offsets`",
        "footer": "key `tardy`: JSON with the format, and name, rows, points and pcp of each stream in the order of the rows",
        "view": sql_view(&Point::ALL),
    })
}

/// A point as a column of the view: `end` closes a `CASE`, and DuckDB from version 2 on refuses it
/// as a name.
fn quoted(point: Point) -> String {
    if matches!(point, Point::Begin | Point::End) { format!("\"{point}\"") } else { point.to_string() }
}

/// A view for DuckDB, to be made in the run folder: every metric between two of `points` that one
/// stream can have (`scheduled` always being one), and `delta`, for every finished trial, with the
/// columns of hints that any file has at the end. It does not matter which columns a file has. A
/// row without both stamps has null.
pub fn sql_view(points: &[Point]) -> String {
    let mut chain: Vec<Point> = points.iter().copied().chain([Point::Scheduled]).collect();
    chain.sort_unstable();
    chain.dedup();
    // A pass of a copy is no packet: its two points come after `scheduled` alone.
    let is_of_pass = |point: Point| matches!(point, Point::Begin | Point::End);
    let is_span =
        |(from, to): &(Point, Point)| from < to && (*from == Point::Scheduled || is_of_pass(*from) == is_of_pass(*to));
    let pairs = chain.iter().flat_map(|from| chain.iter().map(move |to| (*from, *to)));
    let spans: Vec<(Point, Point)> = pairs.filter(is_span).collect();
    let keys = "filename, stream, seq, scheduled_ns, outcome, flags, pcp";
    // What is left of all columns without these are those of hints. Two points in a row are in none
    // of their names, so the view's own intermediate columns have them.
    let rest = |known: Vec<String>| format!("* EXCLUDE ({keys}, {})", known.join(", "));

    let mut sql = String::from("CREATE OR REPLACE VIEW metrics AS\nWITH spans AS (\n");
    // Cell ids have an equals sign, which DuckDB would take for a column of its own (hive
    // partitions).
    sql += "  SELECT * FROM read_parquet('trials/*/*[0-9]/samples.parquet',\n";
    sql += "    filename = true, union_by_name = true, hive_partitioning = false)\n";
    sql += "  UNION ALL BY NAME\n  -- a file has only the columns that it needs; this adds the others, without a row\n  SELECT\n";
    let declared: Vec<String> =
        spans.iter().map(|span| format!("    NULL::BIGINT AS \"{}\"", column_name(*span))).collect();
    let stages: Vec<String> = spans.iter().map(|span| format!("\"{}\"", column_name(*span))).collect();
    let _ = write!(sql, "{}\n  WHERE false\n),\n", declared.join(",\n"));
    sql += "-- stamp of each point − scheduled, from the nearest stamp before it that the row has; one at a time,\n";
    sql += "-- for an expression that names another one of its SELECT is planned with all of that one in it\n";
    sql += "at_scheduled AS (SELECT *, 0::BIGINT AS scheduled FROM spans)";
    let mut last = Point::Scheduled;
    for at in &chain[1..] {
        let before = spans.iter().rev().filter(|(_, to)| to == at);
        let ways: Vec<String> = before.map(|span| format!("{} + \"{}\"", quoted(span.0), column_name(*span))).collect();
        let (ways, name) = (ways.join(", "), quoted(*at));
        let _ = write!(sql, ",\nat_{at} AS (SELECT *, coalesce({ways}) AS {name} FROM at_{last})");
        last = *at;
    }
    let points: Vec<String> = chain.iter().copied().map(quoted).collect();
    let (points, rest_of_stages) = (points.join(", "), rest([stages, points.clone()].concat()));
    let _ = write!(sql, ",\noffsets AS (\n  SELECT {keys},\n    {points},\n    {rest_of_stages}\n  FROM at_{last}\n)");
    // A packet that port `xdp` takes in never comes to the kernel's stack.
    let stamped: Vec<&Point> = chain.iter().filter(|at| [Point::RxKernel, Point::RxXdp].contains(at)).collect();
    let delta = !stamped.is_empty();
    if delta {
        sql += ",\narrivals AS (\n  -- an arrival without a stamp comes right after the stamped packet before it\n";
        // Of an answered stream a request may have come whose reply did not.
        let seen = [Point::RxKernel, Point::Receive].into_iter().filter(|point| chain.contains(point));
        let arrived: String = seen.map(|point| format!(" OR {point} IS NOT NULL")).collect();
        // The kernel's stamp if there is one: a row of port `xdp` has none.
        let stamp = match &stamped[..] {
            [one] => one.to_string(),
            _ => format!("coalesce({}, {})", Point::RxKernel, Point::RxXdp),
        };
        let _ = writeln!(
            sql,
            "  SELECT *, outcome = 'received'{arrived} AS \"..arrived\",\n    scheduled_ns + {stamp} AS \"..stamp\","
        );
        sql += "    last_value(\"..stamp\" IGNORE NULLS) OVER (PARTITION BY filename, stream ORDER BY seq) AS \"..place\"\n";
        sql += "  FROM offsets\n)";
    }
    let _ = write!(sql, "\nSELECT {keys}");
    for (from, to) in &spans {
        let _ = write!(sql, ",\n  {} - {} AS \"{}\"", quoted(*to), quoted(*from), column_name((*from, *to)));
    }
    if delta {
        sql += ",\n  -- in the order of arrival, within a stream of a trial\n";
        sql += "  \"..stamp\" - lag(\"..stamp\") OVER (PARTITION BY filename, stream, \"..arrived\"\n";
        sql += "    ORDER BY \"..place\" NULLS FIRST, \"..stamp\" IS NULL, seq) AS delta";
    }
    let mut known: Vec<String> = chain.iter().copied().map(quoted).collect();
    if delta {
        known.extend(["arrived", "stamp", "place"].map(|own| format!("\"..{own}\"")));
    }
    let _ = write!(sql, ",\n  -- what XDP programs left before packets, where any file has that\n  {}", rest(known));
    let _ = writeln!(sql, "\nFROM {};", if delta { "arrivals" } else { "offsets" });
    sql
}
