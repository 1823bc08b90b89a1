//! Unordered dictionaries.
//!
//! *Knows*: how records are found by a hash of their key, in memory and on a device.
//!
//! *Does not know*: transactions, clocks; who assigned a sequence number.
//!
//! *Read in this order*: the folders, in any order: each is a structure of its own.

pub mod blocks;
pub mod boa;
pub mod bot;
mod records;
