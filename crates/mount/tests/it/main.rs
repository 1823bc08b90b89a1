//! Tests through the kernel: every one mounts a file system in memory.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod caches;
mod contents;
mod kill;
mod memory;
mod operations;
mod privileges;
mod support;
mod views;
