// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy agent` and `tardy steward`: processes that a run starts by itself, at a station and on
//! another host. Each ends when its stdin closes.

use crate::args::Agent;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::{stdin, stdout};
use std::path::Path;
use tardy_lab::host::serve;
use tardy_lab::host::steward::Steward;
use tardy_lab::identity;
use tardy_sys::process;

/// Serves until the other side is gone.
pub fn agent(args: Agent) -> Result<Exit> {
    // Ctrl-C at the terminal is for the coordinator, which ends its agents when it is ready to.
    process::leave_terminal();
    if let Some(name) = args.netns {
        let path = Path::new("/run/netns").join(&name);
        process::enter_netns(&path)
            .map_err(|error| Failure::new(Exit::Cannot, format!("cannot enter network namespace {name}: {error}")))?;
    }
    tardy_engine::agent::serve(stdin(), &mut stdout().lock(), &identity::version())
        .map_err(|error| Failure::new(Exit::Internal, format!("agent: {error}")))?;
    Ok(Exit::Good)
}

/// Serves until the coordinator is gone, and then puts back what is left.
pub fn steward() -> Result<Exit> {
    // A signal at the terminal is the coordinator's: what is to be put back here is put back in
    // its time.
    process::leave_terminal();
    let mut steward = Steward::new(&crate::verbs::state(), Path::new(identity::SELF), std::process::id());
    serve::serve(stdin().lock(), &mut stdout().lock(), &identity::version(), &mut steward)
        .map_err(|error| Failure::new(Exit::Cannot, format!("steward: {error}")))?;
    Ok(Exit::Good)
}
