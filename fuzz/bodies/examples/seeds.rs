// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the seeds of targets `hints`, `message` and `samples` into their archives: once more
//! whenever a message, and with it the protocol, or the packing of samples has changed. With `pack
//! TARGET FOLDER` it makes the target's archive of the inputs in a folder.

use std::io::{Error, Result};
use tardy_fuzz_bodies::corpus::{self, Inputs};
use tardy_fuzz_bodies::{hints, message, samples};

/// Puts the seeds in the place of those of their names; returns all inputs of the target.
fn write(target: &str, seeds: Vec<(&str, Vec<u8>)>) -> Result<Inputs> {
    let mut inputs = corpus::read(target)?;
    inputs.extend(seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)));
    corpus::write(target, &inputs)?;
    Ok(inputs)
}

fn pack(target: &str, folder: &str) -> Result<()> {
    let input = |entry: Result<std::fs::DirEntry>| {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_file() {
            return Err(Error::other(format!("{} is no file", path.display())));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, std::fs::read(&path)?))
    };
    let inputs = std::fs::read_dir(folder)?.map(input).collect::<Result<Inputs>>()?;
    corpus::write(target, &inputs)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["pack", target, folder] => return pack(target, folder),
        [] => {}
        _ => return Err(Error::other("seeds takes no argument, or: pack TARGET FOLDER")),
    }
    let inputs = write("message", message::seeds::seeds())?;
    let heard = inputs.values().filter(|input| message::input(input) > 0).count();
    println!("{heard} of {} inputs of target message hold a message of this protocol", inputs.len());
    let inputs = write("hints", [hints::whole(), hints::broken()].concat())?;
    let whole = inputs.values().filter(|input| hints::input(input)).count();
    println!("{whole} of {} inputs of target hints have a hint struct", inputs.len());
    let inputs = write("samples", [samples::whole(), samples::broken()].concat())?;
    let whole = inputs.values().filter(|input| samples::input(input)).count();
    println!("{whole} of {} inputs of target samples are whole files", inputs.len());
    Ok(())
}
