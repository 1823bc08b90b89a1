//! Tests of the handles: the contract suite of all languages, and threads.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod contract;
mod threads;
