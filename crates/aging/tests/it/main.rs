//! Tests of whole workloads and runs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod runs;
mod volumes;
mod workloads;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every run releases leftovers, and a test makes some: these tests run one after the other.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn take_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
