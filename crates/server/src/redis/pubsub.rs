//! Messages from clients to the subscribers of channels.
//!
//! A message is encoded once for each version of the protocol and each pattern, and all inboxes
//! that hold it share its bytes, which are charged to the memory of clients until the last
//! subscriber has taken it. An inbox has a hard and a soft limit, as `client-output-buffer-limit
//! pubsub` of Redis; a connection whose inbox exceeds them is closed.
//!
//! Invariants:
//!
//! - **S33** A subscriber receives a message whose commit begins after the reply to its SUBSCRIBE,
//!   and none whose commit begins after the reply to its UNSUBSCRIBE. Messages of one client arrive
//!   in the order in which it has sent them.

use crate::access::{AclUser, glob};
use crate::net::{ConnectionBudget, HIGH_WATER};
use crate::protocol::resp::{ReplyWriter, RespVersion};
use crate::shared::ClientHandle;
use crate::store::ChannelMessage;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Approximate memory in bytes of a message besides its text, and of an inbox entry.
const PER_MESSAGE: usize = 96;

/// An inbox holds at most the clients' memory divided by this, whatever its limits are.
/// Not a tuning parameter.
const INBOX_PART: usize = 2;

/// The default limits of an inbox, which are those of Redis. Not a tuning parameter.
const HARD_BYTES: usize = 32 << 20;
const SOFT_BYTES: usize = 8 << 20;
const SOFT_SECONDS: u64 = 60;

/// What a subscription names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionKind {
    Channel,
    Pattern,
    /// A channel of SSUBSCRIBE.
    Shard,
}

/// An encoded message, charged to the memory of clients.
struct EncodedMessage {
    bytes: Vec<u8>,
    charged: usize,
    budget: Arc<ConnectionBudget>,
}

impl EncodedMessage {
    fn new(budget: &Arc<ConnectionBudget>, version: RespVersion, parts: &[&[u8]]) -> EncodedMessage {
        let mut bytes = Vec::new();
        let mut reply = ReplyWriter::new(&mut bytes, version);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
        let charged = bytes.len() + PER_MESSAGE;
        budget.charge(charged);
        let budget = Arc::clone(budget);
        EncodedMessage {
            bytes,
            charged,
            budget,
        }
    }
}

impl Drop for EncodedMessage {
    fn drop(&mut self) {
        self.budget.uncharge(self.charged);
    }
}

#[derive(Default)]
struct InboxState {
    messages: VecDeque<Arc<EncodedMessage>>,
    bytes: usize,
    /// Since when the messages exceed the soft limit.
    soft_since: Option<Instant>,
    is_overrun: bool,
    waker: Option<Waker>,
}

/// A connection with subscriptions, and the messages that it has not sent yet.
pub(crate) struct ChannelSubscriber {
    client: Arc<ClientHandle>,
    inbox: Mutex<InboxState>,
}

impl fmt::Debug for ChannelSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSubscriber")
            .field("client", &self.client.id)
            .finish_non_exhaustive()
    }
}

impl ChannelSubscriber {
    pub(crate) fn new(client: &Arc<ClientHandle>) -> ChannelSubscriber {
        ChannelSubscriber {
            client: Arc::clone(client),
            inbox: Mutex::default(),
        }
    }

    /// Sets the waker to call when the inbox has a message.
    pub(crate) fn is_woken_by(&self, waker: &Waker) {
        let mut inbox = self.inbox.lock();
        if !inbox.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            inbox.waker = Some(waker.clone());
        }
    }

    fn version(&self) -> RespVersion {
        match self.client.version.load(Ordering::Relaxed) {
            3 => RespVersion::Three,
            _ => RespVersion::Two,
        }
    }

    fn send(&self, message: &Arc<EncodedMessage>, limits: &InboxLimits) {
        let mut inbox = self.inbox.lock();
        if inbox.is_overrun {
            return;
        }
        let was_empty = inbox.messages.is_empty();
        inbox.messages.push_back(Arc::clone(message));
        inbox.bytes += message.charged;
        let is_soft = limits.soft != 0 && inbox.bytes > limits.soft;
        inbox.soft_since = is_soft.then(|| inbox.soft_since.unwrap_or_else(Instant::now));
        let stays_soft = inbox
            .soft_since
            .is_some_and(|since| since.elapsed() >= limits.soft_time);
        if inbox.bytes > limits.hard || stays_soft {
            inbox.is_overrun = true;
            inbox.messages = VecDeque::new();
            inbox.bytes = 0;
        }
        self.client.load.backlog.store(inbox.bytes, Ordering::Relaxed);
        if (was_empty || inbox.is_overrun)
            && let Some(waker) = &inbox.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Moves messages to the end of `output`, about as many as one turn sends. Returns whether the
    /// inbox is within its limits; otherwise the connection must be closed.
    pub(crate) fn take(&self, output: &mut Vec<u8>) -> bool {
        self.take_up_to(output, HIGH_WATER)
    }

    /// Moves all messages to the end of `output`.
    pub(crate) fn take_all(&self, output: &mut Vec<u8>) {
        self.take_up_to(output, usize::MAX);
    }

    fn take_up_to(&self, output: &mut Vec<u8>, most: usize) -> bool {
        let mut inbox = self.inbox.lock();
        let before = output.len();
        while output.len() - before < most
            && let Some(message) = inbox.messages.pop_front()
        {
            output.extend_from_slice(&message.bytes);
            inbox.bytes -= message.charged;
        }
        if inbox.messages.is_empty() {
            inbox.soft_since = None;
        } else if let Some(waker) = &inbox.waker {
            // The rest follows in another turn.
            waker.wake_by_ref();
        }
        self.client.load.backlog.store(inbox.bytes, Ordering::Relaxed);
        !inbox.is_overrun
    }

    /// Returns whether the inbox has exceeded its limits, so that the connection must be closed.
    pub(crate) fn is_overrun(&self) -> bool {
        self.inbox.lock().is_overrun
    }
}

/// The subscribers of a channel or pattern, by client.
type SubscriberMap = BTreeMap<u64, Arc<ChannelSubscriber>>;

#[derive(Default)]
struct SubscriptionTables {
    channels: HashMap<Box<[u8]>, SubscriberMap>,
    shards: HashMap<Box<[u8]>, SubscriberMap>,
    patterns: BTreeMap<Box<[u8]>, SubscriberMap>,
}

impl SubscriptionTables {
    fn of_channels(&self, kind: SubscriptionKind) -> &HashMap<Box<[u8]>, SubscriberMap> {
        match kind {
            SubscriptionKind::Shard => &self.shards,
            SubscriptionKind::Channel | SubscriptionKind::Pattern => &self.channels,
        }
    }

    fn add(&mut self, kind: SubscriptionKind, name: &[u8], subscriber: &Arc<ChannelSubscriber>) {
        let of = match kind {
            SubscriptionKind::Channel => self.channels.entry(name.into()).or_default(),
            SubscriptionKind::Shard => self.shards.entry(name.into()).or_default(),
            SubscriptionKind::Pattern => self.patterns.entry(name.into()).or_default(),
        };
        of.insert(subscriber.client.id, Arc::clone(subscriber));
    }

    fn remove(&mut self, kind: SubscriptionKind, name: &[u8], client: u64) {
        let of = match kind {
            SubscriptionKind::Channel => self.channels.get_mut(name),
            SubscriptionKind::Shard => self.shards.get_mut(name),
            SubscriptionKind::Pattern => self.patterns.get_mut(name),
        };
        let Some(of) = of else { return };
        of.remove(&client);
        if of.is_empty() {
            match kind {
                SubscriptionKind::Channel => drop(self.channels.remove(name)),
                SubscriptionKind::Shard => drop(self.shards.remove(name)),
                SubscriptionKind::Pattern => drop(self.patterns.remove(name)),
            }
        }
    }

    /// Calls `look` with the subscribers of each pattern that a channel matches.
    fn each_pattern(&self, message: &ChannelMessage, mut look: impl FnMut(&[u8], &SubscriberMap)) {
        if message.is_sharded {
            return;
        }
        for (pattern, subscribers) in &self.patterns {
            if glob::fits(pattern, &message.channel) {
                look(pattern, subscribers);
            }
        }
    }
}

/// The limits that a message is sent with.
struct InboxLimits {
    hard: usize,
    /// 0 for none.
    soft: usize,
    soft_time: Duration,
}

/// The limits of `client-output-buffer-limit pubsub`.
#[derive(Debug)]
struct ConfiguredLimits {
    hard: AtomicUsize,
    soft: AtomicUsize,
    soft_seconds: AtomicU64,
}

/// All subscriptions of a server.
pub(crate) struct SubscriptionRegistry {
    tables: RwLock<SubscriptionTables>,
    /// Number of subscriptions. While it is zero, messages are not encoded.
    count: AtomicUsize,
    budget: Arc<ConnectionBudget>,
    limits: ConfiguredLimits,
}

impl fmt::Debug for SubscriptionRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionRegistry").finish_non_exhaustive()
    }
}

impl SubscriptionRegistry {
    pub(crate) fn new(budget: &Arc<ConnectionBudget>) -> SubscriptionRegistry {
        SubscriptionRegistry {
            tables: RwLock::default(),
            count: AtomicUsize::new(0),
            budget: Arc::clone(budget),
            limits: ConfiguredLimits {
                hard: AtomicUsize::new(HARD_BYTES),
                soft: AtomicUsize::new(SOFT_BYTES),
                soft_seconds: AtomicU64::new(SOFT_SECONDS),
            },
        }
    }

    /// Returns the hard limit of an inbox in bytes, the soft one, and for how many seconds an inbox
    /// may exceed the latter. 0 means no limit.
    pub(crate) fn limits(&self) -> (usize, usize, u64) {
        let limits = &self.limits;
        let get = |limit: &AtomicUsize| limit.load(Ordering::Relaxed);
        let seconds = limits.soft_seconds.load(Ordering::Relaxed);
        (get(&limits.hard), get(&limits.soft), seconds)
    }

    pub(crate) fn set_limits(&self, (hard, soft, seconds): (usize, usize, u64)) {
        self.limits.hard.store(hard, Ordering::Relaxed);
        self.limits.soft.store(soft, Ordering::Relaxed);
        self.limits.soft_seconds.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn subscribe(&self, kind: SubscriptionKind, name: &[u8], subscriber: &Arc<ChannelSubscriber>) {
        self.tables.write().add(kind, name, subscriber);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unsubscribe(&self, kind: SubscriptionKind, name: &[u8], client: u64) {
        self.tables.write().remove(kind, name, client);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of subscriptions that receive a message.
    pub(crate) fn receivers(&self, message: &ChannelMessage) -> usize {
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let tables = self.tables.read();
        let channels = tables.of_channels(kind_of(message));
        let mut count = channels.get(&message.channel).map_or(0, BTreeMap::len);
        tables.each_pattern(message, |_, subscribers| count += subscribers.len());
        count
    }

    /// Puts a message into the inboxes of its subscribers.
    pub(crate) fn publish(&self, message: &ChannelMessage) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let most = self.budget.limit() / INBOX_PART;
        let (hard, soft, seconds) = self.limits();
        let limits = InboxLimits {
            hard: if hard == 0 { most } else { hard.min(most) },
            soft,
            soft_time: Duration::from_secs(seconds),
        };
        let word: &[u8] = if message.is_sharded {
            b"smessage"
        } else {
            b"message"
        };
        let tables = self.tables.read();
        if let Some(subscribers) = tables.of_channels(kind_of(message)).get(&message.channel) {
            self.send(subscribers, &[word, &message.channel, &message.text], &limits);
        }
        tables.each_pattern(message, |pattern, subscribers| {
            let parts = [&b"pmessage"[..], pattern, &message.channel, &message.text];
            self.send(subscribers, &parts, &limits);
        });
    }

    fn send(&self, subscribers: &SubscriberMap, parts: &[&[u8]], limits: &InboxLimits) {
        let mut encoded: [Option<Arc<EncodedMessage>>; 2] = [None, None];
        for subscriber in subscribers.values() {
            let version = subscriber.version();
            let slot = &mut encoded[usize::from(version == RespVersion::Three)];
            let new = || Arc::new(EncodedMessage::new(&self.budget, version, parts));
            subscriber.send(slot.get_or_insert_with(new), limits);
        }
    }

    /// Returns the names of the channels with subscribers that match a pattern.
    pub(crate) fn channels(&self, kind: SubscriptionKind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let tables = self.tables.read();
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::fits(pattern, name));
        let names = tables.of_channels(kind).keys();
        names.filter(|name| fits(name)).cloned().collect()
    }

    /// Returns the number of subscribers of a channel, without those of patterns.
    pub(crate) fn subscribers(&self, kind: SubscriptionKind, channel: &[u8]) -> usize {
        let tables = self.tables.read();
        tables.of_channels(kind).get(channel).map_or(0, BTreeMap::len)
    }

    /// Returns the number of channels, patterns and sharded channels with subscribers.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let tables = self.tables.read();
        [tables.channels.len(), tables.patterns.len(), tables.shards.len()]
    }

    /// Ends the connections of a user that have subscriptions which the user's rules now forbid.
    /// Returns whether there are any.
    pub(crate) fn end_forbidden(&self, user: &Arc<AclUser>) -> bool {
        let mut has_ended = false;
        let tables = self.tables.read();
        let all = [(&tables.channels, false), (&tables.shards, false)];
        let names = all
            .into_iter()
            .flat_map(|(names, is_pattern)| names.iter().map(move |entry| (entry, is_pattern)));
        let names = names.chain(tables.patterns.iter().map(|entry| (entry, true)));
        for ((name, subscribers), is_pattern) in names {
            if user.may_receive(name, is_pattern) {
                continue;
            }
            for subscriber in subscribers.values() {
                if Arc::ptr_eq(user, &subscriber.client.user.lock()) {
                    subscriber.client.is_killed.store(true, Ordering::Relaxed);
                    has_ended = true;
                }
            }
        }
        has_ended
    }
}

fn kind_of(message: &ChannelMessage) -> SubscriptionKind {
    match message.is_sharded {
        true => SubscriptionKind::Shard,
        false => SubscriptionKind::Channel,
    }
}
