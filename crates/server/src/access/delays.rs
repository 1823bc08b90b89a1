//! What guessing a password costs: each wrong one is answered later than the last, by connection
//! and by address.
//!
//! Only the connection that guessed waits. A right password is let in at once, however many wrong
//! ones came from its address: many clients may share it, behind a proxy or on one machine. What a
//! guess costs the server is one comparison, less than the connection that it needs.

use super::Clock;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the first wrong password waits for its answer; each further one twice as long.
const FIRST: Duration = Duration::from_millis(100);

/// How long any waits at most.
const LONGEST: Duration = Duration::from_secs(5);

/// An address is forgotten so long after the last answer to a wrong password.
const MEMORY: Duration = Duration::from_secs(60);

/// How many addresses are remembered.
const ADDRESSES: usize = 4096;

/// Where a client is. Addresses that a single network hands out by the billion count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    V4([u8; 4]),
    /// The network of 64 bits.
    V6([u8; 8]),
    /// On this machine, by a socket of the file system.
    Socket,
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V4(address) => Peer::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Peer::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// What is known of an address.
#[derive(Debug, Default)]
struct Guesses {
    failures: u32,
    /// When the last of all is answered.
    last: Duration,
}

/// How long the next answer waits after a number of wrong passwords before it.
fn delay(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}

/// The addresses that wrong passwords came from.
#[derive(Debug)]
pub(crate) struct Delays {
    clock: Arc<dyn Clock>,
    addresses: Mutex<HashMap<Peer, Guesses>>,
    is_over: AtomicBool,
}

impl Delays {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Delays {
        Delays {
            clock,
            addresses: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The server stops: who waits need not any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether the server stops.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// A password was wrong, as were `strikes` of the same connection; when to say so.
    pub(super) fn failed(&self, peer: Peer, strikes: &mut u32) -> Duration {
        let now = self.clock.now();
        let mut addresses = self.addresses.lock();
        if addresses.len() >= ADDRESSES && !addresses.contains_key(&peer) {
            addresses.retain(|_, guesses| guesses.last + MEMORY > now);
            let oldest = addresses.iter().min_by_key(|(_, guesses)| guesses.last);
            if let Some(oldest) = oldest
                .map(|(peer, _)| *peer)
                .filter(|_| addresses.len() >= ADDRESSES)
            {
                addresses.remove(&oldest);
            }
        }
        let guesses = addresses.entry(peer).or_default();
        if guesses.last + MEMORY <= now {
            guesses.failures = 0;
        }
        let answer = now + delay(guesses.failures.max(*strikes));
        guesses.failures = guesses.failures.saturating_add(1);
        *strikes = strikes.saturating_add(1);
        guesses.last = guesses.last.max(answer);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[derive(Debug, Default)]
    struct Hands(Mutex<Duration>);

    impl Clock for Hands {
        fn now(&self) -> Duration {
            *self.0.lock()
        }

        fn wake_at(&self, _at: Duration, _waker: &Waker) {}
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn peer(number: u32) -> Peer {
        Peer::V4(number.to_be_bytes())
    }

    #[test]
    fn each_wrong_password_waits_longer_by_connection_and_by_address() {
        let clock = Arc::new(Hands::default());
        let delays = Delays::new(clock.clone());
        let mut strikes = 0;
        let waits: Vec<_> = (0..8).map(|_| delays.failed(peer(1), &mut strikes)).collect();
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000].map(ms);
        assert_eq!(waits, expected);
        // Another connection of the address goes on where this one was, one of another address
        // begins.
        assert_eq!(delays.failed(peer(1), &mut 0), ms(5000));
        assert_eq!(delays.failed(peer(2), &mut 0), ms(100));
        // The same connection is known by its own number when its address is not.
        assert_eq!(delays.failed(peer(3), &mut 2), ms(400));
        *clock.0.lock() = ms(5000) + MEMORY;
        assert_eq!(delays.failed(peer(1), &mut 0) - clock.now(), ms(100));
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let clock = Arc::new(Hands::default());
        let delays = Delays::new(clock.clone());
        for number in 0..2 * ADDRESSES as u32 {
            *clock.0.lock() += ms(1);
            delays.failed(peer(number), &mut 0);
        }
        assert_eq!(delays.addresses.lock().len(), ADDRESSES);
        assert!(
            delays
                .addresses
                .lock()
                .contains_key(&peer(2 * ADDRESSES as u32 - 1))
        );
        *clock.0.lock() += 2 * MEMORY;
        delays.failed(peer(0), &mut 0);
        assert_eq!(delays.addresses.lock().len(), 1);
    }

    #[test]
    fn networks_count_as_one_address() {
        let peer = |text: &str| Peer::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    }
}
