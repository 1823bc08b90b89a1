//! What a commit reports about the keys that it has changed: their databases, their new types, and
//! the events that changed them.
//!
//! Every path that changes keys reports here: commands, MULTI, COMMIT, the management socket and
//! the reaper of expired collections. WATCH, blocking commands and keyspace events depend on these
//! reports and on nothing else.

use super::model::{CollectionKind, TypedValue};

/// The group of an event, by which clients choose the events that they receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// No client receives the event, but the key has changed.
    Internal,
    Generic,
    Text,
    List,
    Set,
    Hash,
    SortedSet,
    Expired,
}

/// The type of a key after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Absent,
    Text,
    Collection(CollectionKind),
}

impl KeyKind {
    /// Returns the type of a key with this value.
    pub(super) fn of(entry: Option<&TypedValue<'_>>) -> KeyKind {
        match entry {
            None => KeyKind::Absent,
            Some(TypedValue::Text(_)) => KeyKind::Text,
            Some(TypedValue::Collection(collection)) => KeyKind::Collection(collection.kind),
        }
    }
}

/// An event: the name under which Redis reports it, and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyEvent {
    pub(crate) name: &'static str,
    pub(crate) class: EventClass,
}

impl KeyEvent {
    /// FLUSHDB, SWAPDB and similar have changed the key.
    pub(crate) const INTERNAL: KeyEvent = KeyEvent::new("", EventClass::Internal);
    pub(crate) const COPY_TO: KeyEvent = KeyEvent::new("copy_to", EventClass::Generic);
    pub(crate) const DEL: KeyEvent = KeyEvent::new("del", EventClass::Generic);
    pub(crate) const EXPIRE: KeyEvent = KeyEvent::new("expire", EventClass::Generic);
    pub(crate) const EXPIRED: KeyEvent = KeyEvent::new("expired", EventClass::Expired);
    pub(crate) const LPOP: KeyEvent = KeyEvent::new("lpop", EventClass::List);
    pub(crate) const LPUSH: KeyEvent = KeyEvent::new("lpush", EventClass::List);
    pub(crate) const MOVE_FROM: KeyEvent = KeyEvent::new("move_from", EventClass::Generic);
    pub(crate) const MOVE_TO: KeyEvent = KeyEvent::new("move_to", EventClass::Generic);
    pub(crate) const PERSIST: KeyEvent = KeyEvent::new("persist", EventClass::Generic);
    pub(crate) const RENAME_FROM: KeyEvent = KeyEvent::new("rename_from", EventClass::Generic);
    pub(crate) const RENAME_TO: KeyEvent = KeyEvent::new("rename_to", EventClass::Generic);
    pub(crate) const RPOP: KeyEvent = KeyEvent::new("rpop", EventClass::List);
    pub(crate) const RPUSH: KeyEvent = KeyEvent::new("rpush", EventClass::List);
    pub(crate) const SADD: KeyEvent = KeyEvent::new("sadd", EventClass::Set);
    #[cfg(test)]
    pub(crate) const SET: KeyEvent = KeyEvent::new("set", EventClass::Text);
    pub(crate) const SREM: KeyEvent = KeyEvent::new("srem", EventClass::Set);
    pub(crate) const ZPOPMAX: KeyEvent = KeyEvent::new("zpopmax", EventClass::SortedSet);
    pub(crate) const ZPOPMIN: KeyEvent = KeyEvent::new("zpopmin", EventClass::SortedSet);

    pub(crate) const fn new(name: &'static str, class: EventClass) -> KeyEvent {
        KeyEvent { name, class }
    }
}

/// The change of a key that a commit has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyChange {
    /// The number that clients use for the key's database.
    pub(crate) database: u8,
    pub(crate) key: Box<[u8]>,
    /// The key's type after the change.
    pub(crate) kind: KeyKind,
    pub(crate) event: KeyEvent,
}

/// What a client waits for: a collection of this kind in a database, under a key.
pub(crate) type AwaitedKey = (u8, CollectionKind, Box<[u8]>);

/// A message to the subscribers of a channel, sent at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelMessage {
    pub(crate) channel: Box<[u8]>,
    pub(crate) text: Box<[u8]>,
    /// Whether the subscribers are those of SSUBSCRIBE.
    pub(crate) is_sharded: bool,
}

impl ChannelMessage {
    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<ChannelMessage>() + self.channel.len() + self.text.len()
    }
}

/// Receives the changes and messages of every commit, and knows the clients that wait for keys.
pub(crate) trait CommitListener: Send + Sync {
    /// Called once for each change, in order, after the commit has become visible and before the
    /// locks of its keys are released. Returns the key if clients wait for it.
    fn changed(&self, change: &KeyChange) -> Option<AwaitedKey>;

    /// Called with the awaited keys that a commit has changed, after its locks are released.
    fn serve(&self, ready: Vec<AwaitedKey>);

    /// Returns the keys of a database for which clients wait.
    fn awaited(&self, database: u8) -> Vec<Box<[u8]>>;

    /// Returns whether a client waits for a key that began to wait before the one with this number.
    fn is_awaited_before(&self, place: &AwaitedKey, number: u64) -> bool;

    /// Returns the number of subscriptions that would receive a message.
    fn receivers(&self, message: &ChannelMessage) -> usize;

    /// Sends a message.
    fn publish(&self, message: &ChannelMessage);
}
