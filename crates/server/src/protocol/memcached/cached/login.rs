//! Authentication of a cache's client, if a password is required.

use super::super::request::{self, Found};
use super::super::session::{MOST_CREDENTIALS, UNKNOWN_INPUT};
use super::super::text::TOO_LARGE;
use crate::access;
use crate::net::{Input, Served};
use crate::shared::{Client, Common};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

/// The state of a client's authentication.
pub(super) struct Login {
    /// Whether the client has authenticated or need not.
    pub(super) is_known: bool,
    /// Number of wrong passwords.
    strikes: u32,
    /// End of a login delay, and the reply to send then.
    pause: Option<(Duration, &'static str)>,
}

impl Login {
    pub(super) fn new(common: &Common) -> Login {
        Login {
            is_known: common.access.is_open(),
            strikes: 0,
            pause: None,
        }
    }

    /// Returns how this turn ends if a login delay is still in force.
    pub(super) fn resume(&mut self, common: &Common, output: &mut Vec<u8>) -> Option<Served> {
        let (until, reply) = self.pause?;
        let delays = &common.access.delays;
        if delays.is_over() {
            return Some(Served::Close);
        }
        if delays.clock().now() < until {
            return Some(Served::Wait);
        }
        output.extend_from_slice(reply.as_bytes());
        self.pause = None;
        None
    }

    /// Serves one request of an unauthenticated client: a `set` of any key, whose value is the
    /// user's name, a blank and the password. Returns the length of the request.
    pub(super) fn serve(
        &mut self,
        common: &Common,
        client: &Arc<Client>,
        input: &mut Input,
        output: &mut Vec<u8>,
        waker: &Waker,
    ) -> Result<usize, (usize, Served)> {
        let arrived = input.len();
        let close = Err((0, Served::Close));
        let (text, taken) = match request::read(input.bytes(), MOST_CREDENTIALS) {
            Found::Nothing if arrived <= UNKNOWN_INPUT => return Err((0, Served::All)),
            Found::Nothing | Found::Http | Found::Endless => return close,
            Found::Binary(header) => {
                output.extend_from_slice(&request::binary_refusal(header));
                return close;
            }
            Found::Bad(error, taken) => (error, taken),
            Found::TooLarge(_, taken) => (TOO_LARGE, taken),
            Found::Request(request, taken) if taken > UNKNOWN_INPUT || request.word(0) == b"quit" => {
                return close;
            }
            Found::Request(request, taken) if request.word(0) == b"set" => {
                self.identify(common, client, request.block, taken, waker)?;
                ("STORED", taken)
            }
            Found::Request(_, taken) => ("CLIENT_ERROR unauthenticated", taken),
        };
        if !self.is_known {
            common.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        output.extend_from_slice(text.as_bytes());
        output.extend_from_slice(b"\r\n");
        Ok(taken)
    }

    fn identify(
        &mut self,
        common: &Common,
        client: &Arc<Client>,
        credentials: &[u8],
        taken: usize,
        waker: &Waker,
    ) -> Result<(), (usize, Served)> {
        let mut parts = credentials.splitn(2, |&byte| byte == b' ');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let access = &common.access;
        match access.log_in(client.peer.place(), &mut self.strikes, name, password) {
            access::Login::Yes(user) => {
                *client.user.lock() = user;
                self.is_known = true;
                Ok(())
            }
            access::Login::No(until) => {
                common.counters.errors.fetch_add(1, Ordering::Relaxed);
                access.delays.clock().wake_at(until, waker);
                self.pause = Some((until, "CLIENT_ERROR authentication failure\r\n"));
                Err((taken, Served::Wait))
            }
        }
    }
}
