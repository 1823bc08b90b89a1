//! All users: loading, changes, authentication.

use super::delays::{ClientOrigin, LoginThrottle};
use super::denied::DenialLog;
use super::rules::{AclRules, BadWord, RuleError};
use super::selector::has_spaces;
use super::user::AclUser;
use super::user_file::UserFile;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest name of a user in bytes.
const LONGEST_NAME: usize = 512;

/// The user of connections that have not authenticated.
const DEFAULT: &str = "default";

/// The result of an authentication.
pub(crate) enum LoginResult {
    /// The name and password are correct.
    Yes(Arc<AclUser>),
    /// They are wrong. The error is to be sent at this time.
    No(std::time::Duration),
}

#[derive(Debug)]
pub(crate) struct UserRegistry {
    default: Arc<AclUser>,
    others: RwLock<BTreeMap<Box<str>, Arc<AclUser>>>,
    /// The password of `default` as set by an option or CONFIG SET, which CONFIG GET returns.
    given_password: RwLock<Option<Arc<str>>>,
    file: Option<Arc<dyn UserFile>>,
    /// Held during a change of users, from its first read to its last write.
    changing: Mutex<()>,
    pub(crate) denied: DenialLog,
    pub(crate) delays: LoginThrottle,
}

impl UserRegistry {
    /// Creates the user `default` with a password, and the users of a file, if given.
    ///
    /// # Errors
    /// A description of the fault in the file and its position.
    pub(crate) fn new(
        password: Option<&str>,
        file: Option<Arc<dyn UserFile>>,
        delays: LoginThrottle,
    ) -> Result<UserRegistry, String> {
        let access = UserRegistry {
            default: Arc::new(AclUser::new(DEFAULT, AclRules::of_default(password))),
            others: RwLock::default(),
            given_password: RwLock::new(password.map(Arc::from)),
            file,
            changing: Mutex::new(()),
            denied: DenialLog::default(),
            delays,
        };
        access.load()?;
        Ok(access)
    }

    /// Returns the user of new connections.
    pub(crate) fn default_user(&self) -> Arc<AclUser> {
        Arc::clone(&self.default)
    }

    /// Returns whether new connections may act as `default` without authentication.
    pub(crate) fn is_open(&self) -> bool {
        let rules = self.default.rules();
        rules.is_on && rules.needs_no_password
    }

    /// Returns whether the user `default` needs no password.
    pub(crate) fn default_needs_no_password(&self) -> bool {
        self.default.rules().needs_no_password
    }

    /// Returns the password of `default` as set by an option or CONFIG SET.
    pub(crate) fn given_password(&self) -> Option<Arc<str>> {
        self.given_password.read().clone()
    }

    /// Replaces all passwords of `default` by this one.
    pub(crate) fn set_password(&self, password: Option<&str>) {
        let _changing = self.changing.lock();
        let mut rules = AclRules::clone(&self.default.rules());
        rules.set_password(password);
        self.default.set(rules);
        *self.given_password.write() = password.map(Arc::from);
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<AclUser>> {
        if name == DEFAULT.as_bytes() {
            return Some(self.default_user());
        }
        let name = std::str::from_utf8(name).ok()?;
        self.others.read().get(name).cloned()
    }

    /// Returns all users, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<AclUser>> {
        let mut all: Vec<_> = self.others.read().values().cloned().collect();
        let at = all.partition_point(|user| user.name() < DEFAULT);
        all.insert(at, self.default_user());
        all
    }

    /// Authenticates a client at an address. `strikes` counts the wrong passwords of its
    /// connection. Correct credentials are accepted at once, whatever came from the address before.
    pub(crate) fn log_in(
        &self,
        peer: ClientOrigin,
        strikes: &mut u32,
        name: &[u8],
        password: &[u8],
    ) -> LoginResult {
        let user = self.find(name);
        // An unknown user is checked against empty rules, which takes as long as a wrong password.
        let rules = user.as_ref().map(|user| user.rules()).unwrap_or_default();
        match user.filter(|_| rules.admits(password)) {
            Some(user) => LoginResult::Yes(user),
            None => LoginResult::No(self.delays.failed(peer, strikes)),
        }
    }

    /// Changes a user's rules, or creates the user. The result includes whether its connections
    /// must be closed.
    ///
    /// # Errors
    /// An error message for the client.
    pub(crate) fn set_user<'w>(
        &self,
        name: &[u8],
        words: impl Iterator<Item = &'w [u8]>,
    ) -> Result<Option<Arc<AclUser>>, String> {
        let name = name_of(name)?;
        let _changing = self.changing.lock();
        let known = self.find(name.as_bytes());
        let before = known.as_ref().map(|user| user.rules()).unwrap_or_default();
        let mut rules = AclRules::clone(&before);
        rules.apply_all(words).map_err(|bad| match bad {
            BadWord::Refused(word, wrong) => {
                format!("Error in ACL SETUSER modifier '{}': {wrong}", shown(&word))
            }
            BadWord::Unmatched(word) => unmatched(&word),
        })?;
        let is_turned_off = before.is_on && !rules.is_on;
        match known {
            Some(user) => {
                user.set(rules);
                Ok(Some(user).filter(|_| is_turned_off))
            }
            None => {
                let user = Arc::new(AclUser::new(name, rules));
                self.others.write().insert(name.into(), user);
                Ok(None)
            }
        }
    }

    /// Deletes users and returns those that existed. They lose all permissions (S15).
    ///
    /// # Errors
    /// An error message for the client if `default` is among them.
    pub(crate) fn delete(&self, names: &[&[u8]]) -> Result<Vec<Arc<AclUser>>, String> {
        if names.contains(&DEFAULT.as_bytes()) {
            return Err("The 'default' user cannot be removed".to_owned());
        }
        let _changing = self.changing.lock();
        let mut deleted = Vec::new();
        for name in names {
            let name = std::str::from_utf8(name).unwrap_or_default();
            if let Some(user) = self.others.write().remove(name) {
                user.set(AclRules::default());
                deleted.push(user);
            }
        }
        Ok(deleted)
    }

    /// Returns whether users are stored in a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reloads all users from the file. Returns the users that were removed or disabled, whose
    /// connections must be closed.
    ///
    /// # Errors
    /// A description of the fault in the file and its position. Nothing was changed.
    pub(crate) fn load(&self) -> Result<Vec<Arc<AclUser>>, String> {
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let place = file.place();
        let text = file
            .read()
            .map_err(|error| format!("Error loading ACLs, opening file '{place}': {error}"))?;
        let mut new = read(&place, &text)?;
        let _changing = self.changing.lock();
        let given = self.given_password();
        let default = match (new.remove(DEFAULT), &given) {
            (Some(rules), Some(given)) if rules.needs_no_password || !rules.admits(given.as_bytes()) => {
                return Err(format!(
                    "{place}: the rules of the user default contradict the password set by --password, \
                     --password-file, ALLUVIUM_PASSWORD or CONFIG SET requirepass; remove one of the two"
                ));
            }
            (Some(rules), _) => rules,
            (None, _) => AclRules::of_default(given.as_deref()),
        };
        let mut ended = Vec::new();
        let mut others = self.others.write();
        let known = std::mem::take(&mut *others).into_values();
        let known = known.map(|user| (new.remove(user.name()), user));
        for (rules, user) in
            std::iter::once((Some(default), self.default_user())).chain(known.collect::<Vec<_>>())
        {
            let is_over = match &rules {
                Some(rules) => user.rules().is_on && !rules.is_on,
                None => true,
            };
            if is_over {
                ended.push(Arc::clone(&user));
            }
            if rules.is_some() && user.name() != DEFAULT {
                others.insert(user.name().into(), Arc::clone(&user));
            }
            user.set(rules.unwrap_or_default());
        }
        for (name, rules) in new {
            let user = AclUser::new(&name, rules);
            others.insert(name, Arc::new(user));
        }
        Ok(ended)
    }

    /// Writes all users to the file.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn save(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let _changing = self.changing.lock();
        let mut text = Vec::new();
        for user in self.all() {
            text.extend_from_slice(&describe(&user));
            text.push(b'\n');
        }
        let failed = |error| {
            format!(
                "There was an error trying to save the ACLs to '{}': {error}",
                file.place()
            )
        };
        file.write(&text).map_err(failed)
    }
}

/// Formats a user in the syntax of the file.
pub(crate) fn describe(user: &AclUser) -> Vec<u8> {
    let rules = user.rules().describe();
    [format!("user {} ", user.name()).as_bytes(), &rules].concat()
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn unmatched(word: &[u8]) -> String {
    format!(
        "Unmatched parenthesis in acl selector starting at '{}'.",
        shown(word)
    )
}

/// Returns the name as text if it is valid for a user.
fn name_of(name: &[u8]) -> Result<&str, String> {
    if has_spaces(name) {
        return Err("Usernames can't contain spaces or null characters".to_owned());
    }
    let name = std::str::from_utf8(name).map_err(|_| "Usernames must be UTF-8".to_owned())?;
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(format!("Usernames must have 1 to {LONGEST_NAME} bytes"));
    }
    Ok(name)
}

/// Parses the text of a file. The error lists all faults, line by line.
fn read(place: &str, text: &[u8]) -> Result<BTreeMap<Box<str>, AclRules>, String> {
    let mut users = BTreeMap::new();
    let mut errors: Vec<String> = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let here = format!("{place}:{}", index + 1);
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            continue;
        };
        let Some(name) = words.next().filter(|_| first == b"user") else {
            errors.push(format!(
                "{here}: should start with user keyword followed by the username"
            ));
            continue;
        };
        let name = match name_of(name) {
            Ok(name) => name,
            Err(why) => {
                errors.push(format!("{here}: {why}"));
                continue;
            }
        };
        let mut rules = AclRules::default();
        match rules.apply_all(words) {
            Ok(()) => {}
            // Other invalid words may contain a password and are not shown.
            Err(BadWord::Refused(word, RuleError::Unknown)) => errors.push(format!(
                "{here}: Error in applying operation '{}': {}",
                shown(&word),
                RuleError::Unknown
            )),
            Err(BadWord::Refused(word, wrong))
                if matches!(word.first(), Some(b'~' | b'%' | b'&' | b'+' | b'-')) =>
            {
                errors.push(format!("{here}: '{}': {wrong}", shown(&word)));
            }
            Err(BadWord::Refused(_, wrong)) => errors.push(format!("{here}: {wrong}")),
            Err(BadWord::Unmatched(word)) => errors.push(format!("{here}: {}", unmatched(&word))),
        }
        if users.insert(Box::from(name), rules).is_some() {
            errors.push(format!("{here}: Duplicate user '{name}' found"));
        }
    }
    if errors.is_empty() {
        Ok(users)
    } else {
        Err(errors.join("; "))
    }
}
