//! The client side of the management socket, through which a process manages a store that another
//! process has open.

use super::format::{self, GREETING, ReplyFrame};
use super::request::ReplySink;
use super::request::{Error, FailureKind, ManagementReply, ManagementRequest, Result};
use super::socket;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to the process that has the store open.
pub struct ManagementClient {
    /// `None` after an incomplete reply or an I/O error.
    stream: Option<UnixStream>,
}

impl fmt::Debug for ManagementClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementClient").finish_non_exhaustive()
    }
}

impl ManagementClient {
    /// Connects to the process that has the store in this directory open.
    ///
    /// # Errors
    /// Returns I/O errors. The error kind is [`io::ErrorKind::NotFound`] or
    /// [`io::ErrorKind::ConnectionRefused`] if no process serves the store's management socket.
    pub fn connect(directory: impl AsRef<Path>) -> io::Result<ManagementClient> {
        let mut stream = socket::connect(directory.as_ref())?;
        // The server may reject a client before reading its greeting, and then sends its own
        // greeting and the reason. Read these even if sending failed.
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

    /// Sends a request to the other process and passes each part of the reply to `hear`.
    ///
    /// # Errors
    /// Returns [`Error::Told`] if the other process reports an error, [`Error::Connection`] if the
    /// connection fails, and the errors of `hear`.
    pub fn ask(&mut self, request: &ManagementRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        let gone = || Error::Connection(io::ErrorKind::NotConnected.into());
        let frame = format::frame(request)?;
        let mut stream = self.stream.take().ok_or_else(gone)?;
        // The server may reject a client before reading the request, so read the reason even if
        // sending failed.
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

    /// Hands the connection to a service of the other process, and returns the stream on which that
    /// service now speaks.
    ///
    /// # Errors
    /// Returns [`Error::Told`] if the other process does not offer the service, and
    /// [`Error::Connection`] if the connection fails.
    pub fn into_service(mut self, name: &str) -> Result<UnixStream> {
        self.tell(&ManagementRequest::Service(name.to_owned()))?;
        let gone = || Error::Connection(io::ErrorKind::NotConnected.into());
        self.stream.ok_or_else(gone)
    }

    /// Sends a request whose reply is only success or failure.
    ///
    /// # Errors
    /// Returns the errors of [`ManagementClient::ask`].
    pub fn tell(&mut self, request: &ManagementRequest) -> Result<()> {
        self.ask(request, &mut |_: ManagementReply| Ok(()))
    }
}
