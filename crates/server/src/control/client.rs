//! The client of the management socket, for a process that manages a store which another process
//! has open.

use super::format::{self, GREETING, ReplyFrame};
use super::request::ReplySink;
use super::request::{Error, FailureKind, ManagementReply, ManagementRequest, Result};
use super::socket;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to the process that has a store open.
pub struct ManagementClient {
    /// `None` after an incomplete answer or a connection failure.
    stream: Option<UnixStream>,
}

impl fmt::Debug for ManagementClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl ManagementClient {
    /// Connects to the process that has the store in this directory open.
    ///
    /// # Errors
    /// I/O errors; [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] if no server
    /// listens.
    pub fn connect(directory: impl AsRef<Path>) -> io::Result<ManagementClient> {
        let mut stream = socket::connect(directory.as_ref())?;
        // A refused client is sent a greeting and the reason before the server reads the client's
        // greeting.
        let sent = stream.write_all(&format::greeting());
        let mut greeting = [0; GREETING];
        let greeted = stream.read_exact(&mut greeting);
        greeted.map_err(|error| sent.err().unwrap_or(error))?;
        if format::greeted(&greeting).is_none() {
            let text = "the process that listens at the store's management socket is not Alluvium";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(ManagementClient { stream: Some(stream) })
    }

    /// Requests an operation and passes the parts of its answer to `hear`.
    ///
    /// # Errors
    /// [`Error::Told`] for an error of the other process; errors of `hear`; [`Error::Connection`].
    pub fn ask(&mut self, request: &ManagementRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        let gone = || Error::Connection(io::ErrorKind::NotConnected.into());
        let frame = format::frame(request)?;
        let mut stream = self.stream.take().ok_or_else(gone)?;
        // A refused client is sent the reason before the server reads its request.
        let sent = stream.write_all(&frame);
        loop {
            let part = format::read::<ReplyFrame>(&mut stream).map_err(Error::Connection)?;
            match part {
                None => {
                    sent.map_err(Error::Connection)?;
                    return Err(Error::Connection(io::ErrorKind::UnexpectedEof.into()));
                }
                Some(ReplyFrame::Reply(reply)) => hear(reply)?,
                Some(ReplyFrame::Done) => {
                    self.stream = Some(stream);
                    return Ok(());
                }
                Some(ReplyFrame::Failed { kind, text }) => {
                    self.stream = Some(stream);
                    return Err(match kind {
                        FailureKind::NoKeyspace => alluvium::Error::NoSuchKeyspace { name: text }.into(),
                        kind => Error::Told { kind, text },
                    });
                }
            }
        }
    }

    /// Requests an operation that has no reply parts.
    ///
    /// # Errors
    /// As [`ManagementClient::ask`].
    pub fn tell(&mut self, request: &ManagementRequest) -> Result<()> {
        self.ask(request, &mut |_: ManagementReply| Ok(()))
    }
}
