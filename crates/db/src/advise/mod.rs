//! Predicted costs, advice on settings, and the observations that both are based on.
//!
//! *Scope*: the sampled requests to each keyspace, the costs that the models predict for them, and
//! which changes of settings are worth a trial.
//!
//! *Must not depend on*: the engine that is observed: it passes its counters in.

pub(crate) mod advice;
pub(crate) mod choices;
pub(crate) mod forecast;
pub(crate) mod workload;
