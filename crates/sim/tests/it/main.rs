//! Runs the harness on a store that is small enough to be understood completely.

mod crashes;
mod faults;
mod toy;
