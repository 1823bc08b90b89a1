//! Authenticates clients of a cache that requires a password.

use super::super::request::{self, ParsedInput};
use super::super::session::{MOST_CREDENTIALS, UNKNOWN_INPUT};
use super::super::text::TOO_LARGE;
use crate::access;
use crate::net::{ReceiveBuffer, ServeOutcome};
use crate::shared::{ClientHandle, ServerContext};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

/// The state of a client's authentication.
pub(super) struct LoginState {
    /// Whether the client has authenticated successfully or need not authenticate.
    pub(super) is_authenticated: bool,
    /// Number of wrong passwords on this connection. The login delay increases with this number.
    failed_logins: u32,
    /// When the current login delay ends, and the reply that is sent then.
    pause: Option<(Duration, &'static str)>,
}

impl LoginState {
    pub(super) fn new(common: &ServerContext) -> LoginState {
        LoginState {
            is_authenticated: common.access.is_open(),
            failed_logins: 0,
            pause: None,
        }
    }

    /// Checks the current login delay. If it is over, sends the delayed reply and returns `None`.
    /// Otherwise returns the outcome that ends this turn.
    pub(super) fn resume(&mut self, common: &ServerContext, output: &mut Vec<u8>) -> Option<ServeOutcome> {
        let (until, reply) = self.pause?;
        let delays = &common.access.delays;
        if delays.is_over() {
            return Some(ServeOutcome::Close);
        }
        if delays.clock().now() < until {
            return Some(ServeOutcome::Wait);
        }
        output.extend_from_slice(reply.as_bytes());
        self.pause = None;
        None
    }

    /// Executes one request of an unauthenticated client: a `set` of any key, whose value must
    /// consist of the user name, a blank and the password. Returns the request's length.
    pub(super) fn serve(
        &mut self,
        common: &ServerContext,
        client: &Arc<ClientHandle>,
        input: &mut ReceiveBuffer,
        output: &mut Vec<u8>,
        waker: &Waker,
    ) -> Result<usize, (usize, ServeOutcome)> {
        let arrived = input.len();
        let close = Err((0, ServeOutcome::Close));
        let (text, taken) = match request::read(input.bytes(), MOST_CREDENTIALS) {
            ParsedInput::Nothing if arrived <= UNKNOWN_INPUT => return Err((0, ServeOutcome::All)),
            ParsedInput::Nothing | ParsedInput::Http | ParsedInput::Endless => return close,
            ParsedInput::Binary(header) => {
                output.extend_from_slice(&request::binary_refusal(header));
                return close;
            }
            ParsedInput::Bad(error, taken) => (error, taken),
            ParsedInput::TooLarge(_, taken) => (TOO_LARGE, taken),
            ParsedInput::Request(request, taken) if taken > UNKNOWN_INPUT || request.word(0) == b"quit" => {
                return close;
            }
            ParsedInput::Request(request, taken) if request.word(0) == b"set" => {
                self.identify(common, client, request.block, taken, waker)?;
                ("STORED", taken)
            }
            ParsedInput::Request(_, taken) => ("CLIENT_ERROR unauthenticated", taken),
        };
        if !self.is_authenticated {
            common.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        output.extend_from_slice(text.as_bytes());
        output.extend_from_slice(b"\r\n");
        Ok(taken)
    }

    fn identify(
        &mut self,
        common: &ServerContext,
        client: &Arc<ClientHandle>,
        credentials: &[u8],
        taken: usize,
        waker: &Waker,
    ) -> Result<(), (usize, ServeOutcome)> {
        let mut parts = credentials.splitn(2, |&byte| byte == b' ');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let access = &common.access;
        match access.log_in(client.peer.place(), &mut self.failed_logins, name, password) {
            access::LoginResult::Yes(user) => {
                *client.user.lock() = user;
                self.is_authenticated = true;
                Ok(())
            }
            access::LoginResult::No(until) => {
                common.counters.errors.fetch_add(1, Ordering::Relaxed);
                access.delays.clock().wake_at(until, waker);
                self.pause = Some((until, "CLIENT_ERROR authentication failure\r\n"));
                Err((taken, ServeOutcome::Wait))
            }
        }
    }
}
