// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mergeable log-linear histogram of signed nanoseconds (stub).
