// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vocabulary of tardy: time, points, stamps, samples, verdicts, results. No input or output,
//! no unsafe code.
//!
//! Every other crate speaks in these types. A word here is the word in the command line, the
//! experiment file, the documents and the run folder.

/// An enum without data that knows all its values, and by its `name` the words for them: one that
/// is added is among them.
macro_rules! listed {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$of:meta])* $value:ident,)* }) => {
        $(#[$about])*
        pub enum $name { $($(#[$of])* $value,)* }

        impl $name {
            pub const ALL: [$name; [$($name::$value),*].len()] = [$($name::$value),*];
            /// The words for them in files, in the same order.
            pub const WORDS: [&'static str; $name::ALL.len()] = [$($name::$value.name()),*];

            /// What is called so in files.
            pub fn of(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|value| value.name() == word)
            }
        }
    };
}

pub mod comparison;
pub mod copy;
pub mod ethernet;
pub mod expect;
pub mod frame;
pub mod gates;
pub mod harmless;
pub mod histogram;
pub mod load;
pub mod machine;
pub mod manifest;
pub mod passed;
pub mod path;
pub mod placement;
pub mod point;
pub mod port;
pub mod qdisc;
pub mod result;
pub mod sample;
pub mod schema;
pub mod shaper;
pub mod station;
pub mod stream;
pub mod stream_id;
pub mod time;
pub mod trial;
pub mod validity;
pub mod verdict;
pub mod xdp;

/// Version of the run folder and of `results.json`. A reader refuses a higher one.
pub const FORMAT: u32 = 1;
