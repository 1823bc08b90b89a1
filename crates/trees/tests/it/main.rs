//! The tiered tree: against a reference model, and under crashes and faults.

mod crashes;
mod faults;
mod history;
mod model;
mod reads;
mod stack;
mod story;
mod world;
