//! Requests of the kernel to a mount, and access control lists: no input panics, and no part of a
//! request is longer than the request.

#![no_main]

use alluvium_mount::decode_kernel_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = decode_kernel_bytes(input);
});
