// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel compiles BPF programs as it loads them, or interprets them. The setting is
//! the whole machine's, so a run that sets it keeps other runs from it until the run ends, and the
//! journal has what it was. A program that is loaded stays as it is: the setting comes before what
//! loads the path's programs.

use crate::host::HostId;
use crate::host::place::Place;
use crate::journal;
use crate::machine::Facts;
use crate::slot::{self, Held};
use crate::state::StateError;
use crate::step::{Action, Inverse, Question, Step};
use std::path::Path;
use tardy_model::path::BpfJit;
use tardy_spec::experiment::Setup;
use tardy_sys::proc::BPF_JIT;
use thiserror::Error;

/// What a run holds that sets it.
const NAME: &str = "bpf-jit";

/// Why this run may not set it.
#[derive(Debug, Error)]
pub enum JitError {
    /// Another run sets it.
    #[error(
        "path.bpf_jit sets {BPF_JIT} for the whole machine, and another run of tardy has set it ({holder}): wait for its end, or leave \
         path.bpf_jit out"
    )]
    Taken { holder: String },
    /// A killed run has not put it back.
    #[error("{BPF_JIT} is not what it was: a killed run (slot {slot}) has set it: run `tardy undo`")]
    Left { slot: u16 },
    /// It cannot be kept from others.
    #[error("cannot keep {BPF_JIT} from other runs: {0}")]
    Claim(#[from] StateError),
}

/// Nobody knows whether the kernel compiles BPF programs, so it could not be put back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "path.bpf_jit is to be set, and there is no {BPF_JIT} here: it is in the machine's first network namespace only; run tardy there, or \
     leave path.bpf_jit out"
)]
pub struct NoJit;

/// The setting is this run's as long as this lives.
#[derive(Debug)]
pub(crate) struct Jit {
    _held: Held,
}

impl Jit {
    /// Takes it, unless a killed run has left it: what is found then is not what was there before.
    ///
    /// # Errors
    /// [`JitError::Taken`] and [`JitError::Left`].
    pub(crate) fn claim(state: &Path) -> Result<Jit, JitError> {
        let held = Held::take(NAME)?.ok_or_else(|| JitError::Taken { holder: slot::holder(NAME) })?;
        match left(state) {
            Ok(Some(slot)) => Err(JitError::Left { slot }),
            // Who may not look there may plan, and cannot set it.
            Err(error) if !error.is_denied() => Err(error.into()),
            Ok(None) | Err(_) => Ok(Jit { _held: held }),
        }
    }
}

/// The slot whose journal would put it back. This run has set nothing yet.
fn left(state: &Path) -> Result<Option<u16>, StateError> {
    let Some(slots) = slot::slots(state)? else { return Ok(None) };
    let sets = |number: &u16| {
        let dir = slots.folder(&number.to_string()).ok().flatten();
        // `tardy undo` reports a journal that cannot be read.
        let contents = dir.and_then(|dir| journal::read_in(&dir).ok()).unwrap_or_default();
        let mut inverses = contents.steps.iter().flat_map(|(_, undo)| undo);
        inverses.any(|inverse| matches!(inverse.action, Action::RestoreBpfJit { .. }))
    };
    Ok(slot::numbers(&slots)?.into_iter().find(sets))
}

/// True if the set-up's path sets it on that host.
pub(crate) fn is_set(setup: &Setup, host: HostId) -> bool {
    host == HostId::HERE && setup.path.bpf_jit != BpfJit::AsSet
}

/// Why the machine cannot have the path as it is asked for, where that costs only the cell.
pub(crate) fn refusal(wanted: BpfJit, found: &Facts) -> Option<String> {
    match wanted {
        BpfJit::AsSet => None,
        _ if found.bpf_jit.is_none() => Some(NoJit.to_string()),
        BpfJit::Off if found.interprets == Some(false) => Some(
            "path.bpf_jit = \"off\": this kernel interprets no BPF program (CONFIG_BPF_JIT_ALWAYS_ON): leave it out, or run it in a guest, \
             whose kernel does (--in guest:exact)"
                .to_owned(),
        ),
        BpfJit::On | BpfJit::Off => None,
    }
}

/// What sets it; `None` where it is so already.
///
/// # Errors
/// If nobody knows what it is, so that it could not be put back.
pub(crate) fn step(wanted: BpfJit, place: &Place, found: &Facts) -> Result<Option<Step>, NoJit> {
    let value = match wanted {
        BpfJit::AsSet => return Ok(None),
        BpfJit::On => 1,
        BpfJit::Off => 0,
    };
    let was = found.bpf_jit.ok_or(NoJit)?;
    if (was > 0) == (value > 0) {
        return Ok(None);
    }
    let refused = "the kernel refuses it (${says##*: }): with CONFIG_BPF_JIT_ALWAYS_ON it interprets no BPF programs";
    let set = format!("says=$({{ echo {value} >{BPF_JIT}; }} 2>&1) || {{ echo \"{refused}\" >&2; exit 1; }}");
    let step = Step::new(place, "whether the kernel compiles BPF programs", vec![place.shell(&set, &[])]);
    Ok(Some(step.undone_by(vec![Inverse::here(Action::RestoreBpfJit { was })])))
}

/// What the kernel says of it, where a path sets it. The file has a number, which is JSON.
pub(crate) fn question(wanted: BpfJit, place: &Place) -> Option<Question> {
    (wanted != BpfJit::AsSet)
        .then(|| Question::at(place, place.shell(&format!("read -r is <{BPF_JIT}; echo \"$is\""), &[])))
}
