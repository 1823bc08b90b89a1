//! Authentication of a connection.

use crate::access::{AclUser, ClientOrigin, LoginResult, UserRegistry};
use std::sync::Arc;
use std::time::Duration;

/// The user of a connection.
pub(in crate::redis) struct SessionIdentity {
    /// Whether the client has authenticated or need not.
    pub(in crate::redis) is_authenticated: bool,
    pub(in crate::redis) user: Arc<AclUser>,
    failed_logins: u32,
    /// Time at which the reply to a wrong password is due, until the session takes it.
    delay: Option<Duration>,
}

impl SessionIdentity {
    /// Returns the identity of a new connection.
    pub(in crate::redis) fn new(access: &UserRegistry) -> SessionIdentity {
        SessionIdentity {
            is_authenticated: access.is_open(),
            user: access.default_user(),
            failed_logins: 0,
            delay: None,
        }
    }

    /// Authenticates a client at `peer` and returns the user. The reply to a wrong password is
    /// delayed.
    pub(in crate::redis) fn check(
        &mut self,
        access: &UserRegistry,
        peer: ClientOrigin,
        (name, password): (&[u8], &[u8]),
    ) -> Option<Arc<AclUser>> {
        match access.log_in(peer, &mut self.failed_logins, name, password) {
            LoginResult::Yes(user) => Some(user),
            LoginResult::No(time) => {
                self.delay = Some(time);
                None
            }
        }
    }

    /// Returns the time at which the reply to the last command is due, if it was a wrong password.
    pub(super) fn take_delay(&mut self) -> Option<Duration> {
        self.delay.take()
    }
}
