//! The tiered tree against a reference model.

mod history;
mod model;
mod world;
