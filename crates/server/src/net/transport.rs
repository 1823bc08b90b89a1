//! The byte stream of one connection, in clear or encrypted with TLS.

use super::socket::ClientSocket;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// A byte stream whose reads and writes return `WouldBlock` instead of waiting.
pub(crate) enum Transport {
    Plain(ClientSocket),
    Tls(Box<TlsStream>),
}

/// A socket with a TLS session.
pub(crate) struct TlsStream {
    socket: ClientSocket,
    session: ServerConnection,
}

impl TlsStream {
    pub(crate) fn new(socket: ClientSocket, session: ServerConnection) -> TlsStream {
        TlsStream { socket, session }
    }

    /// Sends the bytes that are already encrypted.
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
            // Handshake messages and alerts are answered even if no data can be read.
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

    /// Returns whether a TLS handshake is in progress.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.session.is_handshaking(),
        }
    }

    /// Reads available bytes. Returns 0 at the end of the stream.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(into),
            Transport::Tls(tls) => tls.read(into),
        }
    }

    /// Returns whether a short read means that no more bytes are available now.
    pub(crate) fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Returns the number of bytes accepted.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(tls) => tls.write(bytes),
        }
    }

    /// Tries to send encrypted bytes that are pending. Returns whether some remain.
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
