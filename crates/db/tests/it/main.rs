//! The store from outside.

mod basics;
