// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy hwtstamp`: shows or sets what a network device stamps, in any namespace. A command of a
//! plan, like `ip` and `tc`.

use crate::args::Hwtstamp;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::io::Error;
use std::path::Path;
use tardy_sys::hwtstamp::{self, HwStamp};
use tardy_sys::{SysError, process};

/// `No such device` and `No such file`: look in the next namespace.
const ENODEV: i32 = 19;
const ENOENT: i32 = 2;

pub fn call(args: &Hwtstamp) -> Result<Exit> {
    let device = args.device.as_str();
    let wanted = args.tx.zip(args.rx).filter(|_| args.what != "show");
    let Some((tx, rx)) = wanted else {
        let says = match first_that_has_it(args, || hwtstamp::read(device)) {
            Ok(now) => serde_json::json!({ "tx": now.tx, "rx": now.rx, "flags": now.flags }),
            Err(error) if error.errno() == ENODEV => return Err(refused(device, &error.to_string()).into()),
            Err(error) => serde_json::json!({ "why": error.to_string() }),
        };
        super::print(&format!("{says}\n"))?;
        return Ok(Exit::Good);
    };
    let to = HwStamp { flags: args.flags, tx, rx };
    let has = first_that_has_it(args, || set(device, to)).map_err(|error| refused(device, &error.to_string()))?;
    // A driver may stamp more than it was asked to. What was there before is to be there again to
    // the letter.
    if args.what == "restore" && has != to {
        return Err(refused(device, &format!("was {to} before and stays {has}")).into());
    }
    Ok(Exit::Good)
}

/// A device that is as it should be is left alone: setting may make it begin anew.
fn set(device: &str, to: HwStamp) -> Result<HwStamp, SysError> {
    if hwtstamp::read(device).is_ok_and(|now| now == to) {
        return Ok(to);
    }
    hwtstamp::set(device, to)?;
    hwtstamp::read(device)
}

/// Asks in one namespace after the other. A namespace that is not there has no device.
fn first_that_has_it(args: &Hwtstamp, ask: impl Fn() -> Result<HwStamp, SysError> + Sync) -> Result<HwStamp, SysError> {
    let mut answer = if args.netns.is_empty() { Some(ask()) } else { None };
    for netns in &args.netns {
        let here = process::in_netns(&Path::new("/run/netns").join(netns), &ask).and_then(|answer| answer);
        let is_elsewhere = here.as_ref().is_err_and(|error| [ENODEV, ENOENT].contains(&error.errno()));
        answer = Some(here);
        if !is_elsewhere {
            break;
        }
    }
    let nowhere =
        || Err(SysError { call: "looking", on: args.device.clone(), source: Error::from_raw_os_error(ENODEV) });
    answer.unwrap_or_else(nowhere)
}

fn refused(device: &str, why: &str) -> Failure {
    Failure::new(Exit::Cannot, format!("what {device} stamps: {why}"))
}
