//! Passes what commits report to those who listen: to the clients that wait for keys, and to the
//! subscribers of messages and of keyspace events.

use super::blocking::WaitRegistry;
use super::pubsub::SubscriptionRegistry;
use crate::error::{CommandError, CommandResult};
use crate::store::{AwaitedKey, ChannelMessage, CommitListener, EventClass, KeyChange, ServerStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The letters of `notify-keyspace-events`. The first two choose the channels, the others the
/// classes of events. This server has no events of the last five.
const LETTERS: [u8; 14] = *b"KEg$lshzxetdmn";

/// The letters that `A` stands for: from `g` to `d`.
const ALL: u32 = 0b1111_1111_1100;

/// What `notify-keyspace-events` is set to: a set of letters.
#[derive(Debug, Default)]
pub(crate) struct NotifiedEvents(AtomicU32);

impl NotifiedEvents {
    /// Returns the setting in the order of Redis.
    pub(crate) fn text(&self) -> String {
        let flags = self.0.load(Ordering::Relaxed);
        let has = |index: usize| flags & 1 << index != 0;
        let mut text = String::new();
        if flags & ALL == ALL {
            text.push('A');
        } else {
            let classes = (2..12).filter(|&index| has(index));
            text.extend(classes.map(|index| char::from(LETTERS[index])));
        }
        let others = [0, 1, 12, 13].into_iter().filter(|&index| has(index));
        text.extend(others.map(|index| char::from(LETTERS[index])));
        text
    }

    /// Changes the setting. While it chooses any events, all commits report their changes.
    pub(crate) fn set(&self, store: &ServerStore, text: &[u8]) -> CommandResult {
        let mut flags = 0;
        for letter in text {
            flags |= match LETTERS.iter().position(|known| known == letter) {
                Some(index) => 1 << index,
                None if *letter == b'A' => ALL,
                None => {
                    return Err(CommandError::say(
                        "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
                    ));
                }
            };
        }
        let before = self.0.swap(flags, Ordering::Relaxed);
        match (before != 0, flags != 0) {
            (false, true) => store.locks.begin_to_listen(),
            (true, false) => store.locks.end_to_listen(),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether events of a class go to the channels of keys, and to those of events.
    fn channels_of(&self, class: EventClass) -> (bool, bool) {
        let letter = match class {
            EventClass::Internal => return (false, false),
            EventClass::Generic => 2,
            EventClass::Text => 3,
            EventClass::List => 4,
            EventClass::Set => 5,
            EventClass::Hash => 6,
            EventClass::SortedSet => 7,
            EventClass::Expired => 8,
        };
        let flags = self.0.load(Ordering::Relaxed);
        let is_chosen = flags & 1 << letter != 0;
        (is_chosen && flags & 1 != 0, is_chosen && flags & 2 != 0)
    }
}

/// The listener of all commits of a server.
#[derive(Debug)]
pub(crate) struct CommitHub {
    pub(crate) waits: Arc<WaitRegistry>,
    pub(crate) subscriptions: Arc<SubscriptionRegistry>,
    pub(crate) events: Arc<NotifiedEvents>,
}

impl CommitHub {
    fn notify(&self, change: &KeyChange) {
        let (of_keys, of_events) = self.events.channels_of(change.event.class);
        let name = change.event.name.as_bytes();
        let message = |word: &str, channel: &[u8], text: &[u8]| ChannelMessage {
            channel: [format!("__{word}@{}__:", change.database).as_bytes(), channel]
                .concat()
                .into(),
            text: text.into(),
            is_sharded: false,
        };
        if of_keys {
            self.subscriptions
                .publish(&message("keyspace", &change.key, name));
        }
        if of_events {
            self.subscriptions
                .publish(&message("keyevent", name, &change.key));
        }
    }
}

impl CommitListener for CommitHub {
    fn changed(&self, change: &KeyChange) -> Option<AwaitedKey> {
        self.notify(change);
        self.waits.awaited_key(change)
    }

    fn serve(&self, ready: Vec<AwaitedKey>) {
        self.waits.serve(ready);
    }

    fn awaited(&self, database: u8) -> Vec<Box<[u8]>> {
        self.waits.awaited(database)
    }

    fn is_awaited_before(&self, place: &AwaitedKey, number: u64) -> bool {
        self.waits.is_awaited_before(place, number)
    }

    fn receivers(&self, message: &ChannelMessage) -> usize {
        self.subscriptions.receivers(message)
    }

    fn publish(&self, message: &ChannelMessage) {
        self.subscriptions.publish(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use alluvium::Options;

    #[test]
    fn event_letters_are_those_of_redis() {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(64 << 20)
            .open(place.path().join("store"))
            .unwrap();
        let store = ServerStore::open(&db, KeyLayout::AsStored).unwrap();
        let events = NotifiedEvents::default();
        let set = |text: &str| events.set(&store, text.as_bytes()).map(|()| events.text());
        assert_eq!(set("KEA").unwrap(), "AKE");
        assert_eq!(set("Eg$lshzxetd").unwrap(), "AE");
        assert!(store.locks.has_listeners());
        assert_eq!(set("lK").unwrap(), "lK");
        assert_eq!(events.channels_of(EventClass::List), (true, false));
        assert_eq!(events.channels_of(EventClass::Hash), (false, false));
        assert_eq!(set("Kmn").unwrap(), "Kmn");
        assert!(set("Kq").is_err() && events.text() == "Kmn");
        assert_eq!(set("").unwrap(), "");
        assert!(!store.locks.has_listeners());
    }
}
