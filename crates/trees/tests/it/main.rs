//! The tiered tree, compared with a reference model, and under crashes and faults. Levels of runs,
//! compared with the model and with levels that copy everything, and under crashes.

mod alone;
mod checkpoints;
mod crashes;
mod crowded;
mod estimates;
mod gathered;
mod history;
mod ingest_layers;
mod keyspaces;
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
