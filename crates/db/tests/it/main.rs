//! The store from outside.

mod backup;
mod basics;
mod changes;
mod crashes;
mod dropped;
mod ingest;
mod kill;
mod pages;
mod panics;
mod ranges;
mod reads;
mod records;
mod repair;
mod sizes;
mod space;
mod stats;
mod story;
