// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `tardy` command: reads the arguments, calls a verb, turns the result into an exit code.

mod args;
mod exit;
mod interrupt;
mod manual;
mod progress;
mod recorder;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Started by a guest's kernel, not by a person.
    if tardy_sys::machine::is_init() {
        return verbs::init::call();
    }
    if tardy_sys::machine::called("modprobe") {
        return verbs::init::modprobe();
    }
    tardy_sys::search::trust_path();
    let args = args::read();
    // A panic is a fault in tardy itself; the hook has reported it by then.
    let end = std::panic::catch_unwind(|| verbs::call(args.verb));
    let end = end.unwrap_or(Ok(exit::Exit::Internal));
    ExitCode::from(end.unwrap_or_else(|error| exit::tell(&error)) as u8)
}
