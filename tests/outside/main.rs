// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outside layer: other people's tools read what tardy writes. Runs on port `sim` need no root and
//! are exact; the tools are Python's, in the environment that `make setup-test` makes of
//! packaging/requirements.txt.

mod runs;
mod tools;
