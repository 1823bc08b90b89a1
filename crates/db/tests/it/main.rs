//! The store from outside.

mod basics;
mod crashes;
mod records;
mod story;
