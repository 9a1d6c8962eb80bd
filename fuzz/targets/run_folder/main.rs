// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run folder that was damaged, or made to harm: every picture of it is drawn, or one error says what is wrong.
//!
//! The input is a list of edits of a sound run folder, which the program's own writers make when the target starts: so
//! nothing here depends on how a file is packed. The check sum of the samples is not looked at under fuzzing.
#![no_main]

#[path = "../../../crates/cli/src/judge.rs"]
#[allow(dead_code)]
mod judge;
#[path = "../../../crates/cli/src/traces.rs"]
#[allow(dead_code)]
mod traces;

mod edits;
mod sound;

use libfuzzer_sys::{Corpus, fuzz_target};
use sound::Sound;
use std::path::Path;
use std::sync::OnceLock;
use tardy_report::{FORMATS, Options, Picture};
use tardy_spec::Source;
use tardy_store::RunFolder;
use traces::Traces;

static SOUND: OnceLock<Sound> = OnceLock::new();

fuzz_target!(init: {
    let sound = SOUND.get_or_init(Sound::new);
    sound.lay();
    report(&sound.path()).expect("the sound folder is reported");
}, |bytes: &[u8]| -> Corpus {
    let sound = SOUND.get_or_init(Sound::new);
    sound.lay();
    if !edits::apply(bytes, sound) {
        return Corpus::Reject;
    }
    if let Err(error) = report(&sound.path()) {
        assert!(!format!("{error:#}").is_empty());
    }
    Corpus::Keep
});

/// What `tardy report` does, in every format.
fn report(path: &Path) -> anyhow::Result<()> {
    let run = RunFolder::open(path)?;
    let manifest = run.manifest()?;
    let source = Source { name: "experiment.toml".to_owned(), text: run.experiment()? };
    let experiment = tardy_spec::load(&source, &[])?;
    let judged = judge::folder(&run, &experiment, &manifest)?;
    let traces = Traces::of_folder(&run, &experiment, &judged.results)?;
    let commands = run.commands().ok();
    let picture = Picture {
        results: &judged.results,
        manifest: &manifest,
        facts: &judge::facts(&experiment),
        bars: &|cell, stream, metric| judged.bars(cell, stream, metric),
        run_dir: Some("run"),
        elapsed: None,
        experiment: Some(&experiment.effective),
        traces: &traces.all,
        commands: commands.as_deref(),
    };
    for format in FORMATS {
        let drawn = (format.make)(&picture, &Options { width: 80, colour: false })?;
        let harmless = |c: char| !c.is_control() || c == '\n';
        let for_people = matches!(format.name, "text" | "md" | "org");
        assert!(!for_people || drawn.chars().all(harmless), "{} would move the cursor: {drawn:?}", format.name);
    }
    Ok(())
}
