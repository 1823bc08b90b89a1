//! The threads that serve the management socket.

use super::claims::ClaimRegistry;
use super::format::{self, GREETING, ReplyFrame};
use super::request::{Error, FailureKind, ManagementRequest};
use super::session::{ManagementSession, ServerInfo};
use super::socket::{self, ManagementListener};
use alluvium::{Db, ErrorKind};
use parking_lot::{Condvar, Mutex};
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Maximum number of concurrent connections, each of which has its own thread. A command that runs
/// in a view of the store's files keeps its connection.
const CONNECTIONS: usize = 64;
/// How long the server waits for a client's greeting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failure to accept a connection, for example because the process has too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a stop waits for operations in progress. Backups and checks may continue for longer,
/// but end when the store is closed at the latest.
const GRACE: Duration = Duration::from_secs(5);

/// Serves the management socket, through which other processes of the same user manage a store that
/// this process has open. Dropping this value stops the service.
pub struct ManagementServer {
    managed: Arc<ManagementState>,
    accepting: Mutex<Option<(JoinHandle<()>, Arc<ManagementListener>)>>,
}

impl fmt::Debug for ManagementServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementServer").finish_non_exhaustive()
    }
}

/// A service to which clients can hand their connections.
pub trait ConnectionService: Send + Sync {
    /// Serves a connection until the client ends it. Runs on a thread of the connection.
    fn serve(&self, stream: UnixStream);
}

/// The services that a process offers at its management socket, by name.
pub type ConnectionServices = BTreeMap<String, Arc<dyn ConnectionService>>;

/// The state that all management connections share.
struct ManagementState {
    db: Db,
    services: ConnectionServices,
    about: Option<ServerInfo>,
    claims: Arc<ClaimRegistry>,
    connections: Mutex<ManagementConnections>,
    changed: Condvar,
}

#[derive(Default)]
struct ManagementConnections {
    streams: BTreeMap<u64, UnixStream>,
    next: u64,
    is_stopping: bool,
}

impl ManagementServer {
    /// Creates the management socket in a store's directory and starts to serve it. The command
    /// `alluvium --db` and [`ManagementClient`](super::ManagementClient) connect to this socket.
    ///
    /// # Errors
    /// Returns an I/O error if the socket cannot be created or its thread cannot be started.
    pub fn start(db: &Db, directory: impl AsRef<Path>) -> io::Result<ManagementServer> {
        ManagementServer::start_with(db, directory.as_ref(), None, ConnectionServices::new())
    }

    /// Like [`ManagementServer::start`], and hands connections to services that ask for them.
    ///
    /// # Errors
    /// Returns the errors of [`ManagementServer::start`].
    pub fn start_with_services(
        db: &Db,
        directory: impl AsRef<Path>,
        services: ConnectionServices,
    ) -> io::Result<ManagementServer> {
        ManagementServer::start_with(db, directory.as_ref(), None, services)
    }

    pub(crate) fn start_with(
        db: &Db,
        directory: &Path,
        about: Option<ServerInfo>,
        services: ConnectionServices,
    ) -> io::Result<ManagementServer> {
        let listening = Arc::new(ManagementListener::start(directory)?);
        let managed = Arc::new(ManagementState {
            db: db.clone(),
            services,
            about,
            claims: Arc::default(),
            connections: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = thread::Builder::new().name("alluvium-manage".to_owned()).spawn({
            let (managed, listening) = (Arc::clone(&managed), Arc::clone(&listening));
            move || accept(&managed, &listening)
        })?;
        Ok(ManagementServer {
            managed,
            accepting: Mutex::new(Some((accepting, listening))),
        })
    }

    /// Stops accepting connections and closes the open ones. Operations that cannot be interrupted
    /// continue until they end or the store is closed.
    pub fn stop(&self) {
        {
            let mut connections = self.managed.connections.lock();
            connections.is_stopping = true;
            for stream in connections.streams.values() {
                // Ignore the error: this fails if the peer has already closed the connection.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
        if let Some((accepting, listening)) = self.accepting.lock().take() {
            // Shutting the socket down wakes the accepting thread, which then ends.
            let _ = rustix::net::shutdown(&listening.socket, Shutdown::Both);
            if accepting.join().is_err() {
                tracing::error!("the thread that accepts management connections has panicked");
            }
        }
        let mut connections = self.managed.connections.lock();
        while !connections.streams.is_empty() {
            if self.managed.changed.wait_for(&mut connections, GRACE).timed_out() {
                break;
            }
        }
    }
}

impl Drop for ManagementServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(managed: &Arc<ManagementState>, listening: &ManagementListener) {
    loop {
        let accepted = listening.socket.accept();
        if managed.connections.lock().is_stopping {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                if let Err(error) = serve(managed, stream) {
                    tracing::warn!(%error, "cannot serve a management connection");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a management connection");
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Starts a thread that serves the connection. If the client's user may not manage the store, or
/// there are too many connections, tells the client the reason instead and closes the connection.
fn serve(managed: &Arc<ManagementState>, mut stream: UnixStream) -> io::Result<()> {
    if let Err(user) = socket::admit(&stream) {
        tracing::warn!(user, "refused a management connection of another user");
        let text = format!(
            "user {user} may not manage this store; run the command as the user whose process has the store \
             open, or as root"
        );
        return refuse(&mut stream, FailureKind::Failed, &text);
    }
    let number = {
        let mut connections = managed.connections.lock();
        if connections.streams.len() >= CONNECTIONS {
            drop(connections);
            let text = format!(
                "{CONNECTIONS} commands are connected to this store, which is the maximum; try again when \
                 one of them has ended"
            );
            return refuse(&mut stream, FailureKind::Failed, &text);
        }
        connections.next += 1;
        let number = connections.next;
        connections.streams.insert(number, stream.try_clone()?);
        number
    };
    let seat = ConnectionGuard {
        managed: Arc::clone(managed),
        number,
    };
    // If the thread cannot be started, dropping its closure drops the guard, which unregisters the
    // connection.
    thread::Builder::new()
        .name("alluvium-manage".to_owned())
        .spawn(move || {
            if let Err(error) = answer(&seat.managed, &mut stream) {
                tracing::debug!(%error, "a management connection failed");
            }
        })
        .map(drop)
}

/// Sends the reason for rejecting a connection. Fails if the client has already disconnected.
fn refuse(stream: &mut UnixStream, kind: FailureKind, text: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let part = ReplyFrame::Failed {
        kind,
        text: text.to_owned(),
    };
    stream.write_all(&format::greeting())?;
    stream.write_all(&format::frame(&part).map_err(io::Error::other)?)
}

/// One of the limited number of connection slots, released on drop.
struct ConnectionGuard {
    managed: Arc<ManagementState>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.managed.connections.lock().streams.remove(&self.number);
        self.managed.changed.notify_all();
    }
}

/// Serves a connection's requests until it ends.
fn answer(managed: &ManagementState, stream: &mut UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting)?;
    stream.set_read_timeout(None)?;
    match format::greeted(&greeting) {
        Some(format::VERSION) => stream.write_all(&format::greeting())?,
        Some(version) => {
            let text = format!(
                "the process that has the store open uses version {} of the management protocol, not \
                 {version}; run the same version of `alluvium` as that process",
                format::VERSION
            );
            return refuse(stream, FailureKind::Failed, &text);
        }
        None => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the client sent no valid greeting",
            ));
        }
    }
    let mut session = ManagementSession::shared(&managed.db, managed.about.clone(), &managed.claims);
    while let Some(request) = format::read::<ManagementRequest>(stream)? {
        if let Some(service) = service(managed, &request) {
            stream.write_all(&format::frame(&ReplyFrame::Done).map_err(io::Error::other)?)?;
            drop(session);
            service.serve(stream.try_clone()?);
            return Ok(());
        }
        let mut sent = Ok(());
        let answered = catch_unwind(AssertUnwindSafe(|| {
            session.answer(&request, &mut |reply| {
                let frame = format::frame(&ReplyFrame::Reply(reply))?;
                stream.write_all(&frame).map_err(|error| {
                    sent = Err(error);
                    Error::Unheard
                })
            })
        }));
        sent?;
        let Ok(answered) = answered else {
            let text = "the operation panicked, which is a bug in Alluvium; the log of the process that has \
                        the store open contains the message";
            tracing::error!("a management operation panicked");
            let part = ReplyFrame::Failed {
                kind: FailureKind::Failed,
                text: text.to_owned(),
            };
            stream.write_all(&format::frame(&part).map_err(io::Error::other)?)?;
            break;
        };
        let part = match answered {
            Ok(()) => ReplyFrame::Done,
            Err(error) => failed(&error),
        };
        stream.write_all(&format::frame(&part).map_err(io::Error::other)?)?;
    }
    Ok(())
}

/// Returns the service that a request asks for, if the process offers it.
fn service<'m>(
    managed: &'m ManagementState,
    request: &ManagementRequest,
) -> Option<&'m dyn ConnectionService> {
    match request {
        ManagementRequest::Service(name) => managed.services.get(name).map(|service| &**service),
        _ => None,
    }
}

/// Converts an error to the message for the client.
fn failed(error: &Error) -> ReplyFrame {
    let (kind, text) = match error {
        Error::Told { kind, text } => (*kind, text.clone()),
        Error::Store(alluvium::Error::NoSuchKeyspace { name }) => (FailureKind::NoKeyspace, name.clone()),
        Error::Store(error) => (kind_of(error), sentence(error)),
        other => (FailureKind::Failed, other.to_string()),
    };
    ReplyFrame::Failed { kind, text }
}

/// Returns the failure kind for a store error.
fn kind_of(error: &alluvium::Error) -> FailureKind {
    match error.kind() {
        _ if error.is_full() => FailureKind::Full,
        ErrorKind::Corrupt => FailureKind::Damaged,
        ErrorKind::NotFound => FailureKind::NotFound,
        ErrorKind::Conflict | ErrorKind::Deadlock => FailureKind::Conflict,
        _ => FailureKind::Failed,
    }
}

/// Formats an error and its chain of causes as one text, omitting causes whose text is already
/// included.
fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
