//! Ordered dictionaries of the research, which no store hosts.
//!
//! Each folder is a structure by itself: [`affine`], trees whose nodes are as large as a disk
//! likes; [`pdam`], a static tree for the blocks that a device moves at once; [`insertion`], a
//! B-tree with a buffer before its leaves. The Lab measures them beside the figures that were
//! published, and the models of `alluvium-model` and `research-models` say what they should cost.
//!
//! # Invariants
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod affine;
pub mod insertion;
pub mod pdam;
