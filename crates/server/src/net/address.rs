//! Addresses of the two ends of a connection.

use crate::access::Peer;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An IP address and port.
    Network(SocketAddr),
    /// The path of a Unix domain socket. The client's end has no address.
    Socket(Arc<Path>),
}

impl Address {
    /// Returns the origin to which wrong passwords from this address are attributed.
    pub(crate) fn place(&self) -> Peer {
        match self {
            Address::Network(address) => Peer::from(address.ip()),
            Address::Socket(_) => Peer::Socket,
        }
    }

    /// Formats the address as in memcached's `stats conns`: the kind, then the IP address and port
    /// or the path.
    pub(crate) fn with_kind(&self) -> String {
        match self {
            Address::Network(address) => format!("tcp:{address}"),
            Address::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns the flag of the connection in CLIENT LIST.
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
