//! A connection's byte stream, either unencrypted or encrypted with TLS.

use super::socket::ClientSocket;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// A non-blocking byte stream. Reads and writes return `WouldBlock` instead of waiting.
pub(crate) enum Transport {
    Plain(ClientSocket),
    Tls(Box<TlsStream>),
}

/// A socket together with its TLS session.
pub(crate) struct TlsStream {
    socket: ClientSocket,
    session: ServerConnection,
}

impl TlsStream {
    pub(crate) fn new(socket: ClientSocket, session: ServerConnection) -> TlsStream {
        TlsStream { socket, session }
    }

    /// Sends bytes that the TLS session has already encrypted.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            let received = self.session.read_tls(&mut self.socket);
            if matches!(received, Ok(0)) {
                return Ok(0);
            }
            let processed = received.and_then(|_| {
                let done = self.session.process_new_packets();
                done.map(|_| ())
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
            });
            // Send answers to handshake messages and alerts even if no application data can be
            // read.
            self.flush()?;
            processed?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        self.flush()?;
        if taken == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }
}

impl Transport {
    /// Returns the underlying socket for registration with the poller.
    pub(crate) fn socket(&mut self) -> &mut ClientSocket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => &mut tls.socket,
        }
    }

    /// Returns whether the TLS handshake is still in progress.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.session.is_handshaking(),
        }
    }

    /// Reads the available bytes. Returns 0 at the end of the stream.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(into),
            Transport::Tls(tls) => tls.read(into),
        }
    }

    /// Returns whether a read that returns fewer bytes than requested proves that no more are
    /// available now.
    pub(crate) fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Writes bytes and returns how many were accepted.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(tls) => tls.write(bytes),
        }
    }

    /// Sends as many pending encrypted bytes as the socket accepts. Returns whether some remain.
    pub(crate) fn has_unsent(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(false),
            Transport::Tls(tls) => {
                tls.flush()?;
                Ok(tls.session.wants_write())
            }
        }
    }

    /// Sends the TLS close notification.
    pub(crate) fn close(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.session.send_close_notify();
            let _ = tls.flush();
        }
        let _ = self.socket().shutdown();
    }
}
