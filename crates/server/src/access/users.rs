//! The registry of all users, which loads, changes and authenticates them.

use super::delays::{ClientOrigin, LoginThrottle};
use super::denied::DenialLog;
use super::rules::{AclRules, BadWord, RuleError};
use super::selector::has_spaces;
use super::user::AclUser;
use super::user_file::UserFile;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum length of a user name in bytes.
const LONGEST_NAME: usize = 512;

/// The name of the user that a connection acts as before it authenticates.
const DEFAULT: &str = "default";

/// The result of a login attempt.
pub(crate) enum LoginResult {
    /// The user exists and the password is correct.
    Yes(Arc<AclUser>),
    /// The name or the password is wrong. The error reply is due at this clock time.
    No(std::time::Duration),
}

#[derive(Debug)]
pub(crate) struct UserRegistry {
    default: Arc<AclUser>,
    others: RwLock<BTreeMap<Box<str>, Arc<AclUser>>>,
    /// The password given to the user `default` by a start option or CONFIG SET, if any. CONFIG GET
    /// returns it.
    given_password: RwLock<Option<Arc<str>>>,
    file: Option<Arc<dyn UserFile>>,
    /// Serialises changes to users. A change holds this lock from its first read to its last write.
    changing: Mutex<()>,
    pub(crate) denied: DenialLog,
    pub(crate) delays: LoginThrottle,
}

impl UserRegistry {
    /// Creates the user `default`, with `password` if given, and loads the users from the file, if
    /// any.
    ///
    /// # Errors
    /// Describes the error in the file and its position.
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

    /// Returns the user that new connections act as.
    pub(crate) fn default_user(&self) -> Arc<AclUser> {
        Arc::clone(&self.default)
    }

    /// Returns whether a new connection may execute commands as `default` without authenticating.
    pub(crate) fn is_open(&self) -> bool {
        let rules = self.default.rules();
        rules.is_on && rules.needs_no_password
    }

    /// Returns whether the user `default` has no password.
    pub(crate) fn default_needs_no_password(&self) -> bool {
        self.default.rules().needs_no_password
    }

    /// Returns the password given to the user `default` by a start option or CONFIG SET, if any.
    pub(crate) fn given_password(&self) -> Option<Arc<str>> {
        self.given_password.read().clone()
    }

    /// Replaces all passwords of the user `default` with `password`.
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

    /// Authenticates a client. `strikes` is the number of wrong passwords on its connection, and is
    /// incremented by another one. Correct credentials are accepted without delay, even after wrong
    /// passwords from the same address.
    pub(crate) fn log_in(
        &self,
        peer: ClientOrigin,
        strikes: &mut u32,
        name: &[u8],
        password: &[u8],
    ) -> LoginResult {
        let user = self.find(name);
        // If the user does not exist, check the password against empty rules. This takes as long as
        // checking a wrong password, so the time does not reveal whether a user exists.
        let rules = user.as_ref().map(|user| user.rules()).unwrap_or_default();
        match user.filter(|_| rules.admits(password)) {
            Some(user) => LoginResult::Yes(user),
            None => LoginResult::No(self.delays.failed(peer, strikes)),
        }
    }

    /// Changes a user's rules, and creates the user if it does not exist. If this change has
    /// disabled the user, returns the user, whose connections the caller must then close.
    ///
    /// # Errors
    /// The error message for the client.
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

    /// Deletes the named users and returns those that existed. They lose all permissions (S15).
    ///
    /// # Errors
    /// The error message for the client if `names` contains `default`, which cannot be deleted.
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

    /// Returns whether a file stores the users.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Replaces all users with those in the file. Returns the users that no longer exist or are now
    /// disabled; the caller must close their connections.
    ///
    /// # Errors
    /// Describes the error in the file and its position. No user is changed in this case.
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
    /// Describes why the file could not be written.
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

/// Formats a user as a line of the user file.
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

/// Returns the name as text if it is a valid user name.
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

/// Parses a user file. The error message lists every invalid line.
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
            // Quote an invalid rule only if it cannot contain a password: it names an unknown
            // command or category, or begins like a rule for keys, channels or commands.
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
