//! The store from outside.

mod basics;
mod crashes;
mod dropped;
mod kill;
mod reads;
mod records;
mod stats;
mod story;
