//! One user's access rules, and their syntax.

use super::selector::AclSelector;
use crate::redis::catalog::AccessRequest;
use std::fmt;
use subtle::{Choice, ConstantTimeEq};

/// The SHA-256 digest of a password.
pub(super) type PasswordDigest = [u8; 32];

/// Why a word in an access rule is invalid. The reasons are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleError {
    Unknown,
    Syntax,
    KeysBehindAll,
    ChannelsBehindAll,
    NoSuchPassword,
    BadSum,
    FirstArgOfSubcommand,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::KeysBehindAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsBehindAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::BadSum => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

/// A user's permissions and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AclRules {
    pub(super) is_on: bool,
    /// Whether the user can log in with any password (`nopass`).
    pub(super) needs_no_password: bool,
    pub(super) passwords: Vec<PasswordDigest>,
    /// The user's permissions. A command is allowed if at least one selector allows it. The root
    /// selector comes first and contains the rules outside of parentheses.
    pub(super) selectors: Vec<AclSelector>,
}

impl Default for AclRules {
    /// Returns a new user's rules, which grant no permissions.
    fn default() -> AclRules {
        AclRules {
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            selectors: vec![AclSelector::default()],
        }
    }
}

impl AclRules {
    /// Returns the initial rules of the user `default`. `None` means that no password is required.
    pub(super) fn of_default(password: Option<&str>) -> AclRules {
        let mut rules = AclRules::default();
        for word in ["on", "allkeys", "allchannels", "+@all"] {
            rules.apply(word.as_bytes()).expect("these words are known");
        }
        rules.set_password(password);
        rules
    }

    /// Replaces all of the user's passwords with `password`. `None` means that no password is
    /// required.
    pub(super) fn set_password(&mut self, password: Option<&str>) {
        self.passwords = password
            .map(|password| sum(password.as_bytes()))
            .into_iter()
            .collect();
        self.needs_no_password = password.is_none();
    }

    /// Returns whether the user can log in with this password.
    pub(super) fn admits(&self, password: &[u8]) -> bool {
        let given = sum(password);
        let mut is_right = Choice::from(0);
        for known in &self.passwords {
            is_right |= known.ct_eq(&given);
        }
        self.is_on && (self.needs_no_password || bool::from(is_right))
    }

    /// Returns whether the user may execute every command on every key.
    pub(super) fn allow_all(&self) -> bool {
        self.selectors.iter().any(AclSelector::allows_all)
    }

    /// Checks whether at least one selector allows the access. Otherwise the error is the denied
    /// key if any selector denied a key, and the denied command if not.
    pub(super) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), super::AccessDenial> {
        let mut why = super::AccessDenial::Command;
        for selector in &self.selectors {
            match selector.check(asked) {
                Ok(()) => return Ok(()),
                Err(super::AccessDenial::Command) => {}
                Err(key) => why = key,
            }
        }
        Err(why)
    }

    /// Applies one word of the rule syntax to these rules.
    pub(super) fn apply(&mut self, word: &[u8]) -> Result<(), RuleError> {
        match (&word.to_ascii_lowercase()[..], word) {
            (b"", _) => {}
            (b"on", _) => self.is_on = true,
            (b"off", _) => self.is_on = false,
            // Accept the word for compatibility. It has no effect, because the server cannot load
            // dump payloads.
            (b"sanitize-payload" | b"skip-sanitize-payload", _) => {}
            (b"nopass", _) => self.set_password(None),
            (b"resetpass", _) => {
                self.passwords.clear();
                self.needs_no_password = false;
            }
            (b"clearselectors", _) => self.selectors.truncate(1),
            (b"reset", _) => *self = AclRules::default(),
            (_, [b'>', password @ ..]) => self.add(sum(password)),
            (_, [b'#', text @ ..]) => self.add(read_sum(text)?),
            (_, [b'<', password @ ..]) => self.remove(sum(password))?,
            (_, [b'!', text @ ..]) => self.remove(read_sum(text)?)?,
            (_, [b'(', inner @ .., b')']) => {
                let mut selector = AclSelector::default();
                let words = inner.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
                words.into_iter().try_for_each(|word| selector.apply(word))?;
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(word)?,
        }
        Ok(())
    }

    fn add(&mut self, password: PasswordDigest) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.needs_no_password = false;
    }

    fn remove(&mut self, password: PasswordDigest) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == password);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Applies all words to the rules, or none if any is invalid, and then the error names that
    /// word. A selector in parentheses may arrive split into several words at its blanks.
    pub(super) fn apply_all<'w>(&mut self, words: impl Iterator<Item = &'w [u8]>) -> Result<(), BadWord> {
        let mut changed = self.clone();
        let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
        for word in words {
            let whole = match open.take() {
                Some((first, mut text)) => {
                    text.push(b' ');
                    text.extend_from_slice(word);
                    if !word.ends_with(b")") {
                        open = Some((first, text));
                        continue;
                    }
                    text
                }
                None if word.starts_with(b"(") && !word.ends_with(b")") => {
                    open = Some((word.to_vec(), word.to_vec()));
                    continue;
                }
                None => word.to_vec(),
            };
            let refused = |wrong| BadWord::Refused(whole.clone(), wrong);
            changed.apply(&whole).map_err(refused)?;
        }
        if let Some((first, _)) = open {
            return Err(BadWord::Unmatched(first));
        }
        *self = changed;
        Ok(())
    }

    /// Returns the words that recreate these rules.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut words = vec![if self.is_on { "on" } else { "off" }.as_bytes().to_vec()];
        if self.needs_no_password {
            words.push(b"nopass".to_vec());
        }
        let sums = self.passwords.iter();
        words.extend(sums.map(|sum| format!("#{}", hex(sum)).into_bytes()));
        for (index, selector) in self.selectors.iter().enumerate() {
            let text = selector.describe();
            words.push(match index {
                0 => text,
                _ => [&b"("[..], &text, b")"].concat(),
            });
        }
        words.join(&b' ')
    }
}

/// The word that makes a list of rules invalid.
#[derive(Debug)]
pub(super) enum BadWord {
    Refused(Vec<u8>, RuleError),
    /// A word with an unmatched opening parenthesis.
    Unmatched(Vec<u8>),
}

/// Returns the SHA-256 digest of a password.
pub(super) fn sum(password: &[u8]) -> PasswordDigest {
    let digest = ring::digest::digest(&ring::digest::SHA256, password);
    digest.as_ref().try_into().expect("a sum of SHA-256 has 32 bytes")
}

/// Parses a hexadecimal password digest.
fn read_sum(text: &[u8]) -> Result<PasswordDigest, RuleError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut sum = [0; 32];
    if text.len() != 2 * sum.len() {
        return Err(RuleError::BadSum);
    }
    for (byte, pair) in sum.iter_mut().zip(text.chunks_exact(2)) {
        let (high, low) = (digit(pair[0]), digit(pair[1]));
        *byte = high
            .zip(low)
            .map(|(high, low)| 16 * high + low)
            .ok_or(RuleError::BadSum)?;
    }
    Ok(sum)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
