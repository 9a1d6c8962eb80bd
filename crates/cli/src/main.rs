// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `tardy` command: reads the arguments, calls a verb, turns what came of it into an exit code.

mod args;
mod exit;
mod interrupt;
mod judge;
mod progress;
mod recorder;
mod verbs;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let end = verbs::call(args.verb);
    ExitCode::from(end.unwrap_or_else(|error| exit::tell(&error)) as u8)
}
