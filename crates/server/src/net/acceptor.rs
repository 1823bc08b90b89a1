//! Accepts client connections and distributes them over the event loops.

use super::address::EndpointAddress;
use super::budget::LogRateLimiter;
use super::connection::{ProtocolConnection, ProtocolSession};
use super::pool::{LoopMessage, LoopPool};
use super::socket::{ClientSocket, ListeningSocket};
use super::tls::TlsSettings;
use super::transport::{TlsStream, Transport};
use crate::shared::{ClientHandle, ServerContext};
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;
use rustls::ServerConnection;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);

/// Pause after a failure to accept a connection, for example because the process has too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The protocol that a listening socket serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireProtocol {
    /// RESP2 or RESP3, chosen by the client with HELLO.
    Redis,
    /// The text protocol with meta commands. The binary protocol is rejected.
    Memcached,
}

/// Creates the protocol session of a new connection.
pub(crate) type SessionFactory =
    Box<dyn Fn(WireProtocol, &Arc<ClientHandle>) -> Box<dyn ProtocolSession> + Send>;

/// A listening socket and its protocol.
pub(crate) struct ProtocolListener {
    pub(crate) socket: ListeningSocket,
    pub(crate) language: WireProtocol,
}

/// The thread that accepts connections on all listening sockets.
pub(crate) struct Acceptor {
    poll: Poll,
    listeners: Vec<ProtocolListener>,
    common: Arc<ServerContext>,
    sessions: SessionFactory,
    pool: Arc<LoopPool>,
    tls: Option<Arc<TlsSettings>>,
    control: Arc<AcceptorHandle>,
    /// Limits the rate of the warning that connections are rejected.
    warnings: Mutex<LogRateLimiter>,
}

/// A handle that stops the acceptor.
pub(crate) struct AcceptorHandle {
    waker: mio::Waker,
    is_stopping: AtomicBool,
}

impl AcceptorHandle {
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the thread that accepts connections");
        }
    }
}

impl Acceptor {
    pub(crate) fn new(
        mut listeners: Vec<ProtocolListener>,
        common: &Arc<ServerContext>,
        sessions: SessionFactory,
        pool: &Arc<LoopPool>,
        tls: Option<Arc<TlsSettings>>,
    ) -> io::Result<(Acceptor, Arc<AcceptorHandle>)> {
        let poll = Poll::new()?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            let socket = listener.socket.source();
            poll.registry()
                .register(socket, Token(index), Interest::READABLE)?;
        }
        let control = Arc::new(AcceptorHandle {
            waker: mio::Waker::new(poll.registry(), WAKER)?,
            is_stopping: AtomicBool::new(false),
        });
        let acceptor = Acceptor {
            poll,
            listeners,
            common: Arc::clone(common),
            sessions,
            pool: Arc::clone(pool),
            tls,
            control: Arc::clone(&control),
            warnings: Mutex::default(),
        };
        Ok((acceptor, control))
    }

    /// Accepts connections until the handle stops the acceptor.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        let next = AtomicU64::new(0);
        while !self.control.is_stopping.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for new connections failed; the server tries again");
                std::thread::sleep(PAUSE);
            }
            for index in 0..self.listeners.len() {
                self.accept_all(index, &next);
            }
        }
    }

    fn accept_all(&self, index: usize, next: &AtomicU64) {
        let listener = &self.listeners[index];
        while !self.control.is_stopping.load(Ordering::Acquire) {
            match listener.socket.accept() {
                Ok((socket, addresses)) => {
                    if let Err(error) = self.admit(socket, addresses, listener, next) {
                        tracing::debug!(%error, "an accepted connection could not be set up and was closed");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.warn(&error);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Logs that connections cannot be accepted, at most once a second.
    fn warn(&self, error: &io::Error) {
        if let Some(held_back) = self.warnings.lock().try_log(Instant::now()) {
            tracing::warn!(%error, held_back, "cannot accept connections; if the process has too many open \
                                               files, raise their limit (ulimit -n) or lower --max-clients");
        }
    }

    fn admit(
        &self,
        mut socket: ClientSocket,
        addresses: (EndpointAddress, EndpointAddress),
        listener: &ProtocolListener,
        next: &AtomicU64,
    ) -> io::Result<()> {
        if let Some(network) = socket.network() {
            keep_alive(&network, self.common.config.keepalive())?;
        }
        let (user, most) = (
            self.common.access.default_user(),
            self.common.config.max_clients(),
        );
        let clients = &self.common.clients;
        let Some(client) = clients.admit(listener.language, addresses, user, most) else {
            self.common.counters.rejected.fetch_add(1, Ordering::Relaxed);
            let refusal: &[u8] = match listener.language {
                WireProtocol::Redis => b"-ERR max number of clients reached\r\n",
                WireProtocol::Memcached => b"ERROR Too many open connections\r\n",
            };
            if self.tls.is_none() || matches!(socket, ClientSocket::File(_)) {
                socket.write_all(refusal)?;
            }
            return Ok(());
        };
        client.descriptor.store(socket.number(), Ordering::Relaxed);
        self.common.counters.connections.fetch_add(1, Ordering::Relaxed);
        let connection = self
            .connection(socket, listener.language, &client)
            .inspect_err(|_| {
                self.common.clients.remove(client.id);
            })?;
        let first = next.fetch_add(1, Ordering::Relaxed) as usize;
        let seats = &self.pool.seats;
        let mut seats = (0..seats.len()).map(|step| &seats[(first + step) % seats.len()]);
        match seats.find(|seat| !seat.is_over.load(Ordering::Acquire)) {
            Some(seat) => seat.send(LoopMessage::New(Box::new(connection))),
            None => tracing::error!("closed a new connection: no event loop is running; restart the server"),
        }
        Ok(())
    }

    fn connection(
        &self,
        socket: ClientSocket,
        language: WireProtocol,
        client: &Arc<ClientHandle>,
    ) -> io::Result<ProtocolConnection> {
        let transport = match (&self.tls, &socket) {
            // A Unix domain socket needs no TLS, because its bytes do not leave the machine.
            (None, _) | (_, ClientSocket::File(_)) => Transport::Plain(socket),
            (Some(tls), ClientSocket::Network(_)) => {
                let session = ServerConnection::new(tls.current()).map_err(io::Error::other)?;
                Transport::Tls(Box::new(TlsStream::new(socket, session)))
            }
        };
        let protocol = (self.sessions)(language, client);
        let (common, client) = (Arc::clone(&self.common), Arc::clone(client));
        Ok(ProtocolConnection::new(transport, protocol, common, client))
    }
}

/// Number of unanswered TCP keepalive probes after which the peer is disconnected.
const QUESTIONS: u32 = 3;

/// Enables TCP keepalive with a first probe after `silence`. Zero leaves it disabled.
pub(crate) fn keep_alive(socket: &SockRef<'_>, silence: Duration) -> io::Result<()> {
    if silence.is_zero() {
        return Ok(());
    }
    let between = (silence / QUESTIONS).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new()
        .with_time(silence)
        .with_interval(between)
        .with_retries(QUESTIONS);
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_asks_whether_a_silent_peer_is_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        keep_alive(&SockRef::from(&socket), Duration::ZERO).unwrap();
        assert!(!SockRef::from(&socket).keepalive().unwrap());
        keep_alive(&SockRef::from(&socket), Duration::from_secs(300)).unwrap();
        let socket = SockRef::from(&socket);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(300));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(100));
    }
}
