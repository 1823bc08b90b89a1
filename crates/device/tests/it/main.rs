//! Integration tests of the crate: the contract on every implementation, and behaviour specific to
//! real files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod contract;
mod copies;
mod kernel;
mod places;
mod refusals;
mod threads;
