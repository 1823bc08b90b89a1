//! Checks the permissions for a connection's requests, formats the errors for denied requests, and
//! authenticates the connection.

use super::catalog::AccessRequest;
use super::commands::clients;
use super::session::RedisSession;
use super::table::CommandSpec;
use super::write_access_log::WriteAccessLog;
use crate::access::{AccessDenial, AclUser, Denial, DenialContext, DenialReason};
use crate::error::CommandError;
use crate::protocol::resp::Args;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct NotAllowed {
    command: &'static str,
    why: AccessDenial,
}

impl NotAllowed {
    /// Returns whether the user may not run the command at all.
    pub(super) fn is_of_command(&self) -> bool {
        self.why == AccessDenial::Command
    }

    /// Returns the error reply. It may contain the command's name but never a key.
    pub(super) fn text(&self) -> String {
        match &self.why {
            AccessDenial::Command => format!(
                "NOPERM this user has no permissions to run the '{}' command",
                self.command
            ),
            AccessDenial::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            AccessDenial::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
        }
    }
}

/// What to do with the current connection when all connections of its user are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnConnectionPolicy {
    /// Close the connection after sending its reply.
    Ends,
    /// Keep the connection open, so that the client can revert the change.
    Stays,
}

impl RedisSession {
    /// Checks whether the user may execute a command. The caller can skip this check for users who
    /// may do everything.
    pub(super) fn permit(&self, command: &CommandSpec, args: Args<'_>) -> Result<(), NotAllowed> {
        let asked = AccessRequest::of(command, args);
        self.identity.user.check(&asked).map_err(|why| NotAllowed {
            command: asked.name(),
            why,
        })
    }

    /// Adds a denied request to the log that ACL LOG shows.
    pub(super) fn note_denied(&self, denied: &NotAllowed) {
        let (reason, object) = match &denied.why {
            AccessDenial::Command => (DenialReason::Command, denied.command.as_bytes().to_vec()),
            AccessDenial::Key(key) => (DenialReason::Key, key.clone()),
            AccessDenial::Channel(channel) => (DenialReason::Channel, channel.clone()),
        };
        self.deny(reason, object, self.identity.user.name().as_bytes());
    }

    fn deny(&self, reason: DenialReason, object: Vec<u8>, user: &[u8]) {
        let context = match self.multi.is_executing || self.multi.is_begun() {
            true => DenialContext::Multi,
            false => DenialContext::TopLevel,
        };
        self.shared.access.denied.note(Denial {
            count: 1,
            reason,
            context,
            object,
            user: user.to_vec(),
            at_ms: self.shared.store.now_ms(),
            client: clients::line(&self.client),
        });
    }

    /// Returns the error for a queued command that the user may no longer execute, or `None` if it
    /// is still permitted.
    pub(super) fn no_longer_allowed(&self, command: &CommandSpec, args: Args<'_>) -> Option<String> {
        if self.identity.user.allows_all() {
            return None;
        }
        let denied = self.permit(command, args).err()?;
        self.note_denied(&denied);
        let why = match denied.why {
            AccessDenial::Command => "no permission to execute the command or subcommand",
            AccessDenial::Key(_) => "no permission to touch the specified keys",
            AccessDenial::Channel(_) => "no permission to access the channel used as argument",
        };
        Some(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {why}"
        ))
    }

    /// Returns the error with which COMMIT fails because a write command of the transaction is no
    /// longer permitted, or `None` if all still are.
    pub(super) fn first_denied(&self, asked: &WriteAccessLog) -> Option<String> {
        let (command, why, user) = asked.first_denied()?;
        let text = match &why {
            AccessDenial::Command => {
                format!("NOPERM this user no longer has permissions to run the '{command}' command")
            }
            AccessDenial::Key(_) | AccessDenial::Channel(_) => {
                format!("NOPERM this user no longer has permissions to access one of the keys of '{command}'")
            }
        };
        let (reason, object) = match why {
            AccessDenial::Command => (DenialReason::Command, command.as_bytes().to_vec()),
            AccessDenial::Key(key) => (DenialReason::Key, key),
            AccessDenial::Channel(channel) => (DenialReason::Channel, channel),
        };
        self.deny(reason, object, user.name().as_bytes());
        Some(format!(
            "{text}: the user's rules were changed since the command ran in the transaction, and nothing is \
             written"
        ))
    }

    /// Authenticates the connection. If the password is wrong, the error reply is delayed.
    pub(super) fn identify(
        &mut self,
        command: &[u8],
        user: &[u8],
        password: &[u8],
    ) -> Result<(), CommandError> {
        let (access, peer) = (&self.shared.access, self.client.peer.place());
        match self.identity.check(access, peer, (user, password)) {
            Some(user) => {
                self.become_user(user);
                self.identity.is_authenticated = true;
                Ok(())
            }
            None => {
                self.deny(DenialReason::Auth, command.to_vec(), user);
                Err(CommandError::say(
                    "WRONGPASS invalid username-password pair or user is disabled.",
                ))
            }
        }
    }

    /// Sets the user from whom the connection takes its permissions.
    pub(super) fn become_user(&mut self, user: Arc<AclUser>) {
        *self.client.user.lock() = Arc::clone(&user);
        self.identity.user = user;
    }

    /// Closes the connections of users who were deleted or disabled. If this connection is among
    /// them, `own` decides what happens to it.
    pub(super) fn end_connections_of(&mut self, users: &[Arc<AclUser>], own: OwnConnectionPolicy) {
        self.is_ending |=
            own == OwnConnectionPolicy::Ends && users.iter().any(|one| Arc::ptr_eq(one, &self.identity.user));
        self.shared.end_connections_of(users, Some(self.client.id));
    }
}
