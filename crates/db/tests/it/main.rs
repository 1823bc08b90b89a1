//! The store from outside.

mod basics;
mod records;
