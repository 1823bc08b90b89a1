//! Long values of many clients take turns.

use super::*;
use crate::net::{Address, Budget, Language};
use crate::options::{KeyLayout, ServerOptions};
use crate::server;
use crate::shared::Ports;
use crate::waits::{self, OnWait};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Ends the write of another client once this one waits for it.
struct Other {
    budget: Arc<Budget>,
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

#[test]
fn a_long_set_waits_until_others_are_written_and_a_short_one_does_not() {
    let db = alluvium::Options::new().in_memory().unwrap();
    let options = ServerOptions::default();
    let store = Arc::new(Store::open(&db, KeyLayout::AsStored).unwrap());
    let access = server::access(&options).unwrap();
    let ports = Ports {
        redis: 0,
        memcached: 0,
    };
    let shared = Arc::new(Shared::new(store, &options, access, ports, 1));
    let place = || Address::Network("127.0.0.1:1".parse().unwrap());
    let user = shared.access.default_user();
    let client = shared
        .clients
        .admit(Language::Memcached, (place(), place()), user, 1);
    let mut session = Session::new(&shared, &client.unwrap());
    let mut set = |bytes: usize| {
        let text = format!("set k 0 0 {bytes}\r\n{}\r\n", "x".repeat(bytes));
        let Found::Request(request, _) = request::read(text.as_bytes(), 1 << 20) else {
            panic!("a request")
        };
        let (mut output, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
        let executed = session.run(&[request], None, &mut output, &mut context);
        assert!(matches!(executed, Executed::All));
        assert_eq!(output, b"STORED\r\n");
    };
    let (budget, bytes) = (Arc::clone(&shared.budget), shared.budget.limit());
    assert!(budget.begin_to_write(bytes, Duration::ZERO));
    let other = Rc::new(Other {
        budget,
        bytes,
        waits: Cell::new(0),
    });
    waits::on_wait(Some(Rc::clone(&other) as Rc<dyn OnWait>));
    set(1000);
    assert_eq!(other.waits.get(), 0);
    set(300_000);
    assert_eq!(other.waits.get(), 1);
    waits::on_wait(None);
    assert!(
        other.budget.begin_to_write(bytes, Duration::ZERO),
        "its turn has ended"
    );
}
