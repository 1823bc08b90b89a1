//! Predicted costs, advice on settings, and the observations on which both are based.
//!
//! *Knows*: the requests to each keyspace, what the models predict for them, and which changes of
//! settings are worth a trial.
//!
//! *Does not know*: the engine that is observed: it passes its counters in.
//!
//! *Read in this order*: `workload/` (statistics of the requests, from a sample), `forecast/`
//! (predictions and measurements), `advice/` (trial changes that are reverted unless they help),
//! `choices.rs` (settings that a store chose for itself).

pub(crate) mod advice;
pub(crate) mod choices;
pub(crate) mod forecast;
pub(crate) mod workload;
