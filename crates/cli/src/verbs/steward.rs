// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy steward`: looks at this machine, changes it and puts it back for a coordinator
//! elsewhere. Ends when its stdin closes.

use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::{stdin, stdout};
use std::path::Path;
use tardy_lab::host::serve;
use tardy_lab::host::steward::Steward;
use tardy_lab::identity;
use tardy_sys::process;

/// Serves until the coordinator is gone, and then puts back what is left.
pub fn call() -> Result<Exit> {
    // A signal at the terminal is the coordinator's: what is to be put back here is put back in
    // its time.
    process::leave_terminal();
    let mut steward = Steward::new(&super::state(), Path::new(identity::SELF), std::process::id());
    serve::serve(stdin().lock(), &mut stdout().lock(), &identity::version(), &mut steward)
        .map_err(|error| Failure::new(Exit::Cannot, format!("steward: {error}")))?;
    Ok(Exit::Good)
}
