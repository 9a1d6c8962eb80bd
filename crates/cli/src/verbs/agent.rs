// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy agent`: the station side. Ends when its stdin closes.

use crate::args::Agent;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::{stdin, stdout};
use std::path::Path;
use tardy_lab::identity;
use tardy_sys::process;

/// Serves until the other side is gone.
pub fn call(args: Agent) -> Result<Exit> {
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
