// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts that a person reads, and may paste into a shell: commands as they are, and everything
//! else as comments. No text of a file, a program or a guest can break out of its comment.

use crate::command::Command;
use tardy_model::harmless;

/// What every script begins with. A step that fails must not let the rest take down what another
/// run has built under these names.
pub const HEAD: &str = "#!/bin/sh\nset -e\n";

/// A script that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(String);

impl Script {
    pub fn new() -> Script {
        Script(HEAD.to_owned())
    }

    /// The one way to write a comment: one line, whatever the text holds.
    pub fn comment(&mut self, text: &str) {
        self.0 += format!("# {}", harmless::blanked(text)).trim_end();
        self.0.push('\n');
    }

    /// A command, quoted for the shell.
    pub fn command(&mut self, command: &Command) {
        self.line(&command.to_string());
    }

    /// A line that a [`Command`] of this machine was printed as.
    pub fn line(&mut self, command: &str) {
        self.0 += &format!("{command}\n");
    }

    /// What another script says, as comments of this one.
    pub fn quote(&mut self, other: &Script) {
        other.0.lines().for_each(|line| self.comment(line));
    }

    pub fn space(&mut self) {
        self.0.push('\n');
    }

    /// Waits for the user.
    pub fn pause(&mut self) {
        self.0 += "printf 'built; Enter puts everything back: '; read _\n";
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}
