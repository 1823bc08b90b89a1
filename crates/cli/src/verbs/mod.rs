//! The verbs of the command line. Each verb has a file that contains its options and its
//! implementation.
//!
//! *Scope*: the options, the behaviour and the output of each verb.
//!
//! *Must not depend on*: formats of import and export, continuation of an import after a kill.

pub(crate) mod advise;
pub(crate) mod aging;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod keyspaces;
pub(crate) mod man;
pub(crate) mod model;
pub(crate) mod mount;
pub(crate) mod probe;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod sort;
pub(crate) mod stats;
pub(crate) mod tiers;
pub(crate) mod transaction;
pub(crate) mod transactions;
pub(crate) mod tx;
