// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy completions`: what a shell needs to complete verbs and flags.

use crate::args::{self, Completions, Shell};
use crate::exit::Exit;
use anyhow::Result;

/// Prints the shell's script.
pub fn call(args: &Completions) -> Result<Exit> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "tardy", &mut script);
    super::print(&String::from_utf8(script)?)?;
    Ok(Exit::Good)
}
