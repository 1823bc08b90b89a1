//! Datagrams of a cache: no input panics, and a decoded datagram survives encoding and decoding
//! unchanged.

#![no_main]

use alluvium_server::datagram::format::{DatagramOutcome, PortDirectory, SharedKey, read, reply, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let key = SharedKey::new(b"key");
    let _ = key.admits(input);
    if let Some(directory) = PortDirectory::decode(input) {
        assert_eq!(directory.encode(), input);
    }
    let Some(datagram) = read(input) else { return };
    let mut bytes = vec![0; input.len()];
    assert_eq!(write(&datagram, &mut bytes), Some(input.len()));
    assert_eq!(read(&bytes), Some(datagram));
    let length = reply(
        &datagram.header,
        DatagramOutcome::Done,
        1,
        datagram.value,
        &mut bytes,
    );
    let answer = read(&bytes[..length]).expect("a reply is a datagram");
    assert_eq!(answer.value, datagram.value);
});
