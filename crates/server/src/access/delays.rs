//! Throttling of password guesses: each wrong password is answered later than the one before,
//! counted by connection and by address.
//!
//! Only the guessing connection waits. A right password is accepted at once, however many wrong
//! ones came from its address, because many clients may share an address, behind a proxy or on one
//! machine. A guess costs the server one comparison, less than the connection it arrives on.

use super::WakeupClock;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Delay of the answer to the first wrong password. It doubles with each further one.
const FIRST: Duration = Duration::from_millis(100);

const LONGEST: Duration = Duration::from_secs(5);

/// Time after the last delayed answer until an address is forgotten.
const MEMORY: Duration = Duration::from_secs(60);

/// Largest number of remembered addresses.
const ADDRESSES: usize = 4096;

/// The origin of a client. An IPv6 network of 64 bits counts as one origin, because a single site
/// can use all of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientOrigin {
    V4([u8; 4]),
    /// An IPv6 network of 64 bits.
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

/// The wrong passwords of an origin.
#[derive(Debug, Default)]
struct FailedLogins {
    failures: u32,
    /// Time of the last delayed answer.
    last: Duration,
}

/// Returns the delay of an answer after `failures` earlier wrong passwords.
fn delay(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}

/// The origins of recent wrong passwords.
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

    /// Ends all delays, because the server stops.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns whether the server stops.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Records a wrong password after `strikes` others from the same connection. Returns the time
    /// to answer it.
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
        // Another connection from the address continues with the same delay; one from another
        // address starts from the beginning.
        assert_eq!(delays.failed(peer(1), &mut 0), ms(5000));
        assert_eq!(delays.failed(peer(2), &mut 0), ms(100));
        // The connection's own count applies if its address has none.
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
