//! The crate's integration tests: the contract on every implementation, and what only real files
//! can show.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod contract;
mod copies;
mod kernel;
mod places;
mod refusals;
mod threads;
