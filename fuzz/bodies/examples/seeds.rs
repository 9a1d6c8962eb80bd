// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the seeds of target `message` into the corpus: once more whenever a message, and with it the protocol, has changed.

use std::path::Path;
use tardy_fuzz_bodies::message;
use tardy_fuzz_bodies::message::seeds::seeds;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/message"));
    for (name, bytes) in seeds() {
        std::fs::write(corpus.join(name), bytes)?;
    }
    let inputs: Vec<_> = std::fs::read_dir(corpus)?.collect::<Result<_, _>>()?;
    let mut heard = 0;
    for input in &inputs {
        heard += usize::from(message::input(&std::fs::read(input.path())?) > 0);
    }
    println!("{heard} of {} inputs of target message hold a message of this protocol", inputs.len());
    Ok(())
}
