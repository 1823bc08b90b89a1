//! The store from outside.

mod basics;
mod crashes;
mod kill;
mod records;
mod story;
