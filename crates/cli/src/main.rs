// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `tardy` command: reads the arguments, calls a verb, turns the result into an exit code.

mod args;
mod exit;
mod manual;
mod recorder;
mod usage;
mod verbs;

use args::Verb;
use exit::Exit;
use std::process::ExitCode;
use verbs::{agent, clocks, compare, copy, doctor, export, guest, hints, man, plan, report, run, undo};

fn main() -> ExitCode {
    // Started by a guest's kernel, not by a person.
    if tardy_sys::machine::is_init() {
        return agent::first_process();
    }
    if tardy_sys::machine::called("modprobe") {
        return agent::modprobe();
    }
    // Started by way of /proc/self/exe, it would be `exe` in tables of who used a CPU.
    tardy_sys::process::set_name("tardy");
    tardy_sys::process::trust_path();
    let args = args::read();
    // A panic is a fault in tardy itself; the hook has reported it by then.
    let end = std::panic::catch_unwind(|| call(args.verb));
    let end = end.unwrap_or(Ok(Exit::Internal));
    ExitCode::from(end.unwrap_or_else(|error| exit::tell(&error)) as u8)
}

/// Calls the file that has the verb: a line each.
fn call(verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Run(args) => run::call(args),
        Verb::Plan(args) => plan::call(args),
        Verb::Report(args) => report::call(args),
        Verb::Compare(args) => compare::call(&args),
        Verb::Export(args) => export::call(&args),
        Verb::Copy(args) => copy::call(args),
        Verb::Guest(args) => guest::call(args),
        Verb::Hints(args) => hints::call(&args),
        Verb::Clocks(args) => clocks::call(&args),
        Verb::Doctor(args) => doctor::call(&args),
        Verb::Undo(args) => undo::call(&args),
        Verb::Schema(args) => man::schema(&args),
        Verb::Man(args) => man::man(&args),
        Verb::Notices => man::notices(),
        Verb::Completions(args) => man::completions(&args),
        Verb::Agent(args) => agent::agent(args),
        Verb::Steward => agent::steward(),
        Verb::Noted(args) => agent::noted(&args),
        Verb::Forward(args) => agent::forward(&args),
        Verb::Switch(args) => agent::switch(&args),
        Verb::Ptp(args) => agent::ptp(&args),
        Verb::Hwtstamp(args) => agent::hwtstamp(&args),
    }
}
