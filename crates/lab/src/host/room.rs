// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much another machine may report. Its answers go into the run folder's files, which are read
//! again up to a limit, and into messages, a line each. Pure.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tardy_model::harmless;
use tardy_model::manifest::{HostEntry, ReadBack};

/// The most bytes that a machine describes itself with, where it has some thousands; and that its
/// kernel's answers about one path may have.
const OF_ONE: usize = 1 << 20;
/// The most bytes of its state before or after a trial: that of ten thousands of threads. A trial's
/// record has several of these.
const OF_STATE: usize = 8 << 20;
/// The most bytes of all answers of one machine's kernel.
const OF_ALL: usize = 16 << 20;

/// What a machine's kernel may still answer, bytes.
#[derive(Debug)]
pub struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Room(OF_ALL)
    }
}

impl Room {
    /// Takes the answers about one path.
    ///
    /// # Errors
    /// If they are far more than a kernel prints.
    pub fn take(&mut self, answers: &[ReadBack]) -> Result<(), String> {
        let bytes: usize = answers.iter().map(|answer| answer.says.text().len()).sum();
        if bytes > OF_ONE {
            return Err(format!("its kernel answers {bytes} bytes about a path, and {OF_ONE} are the most: {CHECK}"));
        }
        let all = OF_ALL - self.0 + bytes;
        let left = self.0.checked_sub(bytes);
        self.0 =
            left.ok_or_else(|| format!("its kernel has answered {all} bytes, and {OF_ALL} are the most: {CHECK}"))?;
        Ok(())
    }
}

/// What to do about a machine that reports too much.
const CHECK: &str = "look at what `tardy doctor --host` prints of it, and measure with a machine that you trust";

/// May a machine describe itself so?
///
/// # Errors
/// If that is far more than a machine has to say.
pub fn described(entry: &HostEntry) -> Result<(), String> {
    within("describes itself in", entry, OF_ONE)
}

/// May a machine report so much of what a set-up needs to know?
///
/// # Errors
/// If that is far more than it was asked for.
pub fn found(facts: &impl Serialize) -> Result<(), String> {
    within("reports of its devices in", facts, OF_ONE)
}

/// May a machine's state around a trial be so large?
///
/// # Errors
/// If that is far more than one has threads and CPUs for.
pub fn observed(state: &impl Serialize) -> Result<(), String> {
    within("reports its state in", state, OF_STATE)
}

fn within(does: &str, of: &impl Serialize, most: usize) -> Result<(), String> {
    let bytes = serde_json::to_vec(of).map_or(usize::MAX, |text| text.len());
    match bytes > most {
        true => Err(format!("it {does} {bytes} bytes, and {most} are the most: {CHECK}")),
        false => Ok(()),
    }
}

/// The same with each text of it in one line: another machine's words must not look like lines of
/// tardy's own.
///
/// # Errors
/// If it is something else then.
pub fn in_lines<T: Serialize + DeserializeOwned>(of: &T) -> Result<T, serde_json::Error> {
    fn blank(value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(harmless::blanked(&text)),
            Value::Array(all) => Value::Array(all.into_iter().map(blank).collect()),
            Value::Object(all) => {
                Value::Object(all.into_iter().map(|(key, value)| (harmless::blanked(&key), blank(value))).collect())
            }
            other => other,
        }
    }
    serde_json::from_value(blank(serde_json::to_value(of)?))
}
