// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic classes, in the table for a terminal and in documents.

use super::sample::run;
use tardy_model::result::ClassResult;

fn classes() -> Vec<ClassResult> {
    let of = |class: u8, judged: u64, packets: u64| ClassResult {
        class: Some(class),
        qdiscs: vec!["pfifo".to_owned()],
        packets,
        judged,
        inside: judged.saturating_sub(3),
        late: judged.min(3),
        ..ClassResult::default()
    };
    vec![of(0, 0, 0), of(1, 1_000, 1_020), of(2, 0, 0), of(3, 0, 40)]
}

#[test]
fn classes_that_saw_no_packet_were_left_out_without_a_word() {
    let mut sample = run(&["all"]);
    sample.results.cells[0].classes = classes();
    let text = sample.draw("text", 100);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("class")).collect();
    assert_eq!(
        lines,
        [
            "class 1    inside 997 of 1 000  late 3  pfifo: passed 1 020  dropped 0  overlimits 0",
            "class 3    pfifo: passed 40  dropped 0  overlimits 0",
            "classes    0, 2: no packet",
        ]
    );
    sample.results.cells[0].classes.truncate(2);
    let text = sample.draw("text", 100);
    assert!(text.lines().any(|line| line.trim() == "class 0    no packet"), "{text}");
    assert!(!text.contains("classes"), "{text}");
}

#[test]
fn a_class_in_which_nothing_was_judged_was_told_as_none_inside() {
    let mut sample = run(&["all"]);
    sample.results.cells[0].classes = classes();
    for format in ["md", "org"] {
        let text = sample.draw(format, 100);
        let row = |class: &str| {
            let of =
                |line: &&str| line.split('|').nth(1).is_some_and(|cell| cell.trim() == class) && line.contains("pfifo");
            let line = text.lines().find(of).unwrap_or_else(|| panic!("no class {class}: {text}"));
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("1"), ["1", "pfifo", "1000", "997", "0", "3", "1020", "0", "0"], "{format}");
        assert_eq!(row("3"), ["3", "pfifo", "–", "–", "–", "–", "40", "0", "0"], "{format}");
    }
}
