//! Tests of the C interface: its header, its library, and programs in C.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod header;
