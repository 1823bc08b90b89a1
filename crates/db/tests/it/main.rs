//! The store from outside.

mod backup;
mod basics;
mod changes;
mod crashes;
mod damage;
mod dropped;
mod filesystems;
mod futures;
mod handles;
mod ingest;
mod kill;
mod kinds;
mod memory;
mod pages;
mod panics;
mod races;
mod ranges;
mod reads;
mod records;
mod refusals;
mod repair;
mod sizes;
mod space;
mod stats;
mod story;
mod undone;
