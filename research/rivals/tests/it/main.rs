//! Tests of the adapters. The module lets `cargo test --workspace rivals::` run them alone.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod rivals;
