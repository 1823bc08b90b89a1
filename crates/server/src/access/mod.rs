//! Who may do what: users with their passwords, the commands and keys that each may use, and what
//! is done about guesses.
//!
//! *Knows*: users and the rules that Redis' access control lists write them in; what was denied;
//! how long a client waits that gives a wrong password.
//!
//! *Does not know*: sockets, protocols, where the file of users lies. Names and classes of commands
//! are the catalog's (`redis/catalog.rs`).
//!
//! *Read in this order*: `users.rs` (all users), `user.rs` (one of them, as connections see it),
//! `rules.rs` and `selector.rs` (what the words of a rule mean), `denied.rs` (what ACL LOG shows),
//! `delays.rs` and `clock.rs` (wrong passwords).
//!
//! Invariants:
//!
//! - **S14** A user's rules change as a whole: a command is judged by the rules before a change, or
//!   by those behind it.
//! - **S15** A user that is deleted may do nothing from then on, whether or not its connections
//!   have ended yet.
//! - **S16** Passwords are kept as their SHA-256 sums, and compared in a time that does not tell
//!   how much of them is right.

mod clock;
mod delays;
mod denied;
mod rules;
mod selector;
mod user;
mod users;

pub use clock::Clock;
pub(crate) use clock::SystemClock;
pub(crate) use clock::at;
pub(crate) use delays::{Delays, Peer};
pub(crate) use denied::{Context, Denial, Reason};
pub(crate) use rules::hex;
pub(crate) use selector::{Denied, Selector};
pub(crate) use user::User;
pub use users::UserFile;
pub(crate) use users::{Access, Login, describe};
