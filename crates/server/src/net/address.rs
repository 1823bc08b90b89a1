//! Where the ends of a connection are.

use crate::access::Peer;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address of the network.
    Network(SocketAddr),
    /// A socket of the file system; who has connected to it has no name of its own.
    Socket(Arc<Path>),
}

impl Address {
    /// Returns where wrong passwords are counted for it.
    pub(crate) fn place(&self) -> Peer {
        match self {
            Address::Network(address) => Peer::from(address.ip()),
            Address::Socket(_) => Peer::Socket,
        }
    }

    /// Returns it as memcached's `stats conns` tells it: with its kind, and a path without a port.
    pub(crate) fn with_kind(&self) -> String {
        match self {
            Address::Network(address) => format!("tcp:{address}"),
            Address::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns what CLIENT LIST says of the connection.
    pub(crate) fn flags(&self) -> &'static str {
        match self {
            Address::Network(_) => "N",
            Address::Socket(_) => "U",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Network(address) => address.fmt(f),
            Address::Socket(path) => write!(f, "{}:0", path.display()),
        }
    }
}
