//! A user. Changes to its rules apply to all of its connections immediately.

use super::rules::{AclRules, PasswordDigest};
use super::selector::{AccessDenial, AclSelector};
use crate::redis::catalog::AccessRequest;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A user's properties, displayed by ACL GETUSER.
pub(crate) struct UserDescription {
    pub(crate) flags: Vec<&'static str>,
    pub(crate) passwords: Vec<PasswordDigest>,
    /// The user's selectors, beginning with the root selector.
    pub(crate) selectors: Vec<AclSelector>,
}

/// A user, shared by its connections, so that changes to its rules apply to them immediately.
#[derive(Debug)]
pub(crate) struct AclUser {
    name: Box<str>,
    /// Whether the rules allow every command on every key, so that connections can skip the check.
    allows_all: AtomicBool,
    rules: RwLock<Arc<AclRules>>,
}

impl AclUser {
    pub(super) fn new(name: &str, rules: AclRules) -> AclUser {
        AclUser {
            name: name.into(),
            allows_all: AtomicBool::new(rules.allow_all()),
            rules: RwLock::new(Arc::new(rules)),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn rules(&self) -> Arc<AclRules> {
        Arc::clone(&self.rules.read())
    }

    pub(super) fn set(&self, rules: AclRules) {
        let mut held = self.rules.write();
        self.allows_all.store(rules.allow_all(), Ordering::Release);
        *held = Arc::new(rules);
    }

    /// Returns whether the user may execute every command on every key. Connections call this
    /// before each command, because it is cheaper than [`AclUser::check`].
    #[inline]
    pub(crate) fn allows_all(&self) -> bool {
        self.allows_all.load(Ordering::Acquire)
    }

    /// Returns the user's properties for ACL GETUSER.
    pub(crate) fn shown(&self) -> UserDescription {
        let rules = self.rules();
        let mut flags = vec![if rules.is_on { "on" } else { "off" }];
        if rules.needs_no_password {
            flags.push("nopass");
        }
        UserDescription {
            flags,
            passwords: rules.passwords.clone(),
            selectors: rules.selectors.clone(),
        }
    }

    /// Returns whether the user may receive the messages of a channel or pattern.
    pub(crate) fn may_receive(&self, name: &[u8], is_pattern: bool) -> bool {
        let rules = self.rules();
        let mut selectors = rules.selectors.iter();
        selectors.any(|selector| selector.has_channel(name, is_pattern))
    }

    /// Checks whether the user's rules allow an access.
    pub(crate) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), AccessDenial> {
        self.rules().check(asked)
    }
}
