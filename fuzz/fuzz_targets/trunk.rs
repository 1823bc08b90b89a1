//! What a checkpoint says of the trunk: no bytes panic, and what is read is written the same again.

#![no_main]

use alluvium_storage::{PageSize, Place, Structure};
use alluvium_trees::tiered::format::{Directory, Form, decode_payload, encode_payload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let place = Place::new(Structure::Node, "tier-0.data", 0);
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    match choice % 3 {
        0 => {
            if let Ok(form) = Form::decode(bytes, &place, PageSize::MIN) {
                let again = Form::decode(&form.encode(), &place, PageSize::MIN);
                assert_eq!(again.expect("what was read is sound"), form);
            }
        }
        1 => {
            if let Ok(directory) = Directory::decode(bytes, &place, PageSize::MIN) {
                assert!(bytes.starts_with(&directory.encode()));
            }
        }
        _ => {
            if let Ok(at) = decode_payload(bytes, &place, PageSize::MIN) {
                assert_eq!(encode_payload(&at), bytes);
            }
        }
    }
});
