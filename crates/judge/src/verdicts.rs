// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts that follow from no trial: what could not be run, what was replaced, what `[validity]`
//! changes, and what a guest's figures are.

use tardy_model::manifest::{GuestEntry, INSTRUCTION_NS};
use tardy_model::validity::{Changed, Validity};
use tardy_model::verdict::{Level, Verdict};

/// The machine could not run a cell.
pub fn refused(why: &str) -> Verdict {
    Verdict::new("refused", Level::Invalid, why)
}

/// The machine could not set up a cell of an optional case.
pub(crate) fn not_available(why: &str) -> Verdict {
    Verdict::new("not-available", Level::Note, format!("not available: {why}"))
}

/// Something was asked for and could not be had.
pub fn short(what: &str) -> Verdict {
    Verdict::new("placement", Level::Warning, what)
}

/// What the experiment set of the rules of validity, where that is not the default: it stands
/// wherever the figures do.
pub(crate) fn set(validity: &Validity) -> Option<Verdict> {
    let changed = validity.changed();
    let level = if changed.iter().any(|changed| changed.milder) { Level::Warning } else { Level::Note };
    let told: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let says = format!("judged by what `[validity]` sets: {}", told.join(", "));
    let verdict = Verdict::new("validity", level, says);
    let with = |verdict: Verdict, changed: &Changed| {
        let name = format!("{}_{}", changed.rule.replace('-', "_"), changed.what);
        verdict.with(&name, changed.is.as_str()).with(&format!("{name}_default"), changed.default.as_str())
    };
    (!changed.is_empty()).then(|| changed.iter().fold(verdict, with))
}

/// True of a guest in real time whose instructions are emulated.
pub(crate) fn is_emulated(guest: &GuestEntry) -> bool {
    !guest.is_exact() && guest.accelerator != "kvm"
}

/// What figures from a guest are, and are not.
pub fn in_guest(guest: &GuestEntry) -> Verdict {
    if guest.is_exact() {
        let ns = INSTRUCTION_NS;
        let says = format!(
            "run in exact virtual time: its nanoseconds are counted instructions at {ns} ns each, good for differences between two runs, \
             not for the latency of hardware; and it is one deterministic draw, so a claim about A and B rests on at least 20 seeded \
             phases (trials)"
        );
        return Verdict::new("exact-time", Level::Note, says).with("instruction_ns", ns);
    }
    let says = match guest.accelerator.as_str() {
        "kvm" => "run in a guest: its figures hold the hypervisor's work and the host's",
        _ => {
            "run in a guest whose processor is emulated in software: its figures are the emulator's on this machine; \
             for figures that repeat, --in guest:exact"
        }
    };
    Verdict::new("guest", Level::Note, says).with("accelerator", guest.accelerator.as_str())
}
