//! The bytes of answers and notices to the kernel.
//!
//! *Scope*: their layout.
//!
//! *Must not depend on*: requests, what they do.
//!
//! Invariants:
//!
//! - **K3** An answer has at most as many bytes as its request asks for.

mod format;

pub(super) use format::{
    AnswerWriter, ListedAttributes, MountAcceptance, STALE_ENTRY, STALE_INODE, encode_header,
};
