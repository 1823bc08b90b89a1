//! Records the permissions that a transaction's write commands needed, so that COMMIT can check
//! them again.
//!
//! A user's permissions may change while a transaction is open, for up to ten minutes. Commands
//! that only read were permitted when they were answered. Writes take effect at COMMIT and must
//! still be permitted then.

use super::catalog::{AccessRequest, CatalogId, ChannelNames, KeyAccess};
use crate::access::{AccessDenial, AclUser};
use std::sync::Arc;

/// The first argument of a command, which a user's permissions can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstArgument {
    None,
    /// The first argument is also the first key.
    Key,
    /// The first argument is not a key. Holds its length in bytes.
    Apart(usize),
}

/// A write command, without the values that it has written.
#[derive(Debug)]
struct WriteAccess {
    /// Index of the command's user in `users`.
    user: usize,
    id: CatalogId,
    of_all: Option<KeyAccess>,
    first: FirstArgument,
    keys: usize,
}

/// A transaction's permitted write commands, in order.
#[derive(Debug, Default)]
pub(super) struct WriteAccessLog {
    users: Vec<Arc<AclUser>>,
    commands: Vec<WriteAccess>,
    /// The length in bytes and the access of each key. The keys themselves are in `bytes`.
    keys: Vec<(usize, KeyAccess)>,
    bytes: Vec<u8>,
}

impl WriteAccessLog {
    /// Adds a command that a user has executed.
    pub(super) fn note(&mut self, user: &Arc<AclUser>, asked: &AccessRequest<'_>) {
        if !self.users.last().is_some_and(|last| Arc::ptr_eq(last, user)) {
            self.users.push(Arc::clone(user));
        }
        let first_key = asked.keys.first().map(|(key, _)| *key);
        let first = match asked.first_arg {
            None => FirstArgument::None,
            Some(first) if Some(first) == first_key => FirstArgument::Key,
            Some(first) => {
                self.bytes.extend_from_slice(first);
                FirstArgument::Apart(first.len())
            }
        };
        for (key, need) in &asked.keys {
            self.keys.push((key.len(), *need));
            self.bytes.extend_from_slice(key);
        }
        self.commands.push(WriteAccess {
            user: self.users.len() - 1,
            id: asked.id,
            of_all: asked.of_all,
            first,
            keys: asked.keys.len(),
        });
    }

    /// Returns the memory used by the log in bytes.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
            + self.keys.capacity() * size_of::<(usize, KeyAccess)>()
            + self.commands.capacity() * size_of::<WriteAccess>()
    }

    /// Returns the name, denial reason and user of the first command that is no longer permitted,
    /// or `None` if all still are.
    pub(super) fn first_denied(&self) -> Option<(&'static str, AccessDenial, &Arc<AclUser>)> {
        let (mut keys, mut bytes) = (&self.keys[..], &self.bytes[..]);
        let mut part = |len: usize| {
            let (part, rest) = bytes.split_at(len);
            bytes = rest;
            part
        };
        for command in &self.commands {
            let apart = match command.first {
                FirstArgument::Apart(len) => Some(part(len)),
                FirstArgument::None | FirstArgument::Key => None,
            };
            let (own, rest) = keys.split_at(command.keys);
            keys = rest;
            let asked = AccessRequest {
                id: command.id,
                is_free: false,
                first_arg: None,
                keys: own.iter().map(|&(len, need)| (part(len), need)).collect(),
                of_all: command.of_all,
                channels: ChannelNames::None,
            };
            let first_arg = match command.first {
                FirstArgument::Key => asked.keys.first().map(|(key, _)| *key),
                FirstArgument::None | FirstArgument::Apart(_) => apart,
            };
            let asked = AccessRequest { first_arg, ..asked };
            let user = &self.users[command.user];
            if !user.allows_all()
                && let Err(denied) = user.check(&asked)
            {
                return Some((asked.name(), denied, user));
            }
        }
        None
    }
}
