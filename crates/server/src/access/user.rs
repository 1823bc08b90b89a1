//! A user. A change of its rules takes effect immediately on all connections of the user.

use super::rules::{AclRules, PasswordDigest};
use super::selector::{AccessDenial, AclSelector};
use crate::redis::catalog::AccessRequest;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The properties of a user that ACL GETUSER displays.
pub(crate) struct UserDescription {
    pub(crate) flags: Vec<&'static str>,
    pub(crate) passwords: Vec<PasswordDigest>,
    /// The selectors of the user. The root selector is the first element.
    pub(crate) selectors: Vec<AclSelector>,
}

/// A user. Connections share a reference to this object, so a change of its rules applies to them
/// immediately.
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

    /// Returns the properties of the user that ACL GETUSER displays.
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

    /// Checks whether the rules of the user allow an access.
    pub(crate) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), AccessDenial> {
        self.rules().check(asked)
    }
}
