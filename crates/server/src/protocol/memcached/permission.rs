//! Authentication and permissions of a client.

use super::items::Access;
use super::request::Request;
use super::run;
use super::session::Session;
use crate::access::{Context, Denial, Denied, Login, Reason, User};
use crate::error::Failure;
use crate::redis::catalog::{Asked, Need};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// A login delay after a wrong password, during which no input is processed.
pub(super) struct Pause {
    until: Duration,
    /// The reply to send then.
    reply: &'static str,
}

/// The state of a login delay.
pub(super) enum Paused {
    /// The delay is over; send this reply.
    Over(&'static str),
    StillOn,
    /// The server stops.
    Ends,
}

/// Returns the access of a request to its items.
fn need(command: &[u8], access: Access) -> Need {
    match (command, access) {
        (_, Access::Reads) => Need::READ,
        (b"gat" | b"gats" | b"mg" | b"incr" | b"decr" | b"ma", _) => Need::BOTH,
        _ => Need::WRITE,
    }
}

impl Session {
    /// Checks whether the user may execute an item request.
    pub(super) fn permit_items(&self, request: &Request<'_>) -> Result<(), Failure> {
        if self.user.allows_all() {
            return Ok(());
        }
        let mut items: SmallVec<[(Vec<u8>, Need); 4]> = SmallVec::new();
        run::accesses(request, false, |key, access| {
            items.push((key.to_vec(), need(request.word(0), access)));
        });
        // Check the command first, then the keys.
        let parts = [
            ("memcached|get", items.iter().any(|(_, need)| need.reads)),
            ("memcached|set", items.iter().any(|(_, need)| need.writes)),
        ];
        for (part, is_needed) in parts {
            if is_needed {
                self.permit(&Asked::elsewhere(part, SmallVec::new()))?;
            }
        }
        let Some((part, _)) = parts.into_iter().find(|(_, is_needed)| *is_needed) else {
            return Ok(());
        };
        let keys = items.iter().map(|(key, need)| (&key[..], *need));
        self.permit(&Asked::elsewhere(part, keys.collect()))
    }

    /// Checks whether the user may execute a request that is not about individual items.
    pub(super) fn permit_alone(&self, request: &Request<'_>) -> Result<(), Failure> {
        if self.user.allows_all() {
            return Ok(());
        }
        let (part, of_all) = match request.word(0) {
            b"flush_all" => ("memcached|flush", Some(Need::WRITE)),
            b"stats" | b"lru_crawler" => ("memcached|stats", None),
            _ => return Ok(()),
        };
        let asked = Asked::elsewhere(part, SmallVec::new());
        self.permit(&Asked { of_all, ..asked })
    }

    fn permit(&self, asked: &Asked<'_>) -> Result<(), Failure> {
        let Err(denied) = self.user.check(asked) else {
            return Ok(());
        };
        let (reason, object, what) = match denied {
            Denied::Command => (
                Reason::Command,
                asked.name().as_bytes().to_vec(),
                "use this command",
            ),
            Denied::Key(key) => (Reason::Key, key, "use this key so"),
        };
        self.note(reason, object, self.user.name().as_bytes());
        Err(Failure::Refused(Cow::Owned(format!(
            "CLIENT_ERROR this user has no permissions to {what}"
        ))))
    }

    fn note(&self, reason: Reason, object: Vec<u8>, user: &[u8]) {
        self.shared.access.denied.note(Denial {
            count: 1,
            reason,
            context: Context::TopLevel,
            object,
            user: user.to_vec(),
            at_ms: self.shared.store.now_ms(),
            client: crate::redis::line(&self.client),
        });
    }

    /// Authenticates the client with its name, a blank, and its password. The reply to a wrong
    /// password is delayed.
    pub(super) fn identify(&mut self, credentials: &[u8], waker: &Waker) -> Identified {
        let mut parts = credentials.splitn(2, |&byte| byte == b' ');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let access = &self.shared.access;
        match access.log_in(self.client.peer.place(), &mut self.strikes, name, password) {
            Login::Yes(user) => {
                self.become_user(user);
                Identified::Yes
            }
            Login::No(until) => {
                self.note(Reason::Auth, b"set".to_vec(), name);
                self.pause(until, "CLIENT_ERROR authentication failure\r\n", waker);
                Identified::No
            }
        }
    }

    fn become_user(&mut self, user: Arc<User>) {
        *self.client.user.lock() = Arc::clone(&user);
        self.user = user;
        self.is_known = true;
    }

    fn pause(&mut self, until: Duration, reply: &'static str, waker: &Waker) {
        self.shared.access.delays.clock().wake_at(until, waker);
        self.pause = Some(Pause { until, reply });
    }

    /// Returns the state of the login delay.
    pub(super) fn paused(&mut self) -> Paused {
        let delays = &self.shared.access.delays;
        match &self.pause {
            None => Paused::Over(""),
            Some(_) if delays.is_over() => Paused::Ends,
            Some(pause) if delays.clock().now() < pause.until => Paused::StillOn,
            Some(pause) => {
                let reply = pause.reply;
                self.pause = None;
                Paused::Over(reply)
            }
        }
    }
}

/// The result of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identified {
    Yes,
    /// The client is told after a delay.
    No,
}
