//! A MariaDB server of its own: in a directory that is made for it, at a Unix socket, without a
//! network, ended by its process.
//!
//! *Knows*: where the programs are, whether that version has a change buffer, how a server is made,
//! started and asked.
//!
//! *Does not know*: what is measured.
//!
//! *Read in this order*: `programs.rs`, `server.rs`, `client.rs`.
//!
//! - **MA1** No server of the system is touched: programs get `--no-defaults`, and all files are in
//!   the directory.
//! - **MA2** A server does not outlive what started it.

mod client;
mod programs;
mod server;

pub(crate) use client::Client;
pub(crate) use programs::Programs;
pub(crate) use server::{Buffering, Server};
