// SPDX-License-Identifier: MIT OR Apache-2.0
//! A strict reader of the XML that tardy writes: it fails on whatever a parser would refuse.

use std::collections::BTreeMap;

/// An element, and the text that is in it alone.
pub struct Tag {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub text: String,
}

/// All elements, in the order in which they begin.
pub fn tags(xml: &str) -> Vec<Tag> {
    let legal = |c: char| matches!(c, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(legal), "XML has no such character: {xml:?}");
    let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
    let (mut tags, mut open): (Vec<Tag>, Vec<usize>) = (Vec::new(), Vec::new());
    while let Some((before, after)) = rest.split_once('<') {
        match open.last() {
            Some(at) => tags[*at].text += &plain(before),
            None => assert_eq!(before.trim(), "", "text outside of the root"),
        }
        let (inside, next) = after.split_once('>').expect("a tag that ends");
        rest = next;
        if let Some(name) = inside.strip_prefix('/') {
            let at = open.pop().expect("something is open");
            assert_eq!(tags[at].name, name, "{xml}");
            continue;
        }
        assert!(open.is_empty() == tags.is_empty(), "one root: {xml}");
        let (inside, closed) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, mut list) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut attributes = BTreeMap::new();
        while !list.is_empty() {
            let (name, value) = list.split_once("=\"").expect("an attribute");
            let (value, more) = value.split_once('"').expect("a value that ends");
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
            assert!(attributes.insert(name.to_owned(), plain(value)).is_none(), "{name} twice: {inside}");
            list = more.strip_prefix(' ').unwrap_or_else(|| {
                assert_eq!(more, "");
                more
            });
        }
        if !closed {
            open.push(tags.len());
        }
        tags.push(Tag { name: name.to_owned(), attributes, text: String::new() });
    }
    assert!(open.is_empty() && rest == "\n", "it ends with its root: {xml}");
    tags
}

/// Text without its entities.
fn plain(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').expect("an entity");
        let entities = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\'')];
        let (_, c) = entities.iter().find(|(name, _)| *name == entity).expect("a known entity");
        out.push(*c);
        out += rest;
    }
    out
}
