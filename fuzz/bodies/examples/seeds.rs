// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the seeds of targets `message` and `samples` into the corpus: once more whenever a
//! message, and with it the protocol, or the packing of samples has changed.

use std::io::Result;
use std::path::{Path, PathBuf};
use tardy_fuzz_bodies::{message, samples};

fn corpus(target: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus")).join(target)
}

fn write(target: &str, seeds: Vec<(&str, Vec<u8>)>) -> Result<()> {
    seeds.into_iter().try_for_each(|(name, bytes)| std::fs::write(corpus(target).join(name), bytes))
}

/// How many of a target's inputs are such, and how many there are.
fn count(target: &str, is_such: impl Fn(&[u8]) -> bool) -> Result<(usize, usize)> {
    let inputs: Vec<_> = std::fs::read_dir(corpus(target))?.collect::<Result<_>>()?;
    let mut such = 0;
    for input in &inputs {
        such += usize::from(is_such(&std::fs::read(input.path())?));
    }
    Ok((such, inputs.len()))
}

fn main() -> Result<()> {
    write("message", message::seeds::seeds())?;
    write("samples", [samples::seeds::whole(), samples::seeds::broken()].concat())?;
    let (heard, all) = count("message", |input| message::input(input) > 0)?;
    println!("{heard} of {all} inputs of target message hold a message of this protocol");
    let (whole, all) = count("samples", samples::input)?;
    println!("{whole} of {all} inputs of target samples are whole files");
    Ok(())
}
