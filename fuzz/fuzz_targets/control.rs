//! Messages of the management socket: no input panics, and a decoded message survives encoding and
//! decoding unchanged.

#![no_main]

use alluvium_server::control::Request;
use alluvium_server::control::format::{Part, frame, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stream = input;
    while let Ok(Some(request)) = read::<Request>(&mut stream) {
        let bytes = frame(&request).unwrap();
        assert_eq!(read::<Request>(&mut &bytes[..]).unwrap(), Some(request));
    }
    let mut stream = input;
    while let Ok(Some(part)) = read::<Part>(&mut stream) {
        let bytes = frame(&part).unwrap();
        assert_eq!(read::<Part>(&mut &bytes[..]).unwrap(), Some(part));
    }
});
