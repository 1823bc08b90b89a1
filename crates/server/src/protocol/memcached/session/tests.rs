//! Tests that the long values of several clients are written one at a time.

use super::*;
use crate::net::wait_hooks::{self, OnWait};
use crate::net::{ConnectionBudget, EndpointAddress, WireProtocol};
use crate::options::{KeyLayout, ServerOptions};
use crate::server;
use crate::shared::ListenPorts;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Completes another client's write as soon as this client waits for it.
struct Other {
    budget: Arc<ConnectionBudget>,
    bytes: usize,
    waits: Cell<u32>,
}

impl OnWait for Other {
    fn about_to_wait(&self) {
        self.waits.set(self.waits.get() + 1);
        self.budget.end_to_write(self.bytes);
    }

    fn may_wait(&self, _may: bool) {}
}

fn session_of(db: &alluvium::Db) -> MemcachedSession {
    let options = ServerOptions::default();
    let store = Arc::new(ServerStore::open(db, KeyLayout::AsStored).unwrap());
    let access = server::access(&options).unwrap();
    let ports = ListenPorts {
        redis: 0,
        memcached: 0,
    };
    let shared = Arc::new(StoreContext::new(store, &options, access, ports, 1));
    let place = || EndpointAddress::Network("127.0.0.1:1".parse().unwrap());
    let user = shared.access.default_user();
    let client = shared
        .clients
        .admit(WireProtocol::Memcached, (place(), place()), user, 1);
    MemcachedSession::new(&shared, &client.unwrap())
}

#[test]
fn a_long_set_waits_until_others_are_written_and_a_short_one_does_not() {
    let mut session = session_of(&alluvium::Options::new().in_memory().unwrap());
    let shared = Arc::clone(&session.shared);
    let mut set = |bytes: usize| {
        let text = format!("set k 0 0 {bytes}\r\n{}\r\n", "x".repeat(bytes));
        let ParsedInput::Request(request, _) = request::read(text.as_bytes(), 1 << 20) else {
            panic!("a request")
        };
        let (mut output, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
        let executed = session.run(&[request], None, &mut output, &mut context);
        assert!(matches!(executed, ExecutionProgress::All));
        assert_eq!(output, b"STORED\r\n");
    };
    let (budget, bytes) = (Arc::clone(&shared.budget), shared.budget.limit());
    assert!(budget.begin_to_write(bytes, Duration::ZERO));
    let other = Rc::new(Other {
        budget,
        bytes,
        waits: Cell::new(0),
    });
    wait_hooks::on_wait(Some(Rc::clone(&other) as Rc<dyn OnWait>));
    set(1000);
    assert_eq!(other.waits.get(), 0);
    set(300_000);
    assert_eq!(other.waits.get(), 1);
    wait_hooks::on_wait(None);
    assert!(
        other.budget.begin_to_write(bytes, Duration::ZERO),
        "its turn has ended"
    );
}

/// Executes requests. Returns their number and their replies.
fn replies(session: &mut MemcachedSession, text: &str) -> (usize, String) {
    let NextWork::Run(requests, _) = run::next(text.as_bytes(), 1 << 20, RunLimits::requests(9)) else {
        panic!("requests")
    };
    let (mut output, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
    let count = match session.run(&requests, None, &mut output, &mut context) {
        ExecutionProgress::All => requests.len(),
        ExecutionProgress::Part(part) => part,
        ExecutionProgress::Full => 0,
        ExecutionProgress::Waits(_) => panic!("there is no memory to read with"),
    };
    (count, String::from_utf8(output).unwrap())
}

/// A lookup that cannot get memory for its read is rejected after a timeout. The requests before it
/// are executed.
#[test]
fn a_lookup_that_has_waited_for_memory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let open = || alluvium::Options::new().memory(16 << 20).open(&path).unwrap();
    let db = open();
    let stored = format!("set k 0 0 3000\r\n{}\r\n", "x".repeat(3000));
    assert_eq!(
        replies(&mut session_of(&db), &stored),
        (1, "STORED\r\n".to_owned())
    );
    db.compact().unwrap();
    db.close().unwrap();
    let db = open();
    let mut session = session_of(&db);
    session.shared.store.sizes.note_kept(300_000);
    let budget = Arc::clone(&session.shared.budget);
    let mut some = budget.limit();
    while some > 0 {
        if !budget.try_charge(some) {
            some /= 2;
        }
    }
    assert_eq!(replies(&mut session, "get k\r\n").0, 0, "it waits");
    session.refuse_reply();
    let (count, text) = replies(&mut session, "get k\r\nget k\r\n");
    assert!(
        count == 1 && text.starts_with("SERVER_ERROR out of memory"),
        "{count} {text}"
    );
    assert_eq!(
        replies(&mut session, "get k\r\n").0,
        0,
        "the next one waits again"
    );
    session.refuse_reply();
    let (count, text) = replies(&mut session, "set l 0 0 1\r\nx\r\nget k\r\n");
    assert_eq!((count, &*text), (1, "STORED\r\n"));
}
