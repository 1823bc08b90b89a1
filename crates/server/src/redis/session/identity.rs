//! The user of a connection, and the authentication of its client.

use crate::access::{AclUser, ClientOrigin, LoginResult, UserRegistry};
use std::sync::Arc;
use std::time::Duration;

/// The user of a connection, and the state of its authentication.
pub(in crate::redis) struct SessionIdentity {
    /// Whether the client has authenticated successfully or need not authenticate.
    pub(in crate::redis) is_authenticated: bool,
    pub(in crate::redis) user: Arc<AclUser>,
    failed_logins: u32,
    /// When the delayed reply to a wrong password is due. The session takes this value.
    delay: Option<Duration>,
}

impl SessionIdentity {
    /// Returns the identity of a new connection, which belongs to the default user.
    pub(in crate::redis) fn new(access: &UserRegistry) -> SessionIdentity {
        SessionIdentity {
            is_authenticated: access.is_open(),
            user: access.default_user(),
            failed_logins: 0,
            delay: None,
        }
    }

    /// Authenticates the client connected from `peer` and returns its user. If the password is
    /// wrong, returns `None` and determines when the reply is due.
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

    /// Returns when the reply to the last command is due, if that command contained a wrong
    /// password.
    pub(super) fn take_delay(&mut self) -> Option<Duration> {
        self.delay.take()
    }
}
