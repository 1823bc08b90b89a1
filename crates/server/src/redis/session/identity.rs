//! The identity of a connection's user, and its authentication.

use crate::access::{AclUser, ClientOrigin, LoginResult, UserRegistry};
use std::sync::Arc;
use std::time::Duration;

/// The user of a connection, and the state of its authentication.
pub(in crate::redis) struct SessionIdentity {
    /// Whether the client has authenticated successfully or need not authenticate.
    pub(in crate::redis) is_authenticated: bool,
    pub(in crate::redis) user: Arc<AclUser>,
    failed_logins: u32,
    /// The time at which the reply to a wrong password must be sent. The session takes it to delay
    /// the reply.
    delay: Option<Duration>,
}

impl SessionIdentity {
    /// Returns the identity of a new connection, which has the default user.
    pub(in crate::redis) fn new(access: &UserRegistry) -> SessionIdentity {
        SessionIdentity {
            is_authenticated: access.is_open(),
            user: access.default_user(),
            failed_logins: 0,
            delay: None,
        }
    }

    /// Authenticates the client, which is connected from `peer`, and returns its user. If the
    /// password is wrong, returns `None` and determines the time at which the reply must be sent.
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

    /// Returns the time at which the reply to the last command must be sent, if that command
    /// contained a wrong password.
    pub(super) fn take_delay(&mut self) -> Option<Duration> {
        self.delay.take()
    }
}
