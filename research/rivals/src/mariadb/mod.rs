//! A private MariaDB server: it uses a directory created for it and a Unix socket, has no network,
//! and ends with the process.
//!
//! *Scope*: the location of the programs, whether their version has a change buffer, how a server
//! is created, started and queried.
//!
//! *Must not depend on*: what is measured.
//!
//! - **MA1** The system's servers are not affected: programs run with `--no-defaults`, and all
//!   files are in the directory.
//! - **MA2** A server does not outlive the process that started it.

mod client;
mod programs;
mod server;

pub(crate) use client::MariaDbClient;
pub(crate) use programs::MariaDbPrograms;
pub(crate) use server::{ChangeBufferMode, MariaDbServer};
