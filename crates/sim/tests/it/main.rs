//! The harness on a store small enough to be seen through at a glance.

mod crashes;
mod faults;
mod toy;
