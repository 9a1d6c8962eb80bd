//! Shared by the test layers.
