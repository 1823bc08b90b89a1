//! The tiered tree: against a reference model, and under crashes and faults. Levels of runs:
//! against the model and against levels that copy everything, and under crashes.

mod alone;
mod checkpoints;
mod crashes;
mod crowded;
mod estimates;
mod history;
mod keyspaces;
mod layers;
mod levels;
mod model;
mod predicted;
mod reads;
mod salvage;
mod schema;
mod space;
mod stitched;
mod under_way;
mod world;
