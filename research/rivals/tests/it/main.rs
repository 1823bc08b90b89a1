//! Tests of the adapters. They are in a module, so that `cargo test --workspace rivals::` runs them
//! alone.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod rivals;
