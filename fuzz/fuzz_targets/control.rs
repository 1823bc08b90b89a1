//! Messages of the management socket: no input panics, and a decoded message survives encoding and
//! decoding unchanged.

#![no_main]

use alluvium_server::control::ManagementRequest;
use alluvium_server::control::format::{ReplyFrame, frame, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut stream = input;
    while let Ok(Some(request)) = read::<ManagementRequest>(&mut stream) {
        let bytes = frame(&request).unwrap();
        assert_eq!(read::<ManagementRequest>(&mut &bytes[..]).unwrap(), Some(request));
    }
    let mut stream = input;
    while let Ok(Some(part)) = read::<ReplyFrame>(&mut stream) {
        let bytes = frame(&part).unwrap();
        assert_eq!(read::<ReplyFrame>(&mut &bytes[..]).unwrap(), Some(part));
    }
});
