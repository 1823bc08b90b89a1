//! The bytes of one connection, in clear or by TLS.

use super::socket::Socket;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// A socket that never blocks, and what lies upon it.
pub(crate) enum Transport {
    /// In clear.
    Plain(Socket),
    /// Encrypted.
    Tls(Box<Tls>),
}

/// A socket with TLS upon it.
pub(crate) struct Tls {
    socket: Socket,
    session: ServerConnection,
}

impl Tls {
    pub(crate) fn new(socket: Socket, session: ServerConnection) -> Tls {
        Tls { socket, session }
    }

    /// Sends what is encrypted already.
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
            // Handshakes and alerts are answered even when nothing else can be read.
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
    /// Returns the socket itself, to be registered.
    pub(crate) fn socket(&mut self) -> &mut Socket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => &mut tls.socket,
        }
    }

    /// Whether a handshake is still to come to its end.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.session.is_handshaking(),
        }
    }

    /// Some bytes; zero at the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(into),
            Transport::Tls(tls) => tls.read(into),
        }
    }

    /// Returns whether a read of fewer bytes than asked for means that there are no more now.
    pub(crate) fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Returns how many bytes were taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(tls) => tls.write(bytes),
        }
    }

    /// Returns whether bytes that were taken are still on their way; tries to send them.
    pub(crate) fn has_unsent(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(false),
            Transport::Tls(tls) => {
                tls.flush()?;
                Ok(tls.session.wants_write())
            }
        }
    }

    /// Says good-bye.
    pub(crate) fn close(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.session.send_close_notify();
            let _ = tls.flush();
        }
        let _ = self.socket().shutdown();
    }
}
