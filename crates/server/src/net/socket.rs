//! One type for both TCP sockets and Unix domain sockets.

use super::address::EndpointAddress;
use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// A non-blocking TCP or Unix domain socket.
#[derive(Debug)]
pub(crate) enum ClientSocket {
    Network(TcpStream),
    File(UnixStream),
}

impl ClientSocket {
    /// Returns access to the socket's options if this is a TCP socket.
    pub(super) fn network(&self) -> Option<SockRef<'_>> {
        match self {
            ClientSocket::Network(socket) => Some(SockRef::from(socket)),
            ClientSocket::File(_) => None,
        }
    }

    /// Returns the file descriptor number, which CLIENT LIST shows.
    pub(super) fn number(&self) -> i64 {
        i64::from(match self {
            ClientSocket::Network(socket) => socket.as_raw_fd(),
            ClientSocket::File(socket) => socket.as_raw_fd(),
        })
    }

    pub(super) fn shutdown(&self) -> io::Result<()> {
        match self {
            ClientSocket::Network(socket) => socket.shutdown(Shutdown::Both),
            ClientSocket::File(socket) => socket.shutdown(Shutdown::Both),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            ClientSocket::Network(socket) => socket,
            ClientSocket::File(socket) => socket,
        }
    }
}

impl Read for ClientSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientSocket::Network(socket) => socket.read(into),
            ClientSocket::File(socket) => socket.read(into),
        }
    }
}

impl Write for ClientSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientSocket::Network(socket) => socket.write(bytes),
            ClientSocket::File(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for ClientSocket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

#[derive(Debug)]
pub(crate) enum ListeningSocket {
    Network(TcpListener),
    File(UnixListener, Arc<Path>),
}

impl ListeningSocket {
    /// Accepts the next connection. Returns its socket, the client's address and the server's
    /// address.
    pub(super) fn accept(&self) -> io::Result<(ClientSocket, (EndpointAddress, EndpointAddress))> {
        match self {
            ListeningSocket::Network(listener) => {
                let (socket, peer) = listener.accept()?;
                socket.set_nodelay(true)?;
                let local = socket.local_addr()?;
                let addresses = (EndpointAddress::Network(peer), EndpointAddress::Network(local));
                Ok((ClientSocket::Network(socket), addresses))
            }
            ListeningSocket::File(listener, path) => {
                let (socket, _) = listener.accept()?;
                let own = EndpointAddress::Socket(Arc::clone(path));
                Ok((ClientSocket::File(socket), (own.clone(), own)))
            }
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            ListeningSocket::Network(listener) => listener,
            ListeningSocket::File(listener, _) => listener,
        }
    }
}
