// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run inside a guest, reported to the host: in the guest a [`Sink`] that writes frames, on the
//! host their way into the sink that a run on the host would have reported to. So the run
//! folder is made by the same code, trial by trial, and what a guest had measured before it broke
//! is kept.

use super::expected::Expected;
use super::frame::{self, FrameKind};
use crate::run::{Event, Sink, What};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tardy_model::sample::Batch;
use tardy_model::stream::Side;
use tardy_model::trial::TrialRecord;

/// In the guest: writes what happens to the port.
pub struct Relay<W> {
    port: W,
    next_progress: BTreeMap<(String, Side), Instant>,
    /// The first thing that the port did not take.
    broken: Option<io::Error>,
}

/// Live figures go this often: a port's interrupts are work that falls into the measurement.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl<W: Write> Relay<W> {
    /// Onto an open port.
    pub fn new(port: W) -> Self {
        Relay { port, next_progress: BTreeMap::new(), broken: None }
    }

    /// Says that something happened just now.
    pub fn say(&mut self, what: What) {
        self.write_event(&Event::now(what));
    }

    fn write_event(&mut self, event: &Event) {
        match serde_json::to_vec(event) {
            Ok(bytes) => self.write(FrameKind::Event, &bytes),
            Err(error) => self.broken = self.broken.take().or(Some(error.into())),
        }
    }

    fn write(&mut self, kind: FrameKind, bytes: &[u8]) {
        if let Err(error) = frame::write(&mut self.port, kind, bytes) {
            self.broken.get_or_insert(error);
        }
    }

    pub fn into_port(self) -> W {
        self.port
    }
}

impl<W: Write> Sink for Relay<W> {
    fn event(&mut self, event: Event) {
        match &event.what {
            What::Trial { .. } => self.next_progress.clear(),
            What::Progress { stream, side, .. } => {
                let now = Instant::now();
                let next_progress = self.next_progress.entry((stream.clone(), *side)).or_insert(now);
                if now < *next_progress {
                    return;
                }
                *next_progress = now + PROGRESS_EVERY;
            }
            _ => {}
        }
        self.write_event(&event);
    }

    fn load_output(&mut self, output: Vec<(String, Vec<u8>)>) {
        if let Ok(bytes) = postcard::to_stdvec(&output) {
            self.write(FrameKind::Output, &bytes);
        }
    }

    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let bytes = trial_bytes(record, streams)?;
        self.write(FrameKind::Trial, &bytes);
        match self.broken.take() {
            Some(error) => Err(format!("the guest's port took no more: {error}").into()),
            None => Ok(()),
        }
    }
}

/// A trial: the length of its record, the record in JSON as the run folder has it, the samples in
/// postcard.
///
/// # Errors
/// If it cannot be encoded.
pub fn trial_bytes(record: &TrialRecord, streams: &[(String, Batch)]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let json = serde_json::to_vec(record)?;
    let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&json);
    Ok(postcard::to_extend(streams, bytes)?)
}

/// The trial back. `packets` are those of each of the cell's streams: an empty stream has twenty
/// bytes here and many times as many in memory, so no more of them are read.
///
/// # Errors
/// If the bytes are not a trial's, are of more streams or packets than the cell's, or the columns
/// are of different lengths.
pub fn trial_of<'a>(
    bytes: &[u8],
    packets: impl FnOnce(&str) -> Result<&'a BTreeMap<String, u32>, String>,
) -> Result<(TrialRecord, Vec<(String, Batch)>), String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("a trial was cut short")?;
    let length = u32::from_le_bytes(*length) as usize;
    let (json, samples) = rest.split_at_checked(length).ok_or("a trial was cut short")?;
    let record: TrialRecord = serde_json::from_slice(json).map_err(|error| format!("a trial's record: {error}"))?;
    let packets = packets(&record.cell)?;
    let wrong = |error: postcard::Error| format!("a trial's samples: {error}");
    let (entries, mut rest) = postcard::take_from_bytes::<u64>(samples).map_err(wrong)?;
    if entries > packets.len() as u64 {
        return Err(format!("samples of {entries} streams came, and cell `{}` has {}", record.cell, packets.len()));
    }
    let mut streams = Vec::new();
    for _ in 0..entries {
        let ((name, batch), left): ((String, Batch), &[u8]) = postcard::take_from_bytes(rest).map_err(wrong)?;
        let most = packets.get(&name).ok_or_else(|| format!("cell `{}` has no stream `{name}`", record.cell))?;
        if !batch.is_even() {
            return Err(format!("the samples of stream `{name}` have columns of different lengths"));
        }
        if batch.len() > *most as usize {
            return Err(format!("stream `{name}` has {} samples, and {most} packets", batch.len()));
        }
        streams.push((name, batch));
        rest = left;
    }
    Ok((record, streams))
}

/// What programs wrote, for `most` programs at most: an empty entry has two bytes here and many
/// times that in memory.
fn output_of(bytes: &[u8], most: usize) -> Result<Vec<(String, Vec<u8>)>, String> {
    let wrong = |error: postcard::Error| format!("the output of programs: {error}");
    let (entries, mut rest) = postcard::take_from_bytes::<u64>(bytes).map_err(wrong)?;
    if entries > most as u64 {
        return Err(format!("the output of {entries} programs came, and the loads start at most {most}"));
    }
    let mut output = Vec::new();
    for _ in 0..entries {
        let (entry, left) = postcard::take_from_bytes(rest).map_err(wrong)?;
        output.push(entry);
        rest = left;
    }
    Ok(output)
}

/// The result of a frame, apart from what went to the sink.
#[derive(Debug)]
pub enum Heard {
    Told,
    /// The guest is up.
    Up {
        proc_version: String,
    },
    /// A trial's packets are about to go, or on their way.
    Going,
    /// The run is over.
    Over {
        /// What ended it early: the words, and the exit code that goes with them.
        failed: Option<(String, u8)>,
    },
}

/// A frame cannot be reported.
#[derive(Debug)]
pub enum Untold {
    /// It makes no sense.
    Nonsense(String),
    Sink(Box<dyn Error + Send + Sync>),
}

/// On the host: hands the sink what a frame says.
///
/// # Errors
/// If the frame makes no sense for this experiment, or the sink refuses a trial.
pub fn deliver(kind: FrameKind, bytes: &[u8], expected: &mut Expected, sink: &mut dyn Sink) -> Result<Heard, Untold> {
    match kind {
        FrameKind::Output => {
            let most = expected.output().map_err(Untold::Nonsense)?;
            sink.load_output(output_of(bytes, most).map_err(Untold::Nonsense)?);
            return Ok(Heard::Told);
        }
        FrameKind::Trial => {
            let (record, streams) = trial_of(bytes, |cell| expected.packets(cell)).map_err(Untold::Nonsense)?;
            expected.trial(&record, &streams).map_err(Untold::Nonsense)?;
            sink.trial(&record, &streams).map_err(Untold::Sink)?;
            return Ok(Heard::Told);
        }
        FrameKind::Event => {}
    }
    let event: Event = serde_json::from_slice(bytes).map_err(|error| Untold::Nonsense(error.to_string()))?;
    expected.event(&event.what).map_err(Untold::Nonsense)?;
    let heard = match &event.what {
        What::GuestUp { proc_version, .. } => Heard::Up { proc_version: proc_version.clone() },
        What::Progress { .. } => Heard::Going,
        What::Ended { failed, exit_code, .. } => {
            return Ok(Heard::Over { failed: failed.clone().zip(*exit_code) });
        }
        _ => Heard::Told,
    };
    let mut event = Event::now(event.what);
    if let What::Commands { elsewhere, .. } = &mut event.what {
        *elsewhere = true;
    }
    sink.event(event);
    Ok(heard)
}
