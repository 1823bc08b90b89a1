//! Options of stores, keyspaces and transactions.
//!
//! *Knows*: every option, its default and its bounds, and the plan that a store follows on this
//! machine.
//!
//! *Does not know*: the parts of a store that follow the options.
//!
//! *Read in this order*: `store.rs` ([`Options`] and the plan), with `durability.rs`, `machine.rs`,
//! `scale.rs`, `devices.rs`, `limits.rs` (of background work) and `tier.rs`; `keyspace.rs`, with
//! `structure.rs`, `kind.rs`, `levels.rs`, `hashed.rs` and `paged.rs`; `transaction.rs`.

pub mod devices;
pub(crate) mod durability;
pub(crate) mod hashed;
pub(crate) mod keyspace;
pub(crate) mod kind;
pub(crate) mod levels;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod paged;
pub(crate) mod scale;
pub(crate) mod store;
pub(crate) mod structure;
pub(crate) mod tier;
pub(crate) mod transaction;

pub use durability::Durability;
pub use hashed::{HashedForm, HashedOptions};
pub use keyspace::{Compression, KeyspaceOptions};
pub use levels::LevelsOptions;
pub use limits::BackgroundLimits;
pub use paged::{PagedOptions, TreeKind};
pub use store::{OpenMode, Options};
pub use structure::Structure;
pub use tier::TierOptions;
pub use transaction::{Concurrency, Isolation, TransactionOptions};
