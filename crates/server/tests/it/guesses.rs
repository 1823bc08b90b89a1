//! Delays the answers to wrong passwords without delaying other clients. The tests control the
//! clock.

use crate::client::{Client, Fixture, any_port, options};
use alluvium_server::{ServerOptions, WakeupClock};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Waker;
use std::time::Duration;

/// A clock that the test advances.
#[derive(Debug, Default)]
struct Hands {
    state: Mutex<(Duration, Vec<(Duration, Waker)>)>,
    changed: Condvar,
}

impl WakeupClock for Hands {
    fn now(&self) -> Duration {
        self.state.lock().unwrap().0
    }

    fn wake_at(&self, at: Duration, waker: &Waker) {
        self.state.lock().unwrap().1.push((at, waker.clone()));
        self.changed.notify_all();
    }
}

impl Hands {
    /// Blocks until `count` tasks wait for the clock.
    fn are_waited_for_by(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let patience = Duration::from_secs(30);
        let waiting = |state: &mut (Duration, Vec<_>)| state.1.len() != count;
        let (state, result) = self.changed.wait_timeout_while(state, patience, waiting).unwrap();
        assert!(!result.timed_out(), "{} wait for the clock", state.1.len());
    }

    fn advance(&self, ms: u64) {
        let mut state = self.state.lock().unwrap();
        state.0 += Duration::from_millis(ms);
        let now = state.0;
        let (due, left) = std::mem::take(&mut state.1)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        state.1 = left;
        drop(state);
        let due: Vec<(Duration, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

fn with_clock() -> (Arc<Hands>, Fixture) {
    let hands = Arc::new(Hands::default());
    let options = ServerOptions {
        password: Some("secret".to_owned()),
        clock: Some(hands.clone()),
        web: any_port(),
        loops: Some(1),
        ..options()
    };
    (hands, Fixture::with(options))
}

/// A raw byte connection.
struct Raw(TcpStream);

impl Raw {
    fn new(address: Option<SocketAddr>) -> Raw {
        let socket = TcpStream::connect(address.unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Raw(socket)
    }

    fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn hears(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    #[track_caller]
    fn hears_nothing_yet(&mut self) {
        self.0.set_nonblocking(true).unwrap();
        let error = self.0.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).unwrap();
    }
}

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn each_wrong_password_waits_longer_and_nobody_else_does() {
    let (hands, fixture) = with_clock();
    let mut guesser = Raw::new(fixture.server.redis_addr());
    let mut other = fixture.client();
    guesser.send("AUTH wrong\r\nPING\r\nAUTH wrong\r\n");
    hands.are_waited_for_by(1);
    // The single event loop keeps serving other clients from the same address and accepts their
    // logins.
    other.script("AUTH secret => OK\nSET a 1 => OK");
    fixture.client().script("AUTH secret => OK\nGET a => \"1\"");
    guesser.hears_nothing_yet();
    hands.advance(99);
    other.script("PING => PONG");
    guesser.hears_nothing_yet();
    hands.advance(1);
    guesser.hears(WRONG);
    guesser.hears("-NOAUTH Authentication required.\r\n");
    // The second guess is processed after the answer to the first, with twice the delay.
    hands.are_waited_for_by(1);
    hands.advance(199);
    other.script("PING => PONG");
    guesser.hears_nothing_yet();
    hands.advance(1);
    guesser.hears(WRONG);
    guesser.send("HELLO 3 AUTH default wrong\r\nAUTH secret\r\nGET a\r\n");
    hands.are_waited_for_by(1);
    hands.advance(400);
    guesser.hears(WRONG);
    guesser.hears("+OK\r\n$1\r\n1\r\n");
}

#[test]
fn a_wrong_password_among_queued_commands_delays_all_of_their_replies() {
    let (hands, fixture) = with_clock();
    let mut client = Raw::new(fixture.server.redis_addr());
    client.send("AUTH secret\r\nMULTI\r\nSET a 1\r\nAUTH wrong\r\nGET a\r\nEXEC\r\nPING\r\n");
    client.hears("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    hands.are_waited_for_by(1);
    client.hears_nothing_yet();
    hands.advance(100);
    client.hears(&format!("*3\r\n+OK\r\n{WRONG}$1\r\n1\r\n+PONG\r\n"));
}

#[test]
fn no_long_reply_waits_but_what_comes_behind_it_does() {
    let (hands, fixture) = with_clock();
    let mut client = Raw::new(fixture.server.redis_addr());
    client.send("AUTH secret\r\nSETRANGE a 99999 x\r\nMULTI\r\nAUTH wrong\r\nGET a\r\nEXEC\r\nPING\r\n");
    client.hears("+OK\r\n:100000\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    let value = format!("{}x", "\0".repeat(99_999));
    client.hears(&format!("*2\r\n{WRONG}$100000\r\n{value}\r\n"));
    hands.are_waited_for_by(1);
    client.hears_nothing_yet();
    hands.advance(100);
    client.hears("+PONG\r\n");
}

#[test]
fn a_right_password_is_let_in_at_once_whatever_came_from_its_address() {
    let (hands, fixture) = with_clock();
    let mut guessers = Vec::new();
    for count in 1..=40 {
        let mut guesser = Raw::new(fixture.server.redis_addr());
        guesser.send("AUTH wrong\r\nAUTH wrong\r\nAUTH wrong\r\n");
        hands.are_waited_for_by(count);
        guessers.push(guesser);
    }
    // Each protocol accepts correct passwords while answers to wrong ones are pending.
    let mut late = Raw::new(fixture.server.redis_addr());
    late.send("AUTH secret\r\nPING\r\n");
    late.hears("+OK\r\n+PONG\r\n");
    let mut item = Raw::new(fixture.server.memcached_addr());
    item.send("set x 0 0 14\r\ndefault secret\r\n");
    item.hears("STORED\r\n");
    // One guess per connection has been processed so far.
    hands.are_waited_for_by(40);
    hands.advance(100);
    guessers[0].hears(WRONG);
    guessers[1].hears_nothing_yet();
}

#[test]
fn clients_of_memcached_and_browsers_wait_as_well() {
    let (hands, fixture) = with_clock();
    let mut client = Raw::new(fixture.server.memcached_addr());
    client.send("set x 0 0 13\r\ndefault wrong\r\nget x\r\n");
    hands.are_waited_for_by(1);
    let mut other = Raw::new(fixture.server.memcached_addr());
    other.send("set x 0 0 14\r\ndefault secret\r\nset y 0 0 1\r\n1\r\n");
    other.hears("STORED\r\nSTORED\r\n");
    client.hears_nothing_yet();
    hands.advance(100);
    client.hears("CLIENT_ERROR authentication failure\r\nCLIENT_ERROR unauthenticated\r\n");
    let address = fixture.server.web_addr().unwrap();
    let ask = |password: &str| {
        format!(
            "GET /api/stats HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Basic {password}\r\n\r\n"
        )
    };
    // The credentials are `default:wrong`, then `default:secret`, in base64.
    let (mut guesser, mut browser) = (Raw::new(Some(address)), Raw::new(Some(address)));
    guesser.send(&ask("ZGVmYXVsdDp3cm9uZw=="));
    hands.are_waited_for_by(1);
    browser.send(&ask("ZGVmYXVsdDpzZWNyZXQ="));
    browser.hears("HTTP/1.1 200 OK\r\n");
    guesser.hears_nothing_yet();
    hands.advance(200);
    guesser.hears("HTTP/1.1 401 Unauthorized\r\n");
}

#[test]
fn a_server_that_stops_waits_for_no_guesser() {
    let (hands, fixture) = with_clock();
    let mut guesser = fixture.client();
    guesser.send_bytes(b"AUTH wrong\r\n");
    hands.are_waited_for_by(1);
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert_eq!(guesser.try_reply(), None);
    assert!(Client::try_connect(fixture.server.redis_addr().unwrap()).is_none());
}
