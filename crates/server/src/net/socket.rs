//! TCP and Unix domain sockets behind one type.

use super::address::Address;
use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// A non-blocking socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Network(TcpStream),
    File(UnixStream),
}

impl Socket {
    /// Returns the socket for setting options if it is a TCP socket.
    pub(super) fn network(&self) -> Option<SockRef<'_>> {
        match self {
            Socket::Network(socket) => Some(SockRef::from(socket)),
            Socket::File(_) => None,
        }
    }

    /// Returns its file descriptor.
    pub(super) fn number(&self) -> i64 {
        i64::from(match self {
            Socket::Network(socket) => socket.as_raw_fd(),
            Socket::File(socket) => socket.as_raw_fd(),
        })
    }

    pub(super) fn shutdown(&self) -> io::Result<()> {
        match self {
            Socket::Network(socket) => socket.shutdown(Shutdown::Both),
            Socket::File(socket) => socket.shutdown(Shutdown::Both),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Network(socket) => socket,
            Socket::File(socket) => socket,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Network(socket) => socket.read(into),
            Socket::File(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Network(socket) => socket.write(bytes),
            Socket::File(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
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

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listening {
    Network(TcpListener),
    File(UnixListener, Arc<Path>),
}

impl Listening {
    /// Accepts the next connection. Returns it with the addresses of the client and of the server.
    pub(super) fn accept(&self) -> io::Result<(Socket, (Address, Address))> {
        match self {
            Listening::Network(listener) => {
                let (socket, peer) = listener.accept()?;
                socket.set_nodelay(true)?;
                let local = socket.local_addr()?;
                let addresses = (Address::Network(peer), Address::Network(local));
                Ok((Socket::Network(socket), addresses))
            }
            Listening::File(listener, path) => {
                let (socket, _) = listener.accept()?;
                let own = Address::Socket(Arc::clone(path));
                Ok((Socket::File(socket), (own.clone(), own)))
            }
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Listening::Network(listener) => listener,
            Listening::File(listener, _) => listener,
        }
    }
}
