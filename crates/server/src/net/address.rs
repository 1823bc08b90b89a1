//! The addresses of a client connection's two ends.

use crate::access::ClientOrigin;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The address of one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointAddress {
    /// An IP address and port.
    Network(SocketAddr),
    /// The path of the server's Unix domain socket. The client's end has no address of its own.
    Socket(Arc<Path>),
}

impl EndpointAddress {
    /// Returns the client origin to blame for a wrong password from this address.
    pub(crate) fn place(&self) -> ClientOrigin {
        match self {
            EndpointAddress::Network(address) => ClientOrigin::from(address.ip()),
            EndpointAddress::Socket(_) => ClientOrigin::Socket,
        }
    }

    /// Formats the address as memcached's `stats conns` does: its kind, followed by either the IP
    /// address and port or the path.
    pub(crate) fn with_kind(&self) -> String {
        match self {
            EndpointAddress::Network(address) => format!("tcp:{address}"),
            EndpointAddress::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns the CLIENT LIST flag for this kind of connection.
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
