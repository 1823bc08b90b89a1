//! The store from outside.

mod backup;
mod basics;
mod changes;
mod crashes;
mod dropped;
mod ingest;
mod kill;
mod races;
mod reads;
mod records;
mod refusals;
mod repair;
mod sizes;
mod space;
mod stats;
mod story;
