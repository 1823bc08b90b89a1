//! Tests of the C interface: its header, its libraries, and programs in C.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod compiler;
mod header;
mod library;
mod programs;
