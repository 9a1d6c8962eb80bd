// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differed in machine, programs and experiment, as rows: short facts next to each other, long
//! ones below each other with their differing words marked.

use crate::figure::ABSENT;
use std::fmt::Write as _;
use tardy_model::comparison::{Comparison, Difference};
use tardy_model::harmless::blanked as plain;

/// Room for a fact's name and for its value in a run.
const NAME: usize = 34;
const VALUE: usize = 30;

/// Facts that are shown.
const MOST: usize = 1_000;

/// How many facts differ, in one line above the figures: they may be the reason of all that
/// follows.
pub(super) fn line(compared: &Comparison) -> String {
    let (differ, facts) = (compared.differences.len(), compared.facts);
    match differ {
        0 => format!("nothing differs in machine, programs and experiment ({facts} facts)"),
        _ => format!("what differs: {differ} of {facts} facts, which follow the figures"),
    }
}

/// The facts that differ, if there are any.
pub(super) fn rows(out: &mut String, compared: &Comparison) {
    if compared.differences.is_empty() {
        return;
    }
    out.push_str("\nfacts that differ\n");
    for Difference { group, key, a, b } in compared.differences.iter().take(MOST) {
        let show = |value: &Option<String>| value.as_deref().map_or_else(|| ABSENT.to_owned(), plain);
        let name = plain(&format!("{} {key}", group.name()));
        let (whole_a, whole_b) = (show(a), show(b));
        let long = |text: &str, room: usize| text.chars().count() > room;
        if !long(&name, NAME) && !long(&whole_a, VALUE) && !long(&whole_b, VALUE) {
            let _ = writeln!(out, "  {name:<NAME$}  {whole_a:<VALUE$}  {whole_b}");
            continue;
        }
        let [a, b] = match (a, b) {
            // Of one word nothing need be marked.
            (Some(_), Some(_)) if whole_a.contains([' ', ',']) || whole_b.contains([' ', ',']) => {
                marked(&whole_a, &whole_b)
            }
            _ => [begun(&whole_a), begun(&whole_b)],
        };
        let _ = writeln!(out, "  {name}\n    A  {a}\n    B  {b}");
    }
    if let Some(more) = compared.differences.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(out, "  … and {more} more: --format json has them");
    }
}

/// A text with at most this many characters is shown whole.
const WHOLE: usize = 120;
/// Characters of equal text that stay next to a difference, up to a whole word.
const BESIDE: usize = 20;
/// A piece that differs is cut to this many characters.
const PIECE: usize = 200;
/// The most pieces that differ that are shown.
const PIECES: usize = 12;
/// Texts with more pairs of words than this are not looked at word by word.
const PAIRS: usize = 1 << 20;

/// A stretch of both texts.
#[derive(Debug, PartialEq)]
enum Stretch {
    Equal(String),
    Differs([String; 2]),
}

/// Both texts with their differences marked, `[-so-]` in the first and `{+so+}` in the second.
pub(super) fn marked(a: &str, b: &str) -> [String; 2] {
    let stretches = stretches(&words(a), &words(b));
    let longest = a.chars().count().max(b.chars().count());
    [0, 1].map(|side| draw(&stretches, side, longest > WHOLE))
}

/// The beginning of a text that has no counterpart.
pub(super) fn begun(text: &str) -> String {
    let length = text.chars().count();
    if length <= WHOLE {
        return text.to_owned();
    }
    format!("{}… ({length} characters)", text.chars().take(WHOLE).collect::<String>())
}

/// Words and what is between them; of lists each entry is one.
fn words(text: &str) -> Vec<&str> {
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']');
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match between(first) {
            true => first.len_utf8(),
            false => rest.find(between).unwrap_or(rest.len()),
        };
        let (word, more) = rest.split_at(end);
        words.push(word);
        rest = more;
    }
    words
}

fn is_word(word: &str) -> bool {
    word.chars().any(|c| !c.is_whitespace() && !matches!(c, ',' | '[' | ']'))
}

fn stretches(a: &[&str], b: &[&str]) -> Vec<Stretch> {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a_rest, b_rest) = (&a[head..], &b[head..]);
    let tail = a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a_core, b_core) = (&a_rest[..a_rest.len() - tail], &b_rest[..b_rest.len() - tail]);
    let mut out: Vec<Stretch> = Vec::new();
    let equal = |out: &mut Vec<Stretch>, words: &[&str]| {
        if let Some(Stretch::Equal(text)) = out.last_mut() {
            *text += &words.concat();
        } else if !words.is_empty() {
            out.push(Stretch::Equal(words.concat()));
        }
    };
    equal(&mut out, &a[..head]);
    for (same, [of_a, of_b]) in core(a_core, b_core) {
        match (same, out.last_mut()) {
            (true, _) => equal(&mut out, &of_a),
            (false, Some(Stretch::Differs([a, b]))) => {
                *a += &of_a.concat();
                *b += &of_b.concat();
            }
            (false, _) => out.push(Stretch::Differs([of_a.concat(), of_b.concat()])),
        }
    }
    equal(&mut out, &a_rest[a_core.len()..]);
    joined(out)
}

type Run<'a> = (bool, [Vec<&'a str>; 2]);

/// The middle of both by their longest common subsequence of words.
fn core<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Run<'a>> {
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    if a.len().saturating_mul(b.len()) > PAIRS {
        return vec![(false, [a.to_vec(), b.to_vec()])];
    }
    let wide = b.len() + 1;
    // How many words the rests from (i, j) on have in common, in order.
    let mut common = vec![0u32; (a.len() + 1) * wide];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * wide + j] = match a[i] == b[j] {
                true => common[(i + 1) * wide + j + 1] + 1,
                false => common[(i + 1) * wide + j].max(common[i * wide + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut runs) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            runs.push((true, [vec![a[i]], vec![b[j]]]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && common[(i + 1) * wide + j] >= common[i * wide + j + 1]) {
            runs.push((false, [vec![a[i]], Vec::new()]));
            i += 1;
        } else {
            runs.push((false, [Vec::new(), vec![b[j]]]));
            j += 1;
        }
    }
    runs
}

/// Differences between which no word is equal are one.
fn joined(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let last = stretches.len().saturating_sub(1);
    let mut out: Vec<Stretch> = Vec::new();
    for (n, stretch) in stretches.into_iter().enumerate() {
        match (out.last_mut(), stretch) {
            (Some(Stretch::Differs([a, b])), Stretch::Equal(text)) if n < last && !is_word(&text) => {
                *a += &text;
                *b += &text;
            }
            (Some(Stretch::Differs([a, b])), Stretch::Differs([more_a, more_b])) => {
                *a += &more_a;
                *b += &more_b;
            }
            (_, stretch) => out.push(stretch),
        }
    }
    out
}

fn draw(stretches: &[Stretch], side: usize, cut: bool) -> String {
    let mut out = String::new();
    let mut pieces = 0;
    for (n, stretch) in stretches.iter().enumerate() {
        match stretch {
            Stretch::Equal(text) if cut => {
                let before = if n > 0 { head(text) } else { "" };
                let after = if n + 1 < stretches.len() { tail(text) } else { "" };
                match before.len() + after.len() < text.len() {
                    true => out += &format!("{before}…{after}"),
                    false => out += text,
                }
            }
            Stretch::Equal(text) => out += text,
            Stretch::Differs(_) if cut && pieces == PIECES => {
                out += " … (more differs)";
                break;
            }
            Stretch::Differs(texts) => {
                pieces += 1;
                let text = &texts[side];
                let text = match cut && text.chars().count() > PIECE {
                    true => format!("{}…", text.chars().take(PIECE).collect::<String>()),
                    false => text.clone(),
                };
                match side {
                    _ if text.is_empty() => {}
                    0 => out += &format!("[-{text}-]"),
                    _ => out += &format!("{{+{text}+}}"),
                }
            }
        }
    }
    out
}

/// The first words of a text.
fn head(text: &str) -> &str {
    let mut end = 0;
    for word in words(text) {
        end += word.len();
        if end >= BESIDE {
            break;
        }
    }
    if end > 4 * BESIDE { "" } else { &text[..end] }
}

fn tail(text: &str) -> &str {
    let mut from = text.len();
    for word in words(text).into_iter().rev() {
        from -= word.len();
        if text.len() - from >= BESIDE {
            break;
        }
    }
    if text.len() - from > 4 * BESIDE { "" } else { &text[from..] }
}
