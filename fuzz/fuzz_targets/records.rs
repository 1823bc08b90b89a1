//! Log records and the catalog: no input panics, and decoded values survive encoding and decoding
//! unchanged.

#![no_main]

use alluvium::simulation::format::{
    CatalogRecord, LogWrite, LogWriteIter, decode_catalog, encode_ingest, encode_keyspace, encode_one,
    encode_range, encode_volatile, keyspace_key, split,
};
use alluvium_dictionary::merge::OperandChain;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut again = Vec::new();
    let mut sound = true;
    for write in LogWriteIter::new(input) {
        match write {
            Ok(LogWrite::One {
                key,
                kind,
                expires_ms,
                operand,
            }) => encode_one(&mut again, &[], key, kind, expires_ms, operand),
            Ok(LogWrite::Range { start, end }) => encode_range(&mut again, start, end),
            Ok(LogWrite::Ingest { first, last }) => encode_ingest(&mut again, first, last),
            Ok(LogWrite::Volatile) => encode_volatile(&mut again),
            Err(_) => sound = false,
        }
    }
    if sound {
        // The input may encode a length in more bytes than necessary, or an expiry of zero
        // explicitly. The decoded writes are equal all the same.
        let twice: Vec<_> = LogWriteIter::new(&again).map(Result::unwrap).collect();
        assert_eq!(
            LogWriteIter::new(input).map(Result::unwrap).collect::<Vec<_>>(),
            twice
        );
    }
    // An operand of a timed delete is decoded and encoded again.
    if let Some((&times, operand)) = input.split_first()
        && let Ok(chain) = OperandChain::decode(operand, u64::from(times))
    {
        let again = chain.as_message(|message| OperandChain::decode(message.operand, message.expires_ms));
        assert_eq!(again, Ok(chain));
    }
    if let Some((len, _)) = split(input) {
        assert!(len <= input.len());
    }
    let cut = input.len().min(9);
    if let Ok(CatalogRecord::Keyspace {
        name,
        id,
        kind,
        options,
    }) = decode_catalog(&input[..cut], &input[cut..])
    {
        let value = encode_keyspace(id, kind, &options);
        let expected = CatalogRecord::Keyspace {
            name: name.clone(),
            id,
            kind,
            options,
        };
        assert_eq!(decode_catalog(&keyspace_key(&name), &value), Ok(expected));
    }
});
