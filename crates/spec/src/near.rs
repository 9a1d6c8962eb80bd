// SPDX-License-Identifier: MIT OR Apache-2.0
//! "Did you mean": the known word that a wrong one most likely was.

/// Words beyond this length are near to nothing.
const LONGEST: usize = 100;

/// The nearest of `words` to `wrong`, if it is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    // A word pasted from elsewhere may be very long, and the distance costs the product of both
    // lengths.
    if wrong.len() > LONGEST {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let near = |word: &str| strsim::damerau_levenshtein(&wrong, &word.to_lowercase());
    let limit = |word: &str| (word.chars().count().max(wrong.chars().count()) / 3).max(1);
    let short = words.clone().into_iter().filter(|word| word.len() <= LONGEST);
    let slips = short.map(|word| (near(word), word)).filter(|(far, word)| *far <= limit(word));
    let mut begun = words.into_iter().filter(|word| wrong.len() >= 3 && word.to_lowercase().starts_with(&wrong));
    slips.min().map(|found| found.1).or_else(|| begun.next())
}

/// How to fix an unknown word: the nearest one, or the list of all.
pub(crate) fn mend<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, words.clone()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known here: {}", list(words)),
    }
}

/// Words joined for a sentence.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    if words.is_empty() { "nothing".into() } else { words.join(", ") }
}
