//! What the commands of a transaction report at its commit: changes of keys and messages; and
//! whether a command waits for another client.

use super::key_events::{ChannelMessage, KeyChange, KeyEvent, KeyKind};
use super::locks::KeyLockGuard;
use super::model::CollectionKind;
use super::transaction::CommandTransaction;
use std::time::Duration;

/// For how long a command waits for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitLength {
    Forever,
    AtMost(Duration),
}

/// The reports of a transaction.
pub(super) struct CommitReports {
    /// The event of the current command.
    event: KeyEvent,
    /// The changes to report after the commit, if anybody listens.
    pub(super) changes: Vec<KeyChange>,
    /// Number of changes by the commands before the current one.
    changed_before: usize,
    /// The messages to send after the commit.
    messages: Vec<ChannelMessage>,
    /// The position of the client in the order of all that wait, or `None` if the commands must not
    /// wait.
    turn: Option<u64>,
    /// For how long the command wants to wait for an element.
    wait: Option<WaitLength>,
    has_yielded: bool,
}

impl Default for CommitReports {
    fn default() -> CommitReports {
        CommitReports {
            event: KeyEvent::INTERNAL,
            changes: Vec::new(),
            changed_before: 0,
            messages: Vec::new(),
            turn: None,
            wait: None,
            has_yielded: false,
        }
    }
}

impl CommandTransaction<'_> {
    /// Sets the event that the changes of the following command are reported as.
    pub(crate) fn begin_command(&mut self, event: KeyEvent) {
        self.reports.event = event;
        self.reports.changed_before = self.reports.changes.len();
    }

    /// Sets the event that the following changes of the current command are reported as.
    pub(crate) fn set_event(&mut self, event: KeyEvent) {
        self.reports.event = event;
    }

    /// Returns the event that changes are reported as.
    pub(super) fn event(&self) -> KeyEvent {
        self.reports.event
    }

    /// Records that a user key was written and has this type now, so that the change is reported
    /// after the commit.
    pub(crate) fn touch(&mut self, key: &[u8], kind: KeyKind) {
        self.touch_as(key, kind, self.reports.event);
    }

    /// Like [`CommandTransaction::touch`], with an event other than that of the command.
    pub(crate) fn touch_as(&mut self, key: &[u8], kind: KeyKind, event: KeyEvent) {
        if let Some(within) = &mut self.within {
            within.touched(self.database, key, (kind, event));
        } else if self.store.locks.has_listeners() {
            let database = self.client_database();
            let is_same = |last: &&mut KeyChange| last.database == database && *last.key == *key;
            // A command that replaces a value deletes the old one first, which is no event.
            let own = &mut self.reports.changes[self.reports.changed_before..];
            if let Some(last) = own.last_mut().filter(|last| is_same(last))
                && (last.event, last.kind) == (KeyEvent::DEL, KeyKind::Absent)
            {
                (last.kind, last.event) = (kind, event);
                return;
            }
            let key = key.into();
            self.reports.changes.push(KeyChange {
                database,
                key,
                kind,
                event,
            });
        }
    }

    /// Sends a message after the commit.
    pub(crate) fn publish(&mut self, message: ChannelMessage) {
        self.bytes += message.memory();
        self.reports.messages.push(message);
    }

    /// Takes the messages that a command of a client's transaction has published.
    pub(super) fn take_messages(&mut self) -> Vec<ChannelMessage> {
        std::mem::take(&mut self.reports.messages)
    }

    /// Reports the changes and sends the messages of a commit.
    pub(super) fn report(&mut self, held: &KeyLockGuard<'_>) {
        self.reports
            .changes
            .drain(..)
            .for_each(|change| held.report(&change));
        if !self.reports.messages.is_empty() {
            self.store.locks.publish(&self.take_messages());
        }
    }

    /// Lets the next command wait for elements, behind all clients that began to wait before the
    /// one with this number.
    pub(crate) fn allow_waiting(&mut self, number: u64) {
        self.reports.turn = Some(number);
    }

    /// Notes that the command has found nothing, and waits if it may.
    pub(crate) fn begin_wait(&mut self, length: WaitLength) {
        self.reports.wait = self.reports.turn.map(|_| length);
    }

    /// Returns for how long the command waits, or `None` if it does not.
    pub(crate) fn wait(&self) -> Option<WaitLength> {
        self.reports.wait
    }

    /// Returns whether the command must leave the elements of a key to clients that have waited
    /// longer (S31).
    pub(crate) fn yields(&mut self, kind: CollectionKind, key: &[u8]) -> bool {
        let Some(number) = self.reports.turn else {
            return false;
        };
        let place = (self.client_database(), kind, key.into());
        let yields = self.store.locks.is_awaited_before(&place, number);
        self.reports.has_yielded |= yields;
        yields
    }

    /// Returns whether the command has left elements to clients that have waited longer.
    pub(crate) fn has_yielded(&self) -> bool {
        self.reports.has_yielded
    }

    /// Returns whether the current command has changed a key for which a client waits.
    pub(crate) fn wakes(&self) -> bool {
        self.reports.changes[self.reports.changed_before..]
            .iter()
            .any(|change| {
                let KeyKind::Collection(kind) = change.kind else {
                    return false;
                };
                let place = (change.database, kind, change.key.clone());
                self.store.locks.is_awaited_before(&place, u64::MAX)
            })
    }
}
