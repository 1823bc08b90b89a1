//! Ordered dictionaries of the research, which no store hosts.
//!
//! Each folder is a structure by itself: [`affine`], trees whose nodes are as large as a disk
//! likes; [`pdam`], a static tree for the blocks that a device moves at once; [`insertion`], a
//! B-tree with a buffer before its leaves. The Lab measures them beside the figures that were
//! published, and the models of `alluvium-model` and `research-models` say what they should cost.
//!
//! *Knows*: how each structure keeps records in key order on a device, and counts what it moves.
//!
//! *Does not know*: transactions, threads, clocks.
//!
//! *Read in this order*: the folders, in any order.
//!
//! # Invariants
//!
//! - **K2** Nothing here spawns a thread or reads a clock.

pub mod affine;
pub mod insertion;
pub mod pdam;
