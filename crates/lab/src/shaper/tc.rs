// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of shaper says to tc: the step that sets the root and what hangs below it, and
//! tc's words for classes and places.

use crate::path::LinkEnd;
use crate::step::{Action, Inverse, Step};
use tardy_model::shaper::Classes;

/// Why a step of the plan is taken; by this a refusal is known to be the queue discipline's.
pub const WHY: &str = "the queue discipline of a device that streams leave by";
/// The root's handle.
pub const ROOT: &str = "100:";

/// The one step that sets the root and its children. Gone with the root are its children.
pub(super) fn step(end: &LinkEnd, root: &[String], children: Vec<Vec<String>>) -> Vec<Step> {
    let device = end.device.as_str();
    let tc = |place: &[&str], words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        end.place.tc(&[&["qdisc", "replace", "dev", device], place, &words[..]].concat())
    };
    let mut does = vec![tc(&["root", "handle", ROOT], root)];
    for child in &children {
        let [parent, words @ ..] = &child[..] else { continue };
        does.push(tc(&["parent", parent], words));
    }
    let undoes = vec![Inverse::within(&end.place, Action::DeleteQdisc { device: device.to_owned() })];
    vec![Step::new(&end.place, WHY, does).undone_by(undoes)]
}

/// Words of a command.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Classes as tc takes them.
pub(super) fn classes(classes: &Classes) -> String {
    let map: Vec<String> = classes.map.iter().map(u8::to_string).collect();
    let queues: Vec<String> = classes.queues.iter().map(|of| format!("{}@{}", of.count, of.offset)).collect();
    format!("num_tc {} map {} queues {}", classes.count(), map.join(" "), queues.join(" "))
}

/// Places below the root that serve these classes, as tc writes them: in hexadecimal.
pub(super) fn places<'a>(classes: &'a Classes, at: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    at.iter().flat_map(|class| classes.minors(*class)).map(|minor| format!("{ROOT}{minor:x}"))
}

/// What hangs below the root: a place, then the words.
pub(super) fn children(at: &[u8], of: &Classes, child: &str) -> Vec<Vec<String>> {
    places(of, at).map(|place| [vec![place], words(child)].concat()).collect()
}
