//! Access control: users and their passwords, the commands and keys that each user may access, and
//! the protection against password guessing.
//!
//! *Scope*: users and the rule syntax of Redis' access control lists; the log of denied commands;
//! the delay of answers to wrong passwords.
//!
//! *Must not depend on*: sockets, protocols, the location of the file of users. Names and classes
//! of commands belong to the catalog (`redis/catalog.rs`).
//!
//! Invariants:
//!
//! - **S14** A change to a user's rules is atomic. Each command is checked against either all of
//!   the old rules or all of the new ones.
//! - **S15** A deleted user loses all permissions immediately, even on connections that are still
//!   open.
//! - **S16** Passwords are stored as SHA-256 digests and compared in constant time, so the time of
//!   a comparison does not reveal how much of a password is correct.

mod clock;
mod delays;
mod denied;
pub(crate) mod glob;
mod rules;
mod selector;
mod user;
mod user_file;
mod users;

pub(crate) use clock::SystemClock;
pub use clock::WakeupClock;
pub(crate) use clock::at;
pub(crate) use delays::{ClientOrigin, LoginThrottle};
pub(crate) use denied::{Denial, DenialContext, DenialReason};
pub(crate) use rules::hex;
pub(crate) use selector::{AccessDenial, AclSelector};
pub(crate) use user::AclUser;
pub use user_file::UserFile;
pub(crate) use users::{LoginResult, UserRegistry, describe};
