// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file has a verb: a line each.

use super::{
    agent, compare, completions, export, guest, hwtstamp, man, notices, plan, report, run, schema, steward, undo,
};
use crate::args::Verb;
use crate::exit::Exit;
use anyhow::Result;

pub fn call(verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Run(args) => run::call(args),
        Verb::Plan(args) => plan::call(args),
        Verb::Report(args) => report::call(args),
        Verb::Compare(args) => compare::call(&args),
        Verb::Export(args) => export::call(&args),
        Verb::Guest(args) => guest::call(args),
        Verb::Undo(args) => undo::call(&args),
        Verb::Schema(args) => schema::call(&args),
        Verb::Man(args) => man::call(&args),
        Verb::Notices => notices::call(),
        Verb::Completions(args) => completions::call(&args),
        Verb::Agent(args) => agent::call(args),
        Verb::Steward => steward::call(),
        Verb::Hwtstamp(args) => hwtstamp::call(&args),
    }
}
