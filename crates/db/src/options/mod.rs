//! Options of stores, keyspaces and transactions.
//!
//! *Scope*: the defaults and valid ranges of all options, and the settings that a store derives
//! from them for the machine on which it runs.
//!
//! *Must not depend on*: the parts of a store that follow the options.

pub mod devices;
pub(crate) mod durability;
pub(crate) mod hashed;
pub(crate) mod keyspace;
pub(crate) mod kind;
pub(crate) mod levels;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod operators;
pub(crate) mod paged;
pub(crate) mod scale;
pub(crate) mod store;
pub(crate) mod structure;
pub mod text;
pub(crate) mod tier;
pub(crate) mod transaction;

pub use durability::Durability;
pub use hashed::{HashedForm, HashedOptions};
pub use keyspace::{Compression, KeyspaceOptions, ValueOrder};
pub use levels::LevelsOptions;
pub use limits::BackgroundLimits;
pub use paged::{PagedOptions, TreeKind};
pub use store::{OpenMode, Options};
pub use structure::Structure;
pub use tier::TierOptions;
pub use transaction::{Concurrency, Isolation, TransactionOptions};
