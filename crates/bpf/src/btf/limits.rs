// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a table of types is followed, whoever made it.

/// The most bytes of a name, the same as for the kernel's symbols. A table whose names all were
/// one of megabytes would otherwise take far more memory than its own.
pub const MOST_NAME: usize = 511;

/// The most types that may lead to each other before one that is more than a name: the kernel's own
/// limit. A typedef that leads back to itself would otherwise have no end.
pub const MOST_STEPS: usize = 32;
