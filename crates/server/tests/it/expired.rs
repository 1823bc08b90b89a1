//! The server must reclaim the space of expired keys without any command.
//!
//! `ALLUVIUM_EXPIRED_KEYS` sets the number of keys.

use crate::client::{Fixture, request};
use std::time::{Duration, Instant};

/// Time limit for the background work.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_space_of_expired_keys_comes_back_without_a_command() {
    let keys = std::env::var("ALLUVIUM_EXPIRED_KEYS").map_or(20_000, |text| text.parse().expect("a number"));
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let value = vec![b'v'; 400];
    for first in (0..keys).step_by(100) {
        let mut bytes = Vec::new();
        for key in first..first + 100 {
            // Use key names that do not compress, because compressible ones would not show the
            // space used.
            let name = format!("key {:016x}", u64::wrapping_mul(key, 0x9E37_79B9_7F4A_7C15));
            bytes.extend_from_slice(&request(&[b"SET", name.as_bytes(), &value, b"PX", b"2000"]));
        }
        client.send_bytes(&bytes);
        for _ in 0..100 {
            assert_eq!(client.reply(), "OK");
        }
    }
    fixture.db.checkpoint().unwrap();
    let data = fixture.db.keyspace("redis").unwrap();
    let before = data.size_on_disk().unwrap();
    let began = Instant::now();
    loop {
        let after = data.size_on_disk().unwrap();
        if after < before / 20 {
            println!(
                "{keys} keys: {before} bytes, {after} after {:.1} s",
                began.elapsed().as_secs_f64()
            );
            break;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{after} of {before} bytes are still taken"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.ask("DBSIZE"), ":0");
}
