//! Throttles password guesses. The answer to each wrong password is delayed for longer than the
//! previous one. Wrong passwords are counted both per connection and per client address.
//!
//! Only the guessing connection is delayed. A correct password is accepted at once, even after many
//! wrong ones from the same address, because many clients may share one address behind a proxy or
//! on one machine. A guess costs the server one comparison, which is cheaper than accepting the
//! connection that sent it.

use super::WakeupClock;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Delay of the answer to the first wrong password, doubled with each further one.
const FIRST: Duration = Duration::from_millis(100);

const LONGEST: Duration = Duration::from_secs(5);

/// How long an address is remembered after its last delayed answer.
const MEMORY: Duration = Duration::from_secs(60);

/// Maximum number of addresses remembered at a time.
const ADDRESSES: usize = 4096;

/// A client's origin, by which wrong passwords are counted. All addresses in a 64-bit IPv6 network
/// count as one origin, because a single site can use all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientOrigin {
    V4([u8; 4]),
    /// The first 64 bits of an IPv6 address, which identify its network.
    V6([u8; 8]),
    /// A client on this machine, connected through a Unix domain socket.
    Socket,
}

impl From<IpAddr> for ClientOrigin {
    fn from(address: IpAddr) -> ClientOrigin {
        match address.to_canonical() {
            IpAddr::V4(address) => ClientOrigin::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                ClientOrigin::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The wrong passwords received from one origin.
#[derive(Debug, Default)]
struct FailedLogins {
    failures: u32,
    /// When the last delayed answer to this origin is sent.
    last: Duration,
}

/// Returns the answer delay for a wrong password after `failures` earlier ones.
fn delay(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}

/// Tracks the origins of recent wrong passwords and computes answer delays.
#[derive(Debug)]
pub(crate) struct LoginThrottle {
    clock: Arc<dyn WakeupClock>,
    addresses: Mutex<HashMap<ClientOrigin, FailedLogins>>,
    is_over: AtomicBool,
}

impl LoginThrottle {
    pub(crate) fn new(clock: Arc<dyn WakeupClock>) -> LoginThrottle {
        LoginThrottle {
            clock,
            addresses: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn clock(&self) -> Arc<dyn WakeupClock> {
        Arc::clone(&self.clock)
    }

    /// Ends all delays. Called when the server stops.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns whether the server is stopping and therefore no longer delays answers.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Registers a wrong password and returns the clock time at which to answer it. `strikes` is
    /// the number of earlier wrong passwords on the same connection, and is incremented.
    pub(super) fn failed(&self, peer: ClientOrigin, strikes: &mut u32) -> Duration {
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
    struct ManualClock(Mutex<Duration>);

    impl WakeupClock for ManualClock {
        fn now(&self) -> Duration {
            *self.0.lock()
        }

        fn wake_at(&self, _at: Duration, _waker: &Waker) {}
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn peer(number: u32) -> ClientOrigin {
        ClientOrigin::V4(number.to_be_bytes())
    }

    #[test]
    fn each_wrong_password_waits_longer_by_connection_and_by_address() {
        let clock = Arc::new(ManualClock::default());
        let delays = LoginThrottle::new(clock.clone());
        let mut strikes = 0;
        let waits: Vec<_> = (0..8).map(|_| delays.failed(peer(1), &mut strikes)).collect();
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000].map(ms);
        assert_eq!(waits, expected);
        // A new connection inherits its address's count and is delayed equally. A connection from
        // another address starts with the shortest delay.
        assert_eq!(delays.failed(peer(1), &mut 0), ms(5000));
        assert_eq!(delays.failed(peer(2), &mut 0), ms(100));
        // If the address has no wrong passwords yet, the connection's count determines the delay.
        assert_eq!(delays.failed(peer(3), &mut 2), ms(400));
        *clock.0.lock() = ms(5000) + MEMORY;
        assert_eq!(delays.failed(peer(1), &mut 0) - clock.now(), ms(100));
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let clock = Arc::new(ManualClock::default());
        let delays = LoginThrottle::new(clock.clone());
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
        let peer = |text: &str| ClientOrigin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    }
}
