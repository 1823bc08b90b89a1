//! Research implementations of ordered dictionaries, which the store does not use.
//!
//! Each folder holds an independent structure: [`affine`], trees with node sizes tuned to the
//! device; [`pdam`], a static tree for devices that transfer several blocks in parallel;
//! [`insertion`], a B-tree with an insertion buffer in front of its leaves. The Lab compares them
//! with published figures; the models of `alluvium-model` and `research-models` predict their
//! costs.
//!
//! *Scope*: how each structure stores records in key order on a device, and counts its transfers.
//!
//! *Must not depend on*: transactions, threads, clocks.
//!
//! # Invariants
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod affine;
pub mod insertion;
pub mod pdam;
