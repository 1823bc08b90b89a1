//! Listening, and spreading connections over the loops.

use super::connection::{Connection, Protocol};
use super::pool::{Message, Pool};
use super::transport::{Tls, Transport};
use crate::shared::{Client, Shared};
use crate::{memcached, redis};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);

/// After an error of the system, such as too few file descriptors, nobody is accepted for so long.
const PAUSE: Duration = Duration::from_millis(50);

/// What is spoken at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// RESP2 and RESP3.
    Redis,
    /// Text and meta commands.
    Memcached,
}

/// A place where connections arrive.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) language: Language,
}

/// Accepts connections on a thread of its own.
pub(crate) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    tls: Option<Arc<ServerConfig>>,
    control: Arc<Control>,
}

/// Stops an acceptor.
pub(crate) struct Control {
    waker: mio::Waker,
    is_stopping: AtomicBool,
}

impl Control {
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor cannot be woken");
        }
    }
}

impl Acceptor {
    pub(crate) fn new(
        mut listeners: Vec<Listener>,
        shared: &Arc<Shared>,
        pool: &Arc<Pool>,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<(Acceptor, Arc<Control>)> {
        let poll = Poll::new()?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            poll.registry()
                .register(&mut listener.socket, Token(index), Interest::READABLE)?;
        }
        let control = Arc::new(Control {
            waker: mio::Waker::new(poll.registry(), WAKER)?,
            is_stopping: AtomicBool::new(false),
        });
        let acceptor = Acceptor {
            poll,
            listeners,
            shared: Arc::clone(shared),
            pool: Arc::clone(pool),
            tls,
            control: Arc::clone(&control),
        };
        Ok((acceptor, control))
    }

    /// Accepts until it is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        let next = AtomicU64::new(0);
        while !self.control.is_stopping.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(%error, "the acceptor cannot wait");
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
                Ok((socket, peer)) => {
                    if let Err(error) = self.admit(socket, peer, listener, next) {
                        tracing::debug!(%error, %peer, "a connection was not admitted");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn admit(
        &self,
        mut socket: TcpStream,
        peer: SocketAddr,
        listener: &Listener,
        next: &AtomicU64,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let local = socket.local_addr()?;
        let Some(client) =
            self.shared
                .clients
                .admit(listener.language, peer, local, self.shared.config.max_clients())
        else {
            self.shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
            let refusal: &[u8] = match listener.language {
                Language::Redis => b"-ERR max number of clients reached\r\n",
                Language::Memcached => b"ERROR Too many open connections\r\n",
            };
            if self.tls.is_none() {
                socket.write_all(refusal)?;
            }
            return Ok(());
        };
        #[cfg(unix)]
        client.descriptor.store(
            i64::from(std::os::fd::AsRawFd::as_raw_fd(&socket)),
            Ordering::Relaxed,
        );
        self.shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        let connection = self
            .connection(socket, listener.language, &client)
            .inspect_err(|_| {
                self.shared.clients.remove(client.id);
            })?;
        let first = next.fetch_add(1, Ordering::Relaxed) as usize;
        let seats = &self.pool.seats;
        let mut seats = (0..seats.len()).map(|step| &seats[(first + step) % seats.len()]);
        match seats.find(|seat| !seat.is_over.load(Ordering::Acquire)) {
            Some(seat) => seat.send(Message::New(Box::new(connection))),
            None => tracing::error!("no loop is left that could serve a connection"),
        }
        Ok(())
    }

    fn connection(
        &self,
        socket: TcpStream,
        language: Language,
        client: &Arc<Client>,
    ) -> io::Result<Connection> {
        let transport = match &self.tls {
            None => Transport::Plain(socket),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                Transport::Tls(Box::new(Tls::new(socket, session)))
            }
        };
        let protocol: Box<dyn Protocol> = match language {
            Language::Redis => Box::new(redis::Session::new(&self.shared, client)),
            Language::Memcached => Box::new(memcached::Session::new(&self.shared)),
        };
        let (shared, client) = (Arc::clone(&self.shared), Arc::clone(client));
        Ok(Connection::new(transport, protocol, shared, client))
    }
}
