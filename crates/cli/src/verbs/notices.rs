// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy notices`: the licences of what this program contains besides tardy's code.

use crate::exit::Exit;
use anyhow::Result;

/// Made by packaging/notices.py.
const NOTICES: &str = include_str!("../../../../NOTICES");

pub fn call() -> Result<Exit> {
    super::print(NOTICES)?;
    Ok(Exit::Good)
}
