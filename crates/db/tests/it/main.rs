//! The store from outside.

mod basics;
mod crashes;
mod dropped;
mod kill;
mod records;
mod story;
