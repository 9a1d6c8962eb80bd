// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long facts that differ in a few words: which are marked, and what is left out.

use super::{Side, compared, side, text};
use tardy_model::verdict::Figure;

fn with(value: &str) -> Side {
    side(|run, _| _ = run.manifest.machine.insert("tuning".into(), Figure::Text(value.into())))
}

/// The two lines of the fact.
fn rows(a: &str, b: &str) -> [String; 2] {
    let said = text(&compared(&with(a), &with(b)));
    let (_, rows) = said.split_once("  machine tuning\n").unwrap_or_else(|| panic!("no long row: {said}"));
    let mut rows = rows.lines().map(|line| line.trim_start().to_owned());
    [rows.next().expect("A"), rows.next().expect("B")]
}

/// Arguments of QEMU as the manifest has them.
fn arguments(kernel: &str, more: &str) -> String {
    let words = [
        "-machine",
        "q35,hpet=on",
        "-cpu",
        "qemu64,-erms",
        "-m",
        "512M",
        "-smp",
        "1",
        "-nodefaults",
        "-display",
        "none",
    ];
    let (head, tail) =
        (words.join("\",\""), "-serial\",\"file:console.log\",\"-no-reboot\",\"-icount\",\"shift=1,sleep=off");
    format!("[\"{head}\",\"-kernel\",\"{kernel}\",\"-initrd\",\"initramfs\",\"{tail}\"{more}]")
}

#[test]
fn of_two_long_lists_only_what_differs_is_shown_and_marked() {
    let [a, b] = rows(&arguments("/cache/debian-6.12/vmlinuz", ""), &arguments("/cache/debian-6.12-rt/vmlinuz", ""));
    assert_eq!(
        a,
        "A  …\"-display\",\"none\",\"-kernel\",[-\"/cache/debian-6.12/vmlinuz\"-],\"-initrd\",\"initramfs\"…"
    );
    assert_eq!(
        b,
        "B  …\"-display\",\"none\",\"-kernel\",{+\"/cache/debian-6.12-rt/vmlinuz\"+},\"-initrd\",\"initramfs\"…"
    );
    // Two places, and one that A does not have.
    let [a, b] = rows(&arguments("/a", ""), &arguments("/b", ",\"-snapshot\""));
    assert_eq!(a, "A  …\"-display\",\"none\",\"-kernel\",[-\"/a\"-],\"-initrd\",\"initramfs\"…,\"shift=1,sleep=off\"]");
    assert_eq!(
        b,
        "B  …\"-display\",\"none\",\"-kernel\",{+\"/b\"+},\"-initrd\",\"initramfs\"…,\"shift=1,sleep=off\"{+,\"-snapshot\"+}]"
    );
}

#[test]
fn a_short_text_of_several_words_is_whole_and_marked() {
    let [a, b] = rows("quiet isolcpus=1 nohz_full=1 threadirqs", "quiet isolcpus=1,2 nohz_full=1 threadirqs");
    assert_eq!(a, "A  quiet isolcpus=1 nohz_full=1 threadirqs");
    assert_eq!(b, "B  quiet isolcpus=1{+,2+} nohz_full=1 threadirqs");
}

#[test]
fn facts_as_large_as_a_file_may_be_take_a_line_each() {
    let long = |word: &str| vec![word; 40_000].join(" ");
    let [a, b] = rows(&long("one"), &long("two"));
    assert!(a.chars().count() < 300 && b.chars().count() < 300, "{a}\n{b}");
    assert!(a.starts_with("A  [-one one") && b.starts_with("B  {+two two"), "{a}\n{b}");
    // Many small differences.
    let many = |word: &str| {
        (0..50).map(|n| format!("{word}{n} same same same same same same same")).collect::<Vec<_>>().join(" ")
    };
    let [a, _] = rows(&many("x"), &many("y"));
    assert!(a.chars().count() < 3_000 && a.ends_with("… (more differs)"), "{a}");
    // What has no counterpart.
    let alone = side(|run, _| _ = run.manifest.machine.insert("tuning".into(), Figure::Text(long("one"))));
    let said = text(&compared(&alone, &side(|_, _| ())));
    let row = said.lines().find(|line| line.contains("A  one one")).expect("a row");
    assert!(row.ends_with("… (159999 characters)") && row.chars().count() < 200, "{row}");
}

#[test]
fn the_figures_stood_below_a_screen_of_facts() {
    let said = text(&compared(&with("a"), &with("b")));
    let at = |piece: &str| said.find(piece).unwrap_or_else(|| panic!("{piece} in {said}"));
    let line = "what differs: 1 of ";
    assert!(
        at(line) < at("scheduled..rx_kernel") && at("scheduled..rx_kernel") < at("\nfacts that differ\n"),
        "{said}"
    );
    assert!(said.contains("facts, which stand below the figures\n"), "{said}");
}
