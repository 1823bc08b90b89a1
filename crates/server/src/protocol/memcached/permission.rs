//! Client authentication and permission checks.

use super::items::ItemAccess;
use super::request::MemcachedRequest;
use super::run;
use super::session::MemcachedSession;
use crate::access::{AccessDenial, AclUser, Denial, DenialContext, DenialReason, LoginResult};
use crate::error::CommandError;
use crate::redis::catalog::{AccessRequest, KeyAccess};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The login delay after a wrong password. No input is processed until it is over.
pub(super) struct AuthDelay {
    until: Duration,
    /// The reply to send after the delay.
    reply: &'static str,
}

/// Whether a login delay is over.
pub(super) enum AuthDelayState {
    /// The delay is over, and this reply must be sent.
    Over(&'static str),
    StillOn,
    /// The server is stopping, so the connection must be closed without a reply.
    Ends,
}

/// Returns whether a command counts as reading or writing an item for permissions, given how it
/// accesses the item.
fn need(command: &[u8], access: ItemAccess) -> KeyAccess {
    match (command, access) {
        (_, ItemAccess::Reads) => KeyAccess::READ,
        (b"gat" | b"gats" | b"mg" | b"incr" | b"decr" | b"ma", _) => KeyAccess::BOTH,
        _ => KeyAccess::WRITE,
    }
}

impl MemcachedSession {
    /// Checks whether the user has the permissions for a request on items.
    pub(super) fn permit_items(&self, request: &MemcachedRequest<'_>) -> Result<(), CommandError> {
        if self.user.allows_all() {
            return Ok(());
        }
        let mut items: SmallVec<[(Vec<u8>, KeyAccess); 4]> = SmallVec::new();
        run::accesses(request, false, |key, access| {
            items.push((key.to_vec(), need(request.word(0), access)));
        });
        // Check the command's permission before those for the keys, as the Redis commands do.
        let parts = [
            ("memcached|get", items.iter().any(|(_, need)| need.reads)),
            ("memcached|set", items.iter().any(|(_, need)| need.writes)),
        ];
        for (part, is_needed) in parts {
            if is_needed {
                self.permit(&AccessRequest::elsewhere(part, SmallVec::new()))?;
            }
        }
        let Some((part, _)) = parts.into_iter().find(|(_, is_needed)| *is_needed) else {
            return Ok(());
        };
        let keys = items.iter().map(|(key, need)| (&key[..], *need));
        self.permit(&AccessRequest::elsewhere(part, keys.collect()))
    }

    /// Checks whether the user may execute a request that does not concern individual items.
    pub(super) fn permit_alone(&self, request: &MemcachedRequest<'_>) -> Result<(), CommandError> {
        if self.user.allows_all() {
            return Ok(());
        }
        let (part, of_all) = match request.word(0) {
            b"flush_all" => ("memcached|flush", Some(KeyAccess::WRITE)),
            b"stats" | b"lru_crawler" => ("memcached|stats", None),
            _ => return Ok(()),
        };
        let asked = AccessRequest::elsewhere(part, SmallVec::new());
        self.permit(&AccessRequest { of_all, ..asked })
    }

    fn permit(&self, asked: &AccessRequest<'_>) -> Result<(), CommandError> {
        let Err(denied) = self.user.check(asked) else {
            return Ok(());
        };
        let (reason, object, what) = match denied {
            AccessDenial::Command => (
                DenialReason::Command,
                asked.name().as_bytes().to_vec(),
                "run this command",
            ),
            AccessDenial::Key(key) | AccessDenial::Channel(key) => {
                (DenialReason::Key, key, "access this key in this way")
            }
        };
        self.note(reason, object, self.user.name().as_bytes());
        Err(CommandError::Refused(Cow::Owned(format!(
            "CLIENT_ERROR this user has no permissions to {what}"
        ))))
    }

    fn note(&self, reason: DenialReason, object: Vec<u8>, user: &[u8]) {
        self.shared.access.denied.note(Denial {
            count: 1,
            reason,
            context: DenialContext::TopLevel,
            object,
            user: user.to_vec(),
            at_ms: self.shared.store.now_ms(),
            client: crate::redis::line(&self.client),
        });
    }

    /// Authenticates the client. `credentials` consists of the user name, a blank and the password.
    /// If the password is wrong, starts a login delay and replies after it.
    pub(super) fn identify(&mut self, credentials: &[u8], waker: &Waker) -> AuthOutcome {
        let mut parts = credentials.splitn(2, |&byte| byte == b' ');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let access = &self.shared.access;
        match access.log_in(self.client.peer.place(), &mut self.failed_logins, name, password) {
            LoginResult::Yes(user) => {
                self.become_user(user);
                AuthOutcome::Yes
            }
            LoginResult::No(until) => {
                self.note(DenialReason::Auth, b"set".to_vec(), name);
                self.pause(until, "CLIENT_ERROR authentication failure\r\n", waker);
                AuthOutcome::No
            }
        }
    }

    fn become_user(&mut self, user: Arc<AclUser>) {
        *self.client.user.lock() = Arc::clone(&user);
        self.user = user;
        self.is_authenticated = true;
    }

    fn pause(&mut self, until: Duration, reply: &'static str, waker: &Waker) {
        self.shared.access.delays.clock().wake_at(until, waker);
        self.pause = Some(AuthDelay { until, reply });
    }

    /// Returns the state of the login delay, and ends the delay if it is over.
    pub(super) fn paused(&mut self) -> AuthDelayState {
        let delays = &self.shared.access.delays;
        match &self.pause {
            None => AuthDelayState::Over(""),
            Some(_) if delays.is_over() => AuthDelayState::Ends,
            Some(pause) if delays.clock().now() < pause.until => AuthDelayState::StillOn,
            Some(pause) => {
                let reply = pause.reply;
                self.pause = None;
                AuthDelayState::Over(reply)
            }
        }
    }
}

/// The result of an authentication attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthOutcome {
    Yes,
    /// The credentials are wrong. The client gets the reply after a delay.
    No,
}
