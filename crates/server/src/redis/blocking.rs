//! Clients that wait for elements of keys: BLPOP, BZPOPMIN and similar.
//!
//! A command that finds nothing to pop joins the queues of its keys while it holds their locks. A
//! later commit that changes such a key serves the queue from its front, on the thread of that
//! commit, after the commit's locks are released and before the reply to its client is sent: it
//! runs the waiting command again, commits it, and hands the reply to the waiting connection. So
//! one change costs one served client, however many wait.
//!
//! Invariants:
//!
//! - **S31** A command that may wait takes no element of a key for which an earlier client waits.
//!   Clients are therefore served in the order in which they began to wait.
//! - **S32** A client is in a queue only while nothing has decided how its wait ends. Whatever
//!   decides it (an element, a timeout, another client, the end of the connection or of the server)
//!   first changes its state under its lock, so that only one decision counts.

use super::table::{CommandHandler, CommandSpec};
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::store::model::CollectionKind;
use crate::store::{
    AwaitedKey, CommandTransaction, KeyChange, KeyKind, KeyLockGuard, KeyLockRequest, Mode, ServerStore,
};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Instant;

/// How a wait has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// The reply of the command, which has been committed.
    Reply(Vec<u8>),
    TimedOut,
    /// Another client has sent CLIENT UNBLOCK … ERROR.
    Unblocked,
    /// The connection must be closed, because the server stops.
    Closed,
}

enum WaitState {
    Waiting(Waker),
    /// The command has found elements and is being committed.
    Committing(Waker),
    /// The session takes the outcome once.
    Over(Option<WaitOutcome>),
}

/// A command that waits.
pub(super) struct WaitingCommand {
    command: &'static CommandSpec,
    bytes: Box<[u8]>,
    places: Box<[(usize, usize)]>,
    version: RespVersion,
    database: u8,
    client: u64,
    /// When the wait ends, or `None` for never.
    deadline: Option<Instant>,
    /// The position in the order of all waiting commands.
    number: u64,
    state: Mutex<WaitState>,
}

impl fmt::Debug for WaitingCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingCommand")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl WaitingCommand {
    pub(super) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.places)
    }

    pub(super) fn command(&self) -> &'static CommandSpec {
        self.command
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let places = size_of_val(&*self.places);
        size_of::<WaitingCommand>() + self.bytes.len() + places + PER_AWAITED_KEY
    }

    /// Returns the keys for which the command waits: of BLMOVE only the source.
    fn awaited(&self) -> impl Iterator<Item = AwaitedKey> {
        let kind = awaited_kind(self.command);
        let most = awaited_keys(self.command);
        let keys = self.command.keys(self.args()).take(most);
        keys.map(move |key| (self.database, kind, key.into()))
    }

    /// Decides that the wait ends, unless that is decided already. Returns whether it was not.
    fn decide(&self, outcome: WaitOutcome) -> bool {
        let mut state = self.state.lock();
        if !matches!(*state, WaitState::Waiting(_)) {
            return false;
        }
        if let WaitState::Waiting(waker) = std::mem::replace(&mut *state, WaitState::Over(Some(outcome))) {
            waker.wake();
        }
        true
    }

    /// Decides that elements end the wait. Returns false if something else has.
    fn begin_commit(&self) -> bool {
        let mut state = self.state.lock();
        let WaitState::Waiting(waker) = &*state else {
            return false;
        };
        *state = WaitState::Committing(waker.clone());
        true
    }

    fn end_commit(&self, reply: Vec<u8>) {
        let reply = WaitOutcome::Reply(reply);
        let before = std::mem::replace(&mut *self.state.lock(), WaitState::Over(Some(reply)));
        if let WaitState::Committing(waker) = before {
            waker.wake();
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.state.lock(), WaitState::Waiting(_))
    }

    /// Returns how the wait has ended, or `None` if it has not. The outcome is returned once.
    pub(super) fn take_outcome(&self) -> Option<WaitOutcome> {
        match &mut *self.state.lock() {
            WaitState::Over(outcome) => outcome.take(),
            WaitState::Waiting(_) | WaitState::Committing(_) => None,
        }
    }
}

/// Approximate memory in bytes of an entry of a queue and of the table of clients.
const PER_AWAITED_KEY: usize = 160;

/// Returns the kind of collection that a blocking command pops from.
fn awaited_kind(command: &CommandSpec) -> CollectionKind {
    match command.group {
        "sorted-set" => CollectionKind::SortedSet,
        _ => CollectionKind::List,
    }
}

/// Returns how many of a command's keys it waits for.
fn awaited_keys(command: &CommandSpec) -> usize {
    match command.name {
        "blmove" | "brpoplpush" => 1,
        _ => usize::MAX,
    }
}

/// The waiting commands, by what they wait for, by client, and by deadline.
#[derive(Debug, Default)]
struct WaitQueues {
    queues: HashMap<AwaitedKey, BTreeMap<u64, Arc<WaitingCommand>>>,
    clients: HashMap<u64, Arc<WaitingCommand>>,
    deadlines: BTreeMap<(Instant, u64), Arc<WaitingCommand>>,
    next: u64,
    is_over: bool,
}

impl WaitQueues {
    /// Removes a command from all queues. Returns whether it was in them.
    fn remove(&mut self, waiting: &WaitingCommand) -> bool {
        let is_here = |found: &Arc<WaitingCommand>| found.number == waiting.number;
        if !self.clients.get(&waiting.client).is_some_and(is_here) {
            return false;
        }
        self.clients.remove(&waiting.client);
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, waiting.number));
        }
        for place in waiting.awaited() {
            let Some(queue) = self.queues.get_mut(&place) else {
                continue;
            };
            queue.remove(&waiting.number);
            if queue.is_empty() {
                self.queues.remove(&place);
            }
        }
        true
    }
}

/// A command that may have to wait.
pub(super) struct WaitRequest<'a> {
    pub(super) command: &'static CommandSpec,
    pub(super) args: Args<'a>,
    pub(super) version: RespVersion,
    /// The number that clients use for the database.
    pub(super) database: u8,
    pub(super) client: u64,
    pub(super) deadline: Option<Instant>,
    /// Whether the command has left elements to clients that have waited longer.
    pub(super) has_yielded: bool,
}

/// All commands that wait.
pub(crate) struct WaitRegistry {
    store: Weak<ServerStore>,
    queues: Mutex<WaitQueues>,
    changed: Condvar,
    count: AtomicUsize,
}

impl fmt::Debug for WaitRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitRegistry").finish_non_exhaustive()
    }
}

impl WaitRegistry {
    pub(crate) fn new(store: &Arc<ServerStore>) -> WaitRegistry {
        WaitRegistry {
            store: Arc::downgrade(store),
            queues: Mutex::default(),
            changed: Condvar::new(),
            count: AtomicUsize::new(0),
        }
    }

    /// Returns the number of clients that wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the number of keys for which clients wait.
    pub(crate) fn keys(&self) -> usize {
        self.queues.lock().queues.len()
    }

    /// Returns the number of clients whose wait has a deadline.
    pub(crate) fn deadlines(&self) -> usize {
        self.queues.lock().deadlines.len()
    }

    /// Adds a command to the queues of its keys, whose locks the caller must hold.
    pub(super) fn enqueue(
        &self,
        request: &WaitRequest<'_>,
        held: &KeyLockGuard<'_>,
        waker: &Waker,
    ) -> Arc<WaitingCommand> {
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(request.args.len()));
        for arg in request.args.iter() {
            places.push((bytes.len(), bytes.len() + arg.len()));
            bytes.extend_from_slice(arg);
        }
        let mut queues = self.queues.lock();
        let number = queues.next;
        queues.next += 1;
        let state = match queues.is_over {
            true => WaitState::Over(Some(WaitOutcome::Closed)),
            false => WaitState::Waiting(waker.clone()),
        };
        let waiting = Arc::new(WaitingCommand {
            command: request.command,
            bytes: bytes.into(),
            places: places.into(),
            version: request.version,
            database: request.database,
            client: request.client,
            deadline: request.deadline,
            number,
            state: Mutex::new(state),
        });
        if queues.is_over {
            waker.wake_by_ref();
            return waiting;
        }
        for place in waiting.awaited() {
            if request.has_yielded {
                // The thread that serves the key may have looked at the queue before.
                held.add_ready(&place);
            }
            let queue = queues.queues.entry(place).or_default();
            queue.insert(number, Arc::clone(&waiting));
        }
        queues.clients.insert(request.client, Arc::clone(&waiting));
        if let Some(deadline) = request.deadline {
            queues.deadlines.insert((deadline, number), Arc::clone(&waiting));
            if queues
                .deadlines
                .first_key_value()
                .is_some_and(|(first, _)| first.1 == number)
            {
                self.changed.notify_one();
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(store) = self.store.upgrade() {
            store.locks.begin_to_listen();
        }
        waiting
    }

    fn remove(&self, waiting: &WaitingCommand) {
        let was_here = self.queues.lock().remove(waiting);
        if was_here {
            self.note_removed();
        }
    }

    fn note_removed(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(store) = self.store.upgrade() {
            store.locks.end_to_listen();
        }
    }

    /// Ends the wait of a command whose connection ends.
    pub(super) fn cancel(&self, waiting: &WaitingCommand) {
        waiting.decide(WaitOutcome::Closed);
        self.remove(waiting);
    }

    /// Ends the wait of a client, as if it had timed out or with an error. Returns whether the
    /// client was waiting.
    pub(super) fn unblock(&self, client: u64, outcome: WaitOutcome) -> bool {
        let found = self.queues.lock().clients.get(&client).cloned();
        let Some(waiting) = found else {
            return false;
        };
        let was_waiting = waiting.decide(outcome);
        if was_waiting {
            self.remove(&waiting);
        }
        was_waiting
    }

    /// Ends the waits of all clients, because the server stops. Later waits end at once.
    pub(crate) fn close(&self) {
        let mut queues = self.queues.lock();
        queues.is_over = true;
        let all: Vec<Arc<WaitingCommand>> = queues.clients.values().cloned().collect();
        drop(queues);
        self.changed.notify_all();
        for waiting in all {
            self.cancel(&waiting);
        }
    }

    /// Starts the thread that ends waits at their deadlines. It ends once
    /// [`WaitRegistry::close`] has been called.
    pub(crate) fn start(self: &Arc<WaitRegistry>) -> std::io::Result<JoinHandle<()>> {
        let registry = Arc::clone(self);
        let thread = std::thread::Builder::new().name("alluvium-waits".to_owned());
        thread.spawn(move || registry.watch_deadlines())
    }

    fn watch_deadlines(&self) {
        let mut queues = self.queues.lock();
        while !queues.is_over {
            let now = Instant::now();
            match queues.deadlines.first_key_value() {
                None => self.changed.wait(&mut queues),
                Some((&(deadline, _), waiting)) if deadline <= now => {
                    let waiting = Arc::clone(waiting);
                    // Who has decided otherwise removes the command itself.
                    queues.deadlines.pop_first();
                    if waiting.decide(WaitOutcome::TimedOut) && queues.remove(&waiting) {
                        self.note_removed();
                    }
                }
                Some((&(deadline, _), _)) => {
                    self.changed.wait_until(&mut queues, deadline);
                }
            }
        }
    }

    /// Returns the command that has waited longest for a key.
    fn first(&self, place: &AwaitedKey) -> Option<Arc<WaitingCommand>> {
        let queues = self.queues.lock();
        let (_, first) = queues.queues.get(place)?.first_key_value()?;
        Some(Arc::clone(first))
    }

    /// Runs a waiting command. Returns whether the next command in the queue should run: not if
    /// this one has found nothing. Adds the keys to `ready` that the command itself has made ready.
    fn serve_one(
        &self,
        store: &ServerStore,
        waiting: &WaitingCommand,
        ready: &mut VecDeque<AwaitedKey>,
    ) -> bool {
        let (held, number) = lock(store, waiting);
        if !waiting.is_waiting() {
            self.remove(waiting);
            return true;
        }
        let CommandHandler::Data(run) = waiting.command.action else {
            unreachable!("blocking commands work on keys");
        };
        let mut transaction = CommandTransaction::new(store, number);
        transaction.client = waiting.client;
        transaction.begin_command(waiting.command.event);
        transaction.allow_waiting(waiting.number);
        let mut reply = Vec::new();
        let mut writer = ReplyWriter::new(&mut reply, waiting.version).at_most(store.budget.reply_room());
        let mut result = run(&mut transaction, waiting.args(), &mut writer);
        if result.is_ok() && transaction.wait().is_some() {
            return false;
        }
        if !waiting.begin_commit() {
            self.remove(waiting);
            return true;
        }
        if result.is_ok() {
            result = transaction.commit(&held).map(|_| ());
        }
        if let Err(failure) = result {
            reply.clear();
            ReplyWriter::new(&mut reply, waiting.version).error(&failure.to_string());
        }
        self.remove(waiting);
        waiting.end_commit(reply);
        ready.extend(held.take_ready());
        true
    }
}

/// Locks the keys of a waiting command. Returns the locks and the stored number of its database.
fn lock<'s>(store: &'s ServerStore, waiting: &WaitingCommand) -> (KeyLockGuard<'s>, u8) {
    loop {
        let number = store.databases.number_of(waiting.database);
        let mut wanted = KeyLockRequest::default();
        for key in waiting.command.keys(waiting.args()) {
            wanted.key(number, key, Mode::Exclusive);
        }
        let held = store.locks.lock(wanted);
        // If the database was swapped before the locks were acquired (S24), retry.
        if store.databases.number_of(waiting.database) == number {
            return (held, number);
        }
    }
}

impl WaitRegistry {
    /// Returns the key of a change if clients wait for it.
    pub(super) fn awaited_key(&self, change: &KeyChange) -> Option<AwaitedKey> {
        let KeyKind::Collection(kind) = change.kind else {
            return None;
        };
        if self.len() == 0 {
            return None;
        }
        let place = (change.database, kind, change.key.clone());
        let is_awaited = self.queues.lock().queues.contains_key(&place);
        is_awaited.then_some(place)
    }

    /// Serves the clients that wait for keys.
    pub(super) fn serve(&self, ready: Vec<AwaitedKey>) {
        let Some(store) = self.store.upgrade() else {
            return;
        };
        let mut ready: VecDeque<AwaitedKey> = ready.into();
        while let Some(place) = ready.pop_front() {
            while let Some(waiting) = self.first(&place) {
                if !self.serve_one(&store, &waiting, &mut ready) {
                    break;
                }
            }
        }
    }

    /// Returns the keys of a database for which clients wait.
    pub(super) fn awaited(&self, database: u8) -> Vec<Box<[u8]>> {
        let queues = self.queues.lock();
        let places = queues.queues.keys().filter(|(of, _, _)| *of == database);
        places.map(|(_, _, key)| key.clone()).collect()
    }

    /// Returns whether a client waits for a key that began to wait before the one with this number.
    pub(super) fn is_awaited_before(&self, place: &AwaitedKey, number: u64) -> bool {
        if self.len() == 0 {
            return false;
        }
        let queues = self.queues.lock();
        let queue = queues.queues.get(place);
        queue
            .and_then(|queue| queue.first_key_value())
            .is_some_and(|(&first, _)| first < number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use crate::redis::names;
    use alluvium::Options;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;
    use std::time::Duration;

    struct WakeFlag(AtomicBool);

    impl Wake for WakeFlag {
        fn wake(self: Arc<WakeFlag>) {
            self.0.store(true, Ordering::Release);
        }
    }

    fn request<'a>(line: &'a str, places: &'a mut Vec<(usize, usize)>, client: u64) -> WaitRequest<'a> {
        let mut at = 0;
        for word in line.split(' ') {
            places.push((at, at + word.len()));
            at += word.len() + 1;
        }
        WaitRequest {
            command: names::find(line.split(' ').next().unwrap().as_bytes()).unwrap(),
            args: Args::new(line.as_bytes(), places),
            version: RespVersion::Two,
            database: 0,
            client,
            deadline: None,
            has_yielded: false,
        }
    }

    #[test]
    fn a_waiting_command_is_small_and_its_wait_ends_once() {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(64 << 20)
            .open(place.path().join("store"))
            .unwrap();
        let store = Arc::new(ServerStore::open(&db, KeyLayout::AsStored).unwrap());
        let registry = Arc::new(WaitRegistry::new(&store));
        let thread = registry.start().unwrap();
        let held = || store.locks.lock(KeyLockRequest::default());
        let flag = Arc::new(WakeFlag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut places = Vec::new();
        let first = registry.enqueue(&request("BLPOP a b 0", &mut places, 1), &held(), &waker);
        assert!(first.memory() <= 512, "{}", first.memory());
        let mut places = Vec::new();
        let second = registry.enqueue(
            &request("BLMOVE b c LEFT LEFT 0", &mut places, 2),
            &held(),
            &waker,
        );
        assert_eq!(
            (registry.len(), registry.keys(), first.take_outcome()),
            (2, 2, None)
        );
        assert!(store.locks.has_listeners());
        let b: AwaitedKey = (0, CollectionKind::List, b"b".as_slice().into());
        assert!(registry.is_awaited_before(&b, second.number));
        assert!(!registry.is_awaited_before(&b, first.number));
        assert!(registry.unblock(1, WaitOutcome::Unblocked) && !registry.unblock(1, WaitOutcome::TimedOut));
        assert!(!registry.is_awaited_before(&b, second.number) && !first.begin_commit());
        assert_eq!(
            (first.take_outcome(), first.take_outcome()),
            (Some(WaitOutcome::Unblocked), None)
        );
        let mut places = Vec::new();
        let timed = WaitRequest {
            deadline: Some(Instant::now() + Duration::from_millis(5)),
            ..request("BZPOPMIN z 0.005", &mut places, 3)
        };
        let third = registry.enqueue(&timed, &held(), &waker);
        let outcome = loop {
            match third.take_outcome() {
                Some(outcome) => break outcome,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((outcome, registry.deadlines()), (WaitOutcome::TimedOut, 0));
        registry.close();
        thread.join().unwrap();
        assert_eq!(second.take_outcome(), Some(WaitOutcome::Closed));
        assert!(registry.len() == 0 && !store.locks.has_listeners());
        let mut places = Vec::new();
        let late = registry.enqueue(&request("BRPOP a 0", &mut places, 4), &held(), &waker);
        assert_eq!(late.take_outcome(), Some(WaitOutcome::Closed));
        assert!(flag.0.load(Ordering::Acquire));
    }
}
