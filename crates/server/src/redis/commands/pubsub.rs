//! Messages on channels: SUBSCRIBE, PUBLISH and similar.

use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::paging::no_room;
use crate::redis::pubsub::{ChannelSubscriber, SubscriptionKind};
use crate::redis::session::RedisSession;
use crate::redis::subcommands::unknown_subcommand;
use crate::store::{ChannelMessage, CommandTransaction};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// Approximate memory in bytes of a subscription besides its name, in this connection and the
/// registry.
const PER_SUBSCRIPTION: usize = 200;

/// The subscriptions of a connection.
pub(crate) struct SessionSubscriptions {
    subscriber: Arc<ChannelSubscriber>,
    /// The names, by kind: channels, patterns, sharded channels.
    names: [BTreeSet<Box<[u8]>>; 3],
    bytes: usize,
}

fn index(kind: SubscriptionKind) -> usize {
    match kind {
        SubscriptionKind::Channel => 0,
        SubscriptionKind::Pattern => 1,
        SubscriptionKind::Shard => 2,
    }
}

/// Returns the words that a subscription and its end are confirmed with.
fn words(kind: SubscriptionKind) -> (&'static [u8], &'static [u8]) {
    match kind {
        SubscriptionKind::Channel => (b"subscribe", b"unsubscribe"),
        SubscriptionKind::Pattern => (b"psubscribe", b"punsubscribe"),
        SubscriptionKind::Shard => (b"ssubscribe", b"sunsubscribe"),
    }
}

impl SessionSubscriptions {
    pub(crate) fn subscriber(&self) -> &ChannelSubscriber {
        &self.subscriber
    }

    /// Returns the memory of the subscriptions in bytes, without that of messages.
    pub(crate) fn held(&self) -> usize {
        self.bytes
    }

    /// Returns whether there are any subscriptions.
    pub(crate) fn are_there(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }

    /// Returns the number that confirms a subscription of this kind.
    fn count(&self, kind: SubscriptionKind) -> usize {
        match kind {
            SubscriptionKind::Shard => self.names[2].len(),
            SubscriptionKind::Channel | SubscriptionKind::Pattern => {
                self.names[0].len() + self.names[1].len()
            }
        }
    }
}

fn confirm(reply: &mut ReplyWriter<'_>, word: &[u8], name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
}

/// Publishes the numbers of subscriptions in CLIENT LIST.
fn note_counts(session: &RedisSession) {
    for (kind, count) in session.client.subscriptions.iter().enumerate() {
        let held = session.subscriptions.as_ref();
        let held = held.map_or(0, |held| held.names[kind].len());
        count.store(held, Ordering::Relaxed);
    }
}

fn add(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    kind: SubscriptionKind,
) -> CommandResult {
    let names = args.from(1);
    let bytes: usize = names.iter().map(|name| name.len() + PER_SUBSCRIPTION).sum();
    if !session.has_room_to_subscribe(bytes) {
        let counters = &session.shared.counters;
        counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
        let text = no_room("the list of subscriptions", &session.shared.budget);
        return Err(CommandError::Refused(Cow::Owned(text)));
    }
    let registry = Arc::clone(&session.shared.subscriptions);
    let client = Arc::clone(&session.client);
    let waker = session.waker.clone();
    let held = session.subscriptions.get_or_insert_with(|| {
        let subscriber = Arc::new(ChannelSubscriber::new(&client));
        subscriber.is_woken_by(&waker);
        Box::new(SessionSubscriptions {
            subscriber,
            names: Default::default(),
            bytes: 0,
        })
    });
    for name in names.iter() {
        if held.names[index(kind)].insert(name.into()) {
            registry.subscribe(kind, name, &held.subscriber);
            held.bytes += name.len() + PER_SUBSCRIPTION;
        }
        confirm(reply, words(kind).0, Some(name), held.count(kind));
    }
    note_counts(session);
    Ok(())
}

fn remove(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    kind: SubscriptionKind,
) -> CommandResult {
    let word = words(kind).1;
    let registry = Arc::clone(&session.shared.subscriptions);
    let client = session.client.id;
    let names: Vec<Box<[u8]>> = match (&session.subscriptions, args.len()) {
        (Some(held), 1) => held.names[index(kind)].iter().cloned().collect(),
        _ => args.from(1).iter().map(Box::from).collect(),
    };
    let mut waiting = Vec::new();
    if let Some(held) = &session.subscriptions {
        let own = names
            .iter()
            .filter(|name| held.names[index(kind)].contains(*name));
        for name in own.collect::<BTreeSet<_>>() {
            registry.unsubscribe(kind, name, client);
        }
        // Messages sent before must arrive before the confirmation (S33).
        held.subscriber.take_all(&mut waiting);
    }
    reply.raw(&waiting);
    if names.is_empty() {
        let count = session.subscriptions.as_ref().map_or(0, |held| held.count(kind));
        confirm(reply, word, None, count);
    }
    for name in &names {
        let mut count = 0;
        if let Some(held) = &mut session.subscriptions {
            if held.names[index(kind)].remove(name) {
                held.bytes -= name.len() + PER_SUBSCRIPTION;
            }
            count = held.count(kind);
        }
        confirm(reply, word, Some(name), count);
    }
    if session
        .subscriptions
        .as_ref()
        .is_some_and(|held| !held.are_there())
    {
        session.subscriptions = None;
    }
    note_counts(session);
    Ok(())
}

/// Ends all subscriptions of a connection.
pub(crate) fn unsubscribe_all(session: &mut RedisSession) {
    let Some(held) = session.subscriptions.take() else {
        return;
    };
    for kind in [
        SubscriptionKind::Channel,
        SubscriptionKind::Pattern,
        SubscriptionKind::Shard,
    ] {
        for name in &held.names[index(kind)] {
            session
                .shared
                .subscriptions
                .unsubscribe(kind, name, session.client.id);
        }
    }
    note_counts(session);
}

pub(crate) fn subscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(session, args, reply, SubscriptionKind::Channel)
}

pub(crate) fn psubscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(session, args, reply, SubscriptionKind::Pattern)
}

pub(crate) fn ssubscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    add(session, args, reply, SubscriptionKind::Shard)
}

pub(crate) fn unsubscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    remove(session, args, reply, SubscriptionKind::Channel)
}

pub(crate) fn punsubscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    remove(session, args, reply, SubscriptionKind::Pattern)
}

pub(crate) fn sunsubscribe(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    remove(session, args, reply, SubscriptionKind::Shard)
}

/// Sends a message when the transaction commits. Replies with the number of subscriptions that
/// would receive it now.
fn send(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    is_sharded: bool,
) -> CommandResult {
    let message = ChannelMessage {
        channel: args.at(1).into(),
        text: args.at(2).into(),
        is_sharded,
    };
    let receivers = transaction.store.locks.receivers(&message);
    // Between BEGIN and COMMIT, a client may subscribe before the message is sent.
    if receivers > 0 || transaction.is_within() {
        let (budget, bytes) = (&transaction.store.budget, message.memory());
        // Subscribers that do not read keep the memory until their connections are closed.
        if budget.used().saturating_add(bytes) > budget.limit() {
            return Err(CommandError::NoRoom { bytes });
        }
        transaction.publish(message);
    }
    reply.count(receivers);
    Ok(())
}

pub(crate) fn publish(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    send(transaction, args, reply, false)
}

pub(crate) fn spublish(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    send(transaction, args, reply, true)
}

pub(crate) fn pubsub(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let registry = &session.shared.subscriptions;
    let verb = args.at(1).to_ascii_uppercase();
    let kind = match verb.starts_with(b"SHARD") {
        true => SubscriptionKind::Shard,
        false => SubscriptionKind::Channel,
    };
    match (&verb[..], args.len()) {
        (b"CHANNELS" | b"SHARDCHANNELS", 2 | 3) => {
            let names = registry.channels(kind, args.get(2));
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name));
        }
        (b"NUMSUB" | b"SHARDNUMSUB", 2..) => {
            reply.map(args.len() - 2);
            for channel in args.from(2).iter() {
                reply.bulk(channel);
                reply.count(registry.subscribers(kind, channel));
            }
        }
        (b"NUMPAT", 2) => reply.count(registry.counts()[1]),
        (b"HELP", 2) => {
            let lines = [
                "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "CHANNELS [<pattern>] -- returns the channels with subscribers.",
                "NUMPAT -- returns the number of patterns with subscribers.",
                "NUMSUB [<channel> ...] -- returns the numbers of subscribers of channels.",
                "SHARDCHANNELS [<pattern>] -- returns the sharded channels with subscribers.",
                "SHARDNUMSUB [<channel> ...] -- returns the numbers of subscribers of sharded channels.",
                "HELP -- prints this help.",
            ];
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.simple(line));
        }
        _ => return Err(unknown_subcommand("pubsub", args)),
    }
    Ok(())
}

impl RedisSession {
    /// Returns whether the connection accepts only the commands of subscribers: in the second
    /// version of the protocol, its messages could not be told from replies.
    pub(crate) fn is_subscriber_only(&self) -> bool {
        self.settings.version == RespVersion::Two
            && self.subscriptions.as_ref().is_some_and(|held| held.are_there())
    }

    /// Appends messages to `output`. Returns false if the connection must be closed.
    pub(crate) fn append_messages(&self, output: &mut Vec<u8>, waker: &Waker) -> bool {
        let Some(held) = &self.subscriptions else {
            return true;
        };
        held.subscriber.is_woken_by(waker);
        held.subscriber.take(output)
    }
}
