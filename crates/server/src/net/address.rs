//! Addresses of the two ends of a connection.

use crate::access::ClientOrigin;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointAddress {
    /// An IP address and port.
    Network(SocketAddr),
    /// The path of a Unix domain socket. The client's end has no address.
    Socket(Arc<Path>),
}

impl EndpointAddress {
    /// Returns the origin to which wrong passwords from this address are attributed.
    pub(crate) fn place(&self) -> ClientOrigin {
        match self {
            EndpointAddress::Network(address) => ClientOrigin::from(address.ip()),
            EndpointAddress::Socket(_) => ClientOrigin::Socket,
        }
    }

    /// Formats the address as in memcached's `stats conns`: the kind, then the IP address and port
    /// or the path.
    pub(crate) fn with_kind(&self) -> String {
        match self {
            EndpointAddress::Network(address) => format!("tcp:{address}"),
            EndpointAddress::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns the flag of the connection in CLIENT LIST.
    pub(crate) fn flags(&self) -> &'static str {
        match self {
            EndpointAddress::Network(_) => "N",
            EndpointAddress::Socket(_) => "U",
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddress::Network(address) => address.fmt(f),
            EndpointAddress::Socket(path) => write!(f, "{}:0", path.display()),
        }
    }
}
