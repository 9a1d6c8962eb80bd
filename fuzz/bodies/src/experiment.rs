// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment file and its `--set` arguments, from any bytes: an experiment, or clear errors.
//! What an experiment says about itself as its effective file loads again to the same experiment.

use miette::{GraphicalReportHandler, GraphicalTheme};
use tardy_spec::{Source, SpecError, load};

pub fn input(bytes: &[u8]) {
    // Up to the first zero byte the file, then an argument each.
    let mut texts = bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let source = Source { name: "any.toml".to_owned(), text: texts.next().unwrap_or_default() };
    let overrides: Vec<String> = texts.take(8).collect();
    match load(&source, &overrides) {
        Err(error) => error.all().for_each(check_error),
        Ok(experiment) => {
            let effective = Source { name: "experiment.toml".to_owned(), text: experiment.effective.clone() };
            let again = load(&effective, &[]);
            let again = again.unwrap_or_else(|error| panic!("{}\n{}", error.one_line(), effective.text));
            assert_eq!(again.effective, experiment.effective);
            assert_eq!(again, experiment, "{}", effective.text);
        }
    }
}

/// An error is one printable line, and as a picture.
fn check_error(error: &SpecError) {
    let line = error.one_line();
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert!(!error.message.is_empty() && !error.help.is_empty(), "{line}");
    let mut picture = String::new();
    let theme = GraphicalTheme::unicode_nocolor();
    GraphicalReportHandler::new_themed(theme).render_report(&mut picture, error).expect("the picture is drawn");
    assert!(!picture.chars().any(|c| c.is_control() && c != '\n'), "{picture:?}");
}
