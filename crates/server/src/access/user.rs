//! A user, whose rules change for all its connections at once.

use super::rules::{AclRules, PasswordDigest};
use super::selector::{AccessDenial, AclSelector};
use crate::redis::catalog::AccessRequest;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The properties of a user that ACL GETUSER shows.
pub(crate) struct UserDescription {
    pub(crate) flags: Vec<&'static str>,
    pub(crate) passwords: Vec<PasswordDigest>,
    /// Its selectors, the root selector first.
    pub(crate) selectors: Vec<AclSelector>,
}

/// A user. Connections hold a reference to it, so rule changes apply to them at once.
#[derive(Debug)]
pub(crate) struct AclUser {
    name: Box<str>,
    /// Whether the rules allow everything, so that checks can be skipped.
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

    /// Returns whether everything is allowed. Connections check this before each command.
    #[inline]
    pub(crate) fn allows_all(&self) -> bool {
        self.allows_all.load(Ordering::Acquire)
    }

    /// Returns the properties that ACL GETUSER shows.
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

    /// Checks whether the user may perform an access.
    pub(crate) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), AccessDenial> {
        self.rules().check(asked)
    }
}
