//! A selector in an access control list: a set of commands and keys that a user may access. A
//! user's rules consist of selectors and passwords.

use super::glob;
use super::rules::RuleError;
use crate::redis::catalog::{AccessRequest, CATALOG, CatalogId, ChannelNames, KeyAccess};
use crate::redis::classes::{self, CommandClasses};
use std::collections::BTreeMap;

/// A pattern for key names, and the access that it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    need: KeyAccess,
    text: Vec<u8>,
}

/// Why a selector denies an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessDenial {
    /// The user may not execute the command.
    Command,
    /// The user may not access this key in the required way (read or write).
    Key(Vec<u8>),
    /// The user may not access this channel or pattern.
    Channel(Vec<u8>),
}

/// A set of allowed commands and a set of allowed keys. A command is allowed only if one selector
/// allows both the command and all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AclSelector {
    has_all_keys: bool,
    patterns: Vec<KeyPattern>,
    has_all_channels: bool,
    channels: Vec<Vec<u8>>,
    /// Whether `+@all` was applied and no rule has since removed a command.
    has_all_commands: bool,
    /// Whether `+@all` was applied, so that commands added by later versions are also allowed.
    has_later_commands: bool,
    /// Whether each command is allowed, by the command's position in the catalog.
    allowed: Vec<bool>,
    /// Commands that are allowed only with one of these words as the first argument.
    first_args: BTreeMap<CatalogId, Vec<Vec<u8>>>,
}

impl Default for AclSelector {
    fn default() -> AclSelector {
        AclSelector {
            has_all_keys: false,
            patterns: Vec::new(),
            has_all_channels: false,
            channels: Vec::new(),
            has_all_commands: false,
            has_later_commands: false,
            allowed: vec![false; CATALOG.entries.len()],
            first_args: BTreeMap::new(),
        }
    }
}

impl AclSelector {
    /// Returns whether the selector allows every command on every key and channel.
    pub(super) fn allows_all(&self) -> bool {
        self.has_all_keys && self.has_all_channels && self.has_all_commands
    }

    /// Checks whether the selector allows an access. Otherwise returns the reason.
    pub(super) fn check(&self, asked: &AccessRequest<'_>) -> Result<(), AccessDenial> {
        if !asked.is_free && !self.has_all_commands && !self.allowed[asked.id] && !self.is_first_arg(asked) {
            return Err(AccessDenial::Command);
        }
        self.check_channels(&asked.channels)?;
        if self.has_all_keys {
            return Ok(());
        }
        for &(key, need) in &asked.keys {
            if !self.fits(need, |pattern| glob::fits(pattern, key)) {
                return Err(AccessDenial::Key(key.to_vec()));
            }
        }
        match asked.of_all {
            Some(need) if !self.fits(need, |pattern| pattern == b"*") => {
                Err(AccessDenial::Key(b"*".to_vec()))
            }
            _ => Ok(()),
        }
    }

    fn check_channels(&self, asked: &ChannelNames<'_>) -> Result<(), AccessDenial> {
        let (names, is_pattern) = match asked {
            ChannelNames::None => return Ok(()),
            ChannelNames::Channels(names) => (names, false),
            ChannelNames::Patterns(names) => (names, true),
        };
        match names.iter().find(|name| !self.has_channel(name, is_pattern)) {
            None => Ok(()),
            Some(name) => Err(AccessDenial::Channel(name.to_vec())),
        }
    }

    /// Returns whether the selector allows a channel. A pattern must be one of the rules.
    pub(super) fn has_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let fits = |rule: &Vec<u8>| match is_pattern {
            true => rule == name,
            false => glob::fits(rule, name),
        };
        self.has_all_channels || self.channels.iter().any(fits)
    }

    fn is_first_arg(&self, asked: &AccessRequest<'_>) -> bool {
        let words = self.first_args.get(&asked.id);
        words.zip(asked.first_arg).is_some_and(|(words, first)| {
            let is_it = |word: &Vec<u8>| word.eq_ignore_ascii_case(first);
            words.iter().any(is_it)
        })
    }

    /// Returns whether a pattern that grants the access `need` satisfies `is_wanted`.
    fn fits(&self, need: KeyAccess, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
        let lets = |have: KeyAccess| (have.reads || !need.reads) && (have.writes || !need.writes);
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| lets(pattern.need) && is_wanted(&pattern.text))
    }

    /// Applies one word of the rule syntax to this selector.
    pub(super) fn apply(&mut self, word: &[u8]) -> Result<(), RuleError> {
        let lower = word.to_ascii_lowercase();
        match (&lower[..], word) {
            (b"allkeys" | b"~*", _) => self.set_keys(true),
            (b"resetkeys", _) => self.set_keys(false),
            (b"allchannels" | b"&*", _) => self.set_channels(true),
            (b"resetchannels", _) => self.set_channels(false),
            (b"allcommands" | b"+@all", _) => self.set_commands(true),
            (b"nocommands" | b"-@all", _) => self.set_commands(false),
            (_, [b'~', pattern @ ..]) => self.add_keys(KeyAccess::BOTH, pattern)?,
            (_, [b'%', rest @ ..]) => {
                let (need, pattern) = permissions(rest)?;
                self.add_keys(need, pattern)?;
            }
            (_, [b'&', pattern @ ..]) => self.add_channel(pattern)?,
            (_, [sign @ (b'+' | b'-'), b'@', name @ ..]) => {
                let class = CommandClasses::named(name).ok_or(RuleError::Unknown)?;
                self.set_class(class, *sign == b'+');
            }
            (_, [b'+', name @ ..]) => self.allow(name)?,
            (_, [b'-', name @ ..]) => self.set(CATALOG.find(name).ok_or(RuleError::Unknown)?, false),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.has_all_keys = all;
        self.patterns.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.has_all_channels = all;
        self.channels.clear();
    }

    fn set_commands(&mut self, all: bool) {
        self.allowed.fill(all);
        self.has_all_commands = all;
        self.has_later_commands = all;
        self.first_args.clear();
    }

    fn add_keys(&mut self, need: KeyAccess, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::KeysBehindAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.patterns.iter_mut().find(|known| known.text == pattern) {
            Some(known) => {
                known.need.reads |= need.reads;
                known.need.writes |= need.writes;
            }
            None => self.patterns.push(KeyPattern {
                need,
                text: pattern.to_vec(),
            }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::ChannelsBehindAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// Allows or forbids a command and all of its subcommands.
    fn set(&mut self, id: CatalogId, is_allowed: bool) {
        self.first_args.remove(&id);
        for one in std::iter::once(id).chain(CATALOG.entries[id].subcommands.clone()) {
            self.allowed[one] = is_allowed;
        }
        self.has_all_commands &= is_allowed;
    }

    fn set_class(&mut self, class: CommandClasses, is_allowed: bool) {
        for (id, entry) in CATALOG.entries.iter().enumerate() {
            if entry.classes.has(class) {
                self.set(id, is_allowed);
            }
        }
    }

    /// Allows the named command. The name may also denote a subcommand or, as in `command|word`, a
    /// command with a required first argument.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let bar = name.iter().rposition(|&byte| byte == b'|');
        let Some(bar) = bar else {
            self.set(CATALOG.find(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        };
        let (command, word) = (&name[..bar], &name[bar + 1..]);
        let id = CATALOG.find(command).ok_or(RuleError::Unknown)?;
        let entry = &CATALOG.entries[id];
        if entry.is_subcommand {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if word.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !entry.subcommands.is_empty() {
            self.set(CATALOG.find(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        }
        let words = self.first_args.entry(id).or_default();
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(word.to_vec());
        }
        Ok(())
    }
}

/// Parses a rule `%R~pattern`, `%W~pattern` or `%RW~pattern` after its `%`. Returns the granted
/// access and the pattern, which, as in Redis, is empty if the `~` is missing.
fn permissions(rest: &[u8]) -> Result<(KeyAccess, &[u8]), RuleError> {
    let end = rest.iter().position(|&byte| byte == b'~').unwrap_or(rest.len());
    let need = match &rest[..end].to_ascii_uppercase()[..] {
        b"R" => KeyAccess::READ,
        b"W" => KeyAccess::WRITE,
        b"RW" | b"WR" => KeyAccess::BOTH,
        _ => return Err(RuleError::Syntax),
    };
    Ok((need, rest.get(end + 1..).unwrap_or_default()))
}

/// Returns whether the text contains white space or zero bytes, which a user file cannot represent.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
    text.iter().any(is_space)
}

// Formats the selector as rules. Applying these rules to an empty selector recreates it.
impl AclSelector {
    /// Returns the rules that grant access to keys.
    pub(crate) fn keys(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let words = self.patterns.iter().map(|pattern| {
            let sign: &[u8] = match (pattern.need.reads, pattern.need.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                (false, _) => b"%W~",
            };
            [sign, &pattern.text].concat()
        });
        words.collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules that grant access to channels.
    pub(crate) fn channels(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let words = self.channels.iter().map(|channel| [b"&", &channel[..]].concat());
        words.collect::<Vec<_>>().join(&b' ')
    }

    /// Returns all rules of the selector as words for ACL SETUSER, separated by blanks.
    pub(super) fn describe(&self) -> Vec<u8> {
        let channels = match self.has_all_channels {
            true => self.channels(),
            false => [b"resetchannels".to_vec(), self.channels()].join(&b' '),
        };
        let parts = [self.keys(), channels.trim_ascii_end().to_vec(), self.commands()];
        let parts: Vec<Vec<u8>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(&b' ')
    }

    /// Returns the rules that allow or forbid commands, in the form that Redis chooses: first a
    /// rule for all commands, then rules for the best matching command classes, and finally rules
    /// for single commands.
    pub(crate) fn commands(&self) -> Vec<u8> {
        let adds = !self.has_later_commands;
        let (mut shown, mut left) = (AclSelector::default(), self.clone());
        shown.set_commands(!adds);
        let sign = if adds { "+" } else { "-" };
        let mut words = vec![if adds { "-@all" } else { "+@all" }.as_bytes().to_vec()];
        let mut applied = [false; classes::NAMES.len()];
        while let Some(best) = left.nearest_class(adds, &applied) {
            let name = classes::NAMES[best];
            let class = CommandClasses::named(name.as_bytes()).unwrap_or_default();
            shown.set_class(class, adds);
            left.set_class(class, !adds);
            words.push(format!("{sign}@{name}").into_bytes());
            applied[best] = true;
        }
        for (id, entry) in CATALOG.entries.iter().enumerate() {
            if self.allowed[id] != shown.allowed[id] {
                let sign = if self.allowed[id] { "+" } else { "-" };
                words.push(format!("{sign}{}", entry.name).into_bytes());
                shown.set(id, self.allowed[id]);
            }
            for word in self.first_args.get(&id).into_iter().flatten() {
                words.push([format!("+{}|", entry.name).as_bytes(), word].concat());
            }
        }
        assert_eq!(shown.allowed, self.allowed, "the words say what is allowed");
        words.join(&b' ')
    }

    /// Returns the command class that describes the selector best, or `None`. A class qualifies if
    /// most of its commands have the permission `adds`. Of these, the class with the fewest
    /// differing commands wins, and among equals the one with the most agreeing commands.
    fn nearest_class(&self, adds: bool, applied: &[bool]) -> Option<usize> {
        let mut best = None;
        let (mut least, mut most) = (usize::MAX, 0);
        for (index, name) in classes::NAMES.iter().enumerate() {
            let class = CommandClasses::named(name.as_bytes()).unwrap_or_default();
            let of_class = CATALOG.entries.iter().zip(&self.allowed);
            let of_class = of_class.filter(|(entry, _)| entry.classes.has(class));
            let (same, other): (Vec<bool>, Vec<bool>) = of_class
                .map(|(_, &allowed)| allowed)
                .partition(|&allowed| allowed == adds);
            let (same, other) = (same.len(), other.len());
            let is_better = other < least || (other == least && same > most);
            if !applied[index] && same > other && is_better {
                (best, least, most) = (Some(index), other, same);
            }
        }
        best
    }
}
