//! Decodes arbitrary bytes as requests of the kernel, for fuzzing.

use super::requests::{RequestArguments, decode_number, decode_offer, decode_request, encode_request};
use crate::acl::AccessList;

/// Decodes bytes as a request of the kernel, as its offer, and as an access control list, and
/// returns how many of these accept them.
///
/// ```
/// use alluvium_mount::{decode_kernel_bytes, kernel_examples};
/// assert!(kernel_examples().iter().all(|example| decode_kernel_bytes(example) > 0));
/// assert_eq!(decode_kernel_bytes(b""), 0);
/// ```
///
/// # Panics
/// If a name in the request has a zero byte, if a part is longer than the request, or if an access
/// control list is another one after it is encoded and decoded again.
#[must_use]
pub fn decode_kernel_bytes(bytes: &[u8]) -> usize {
    let mut found = usize::from(decode_offer(bytes).is_some());
    if let Some(request) = decode_request(bytes) {
        assert!(decode_number(bytes).is_some(), "a request without a number");
        check_arguments(&request.arguments, bytes.len());
        found += 1;
    }
    if let Some(list) = AccessList::decode(bytes) {
        let encoded = list.encode();
        assert_eq!(encoded.len(), bytes.len());
        assert_eq!(AccessList::decode(&encoded), Some(list));
        found += 1;
    }
    found
}

fn check_arguments(arguments: &RequestArguments<'_>, length: usize) {
    use RequestArguments as Arguments;
    let (names, data): (&[&[u8]], &[u8]) = match arguments {
        Arguments::Lookup(name) | Arguments::Unlink(name) => (&[name], b""),
        Arguments::RemoveDirectory(name) | Arguments::RemoveExtended(name) => (&[name], b""),
        Arguments::SymbolicLink { name, target } => (&[name, target], b""),
        Arguments::MakeNode { name, .. } | Arguments::MakeDirectory { name, .. } => (&[name], b""),
        Arguments::Create { name, .. } | Arguments::Link { name, .. } => (&[name], b""),
        Arguments::Rename { name, new_name, .. } => (&[name, new_name], b""),
        Arguments::Extended { name, .. } => (&[name], b""),
        Arguments::SetExtended { name, value, .. } => (&[name], value),
        Arguments::Write { data, .. } => (&[], data),
        Arguments::ForgetMany(forgotten) => {
            assert!(16 * forgotten.len() <= length, "more inodes than bytes");
            (&[], b"")
        }
        _ => (&[], b""),
    };
    assert!(data.len() <= length, "more data than bytes");
    for name in names {
        assert!(
            name.len() < length && !name.contains(&0),
            "a name with a zero byte"
        );
    }
}

/// Returns requests that [`decode_kernel_bytes`] accepts, one of each operation, and an access
/// control list.
#[must_use]
pub fn kernel_examples() -> Vec<Vec<u8>> {
    let mut examples = vec![b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x08\0\x04\0\x07\0\0\0".to_vec()];
    for operation in 1..60 {
        let mut arguments = vec![0; 64];
        arguments.extend_from_slice(b"one\0other\0");
        let bytes = encode_request(operation, 1, &arguments);
        if decode_kernel_bytes(&bytes) > 0 {
            examples.push(bytes);
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::super::dispatch;
    use super::*;
    use crate::options::MountOptions;
    use crate::serve::{ErrorNumber, MountServer};
    use alluvium::Options;
    use alluvium_files::{Files, FilesOptions};
    use std::sync::Arc;

    #[test]
    fn no_bytes_make_the_decoder_of_requests_panic() {
        let mut random = fastrand::Rng::with_seed(0xF05E);
        let examples = kernel_examples();
        assert!(examples.len() > 30, "{}", examples.len());
        let mut accepted = 0;
        for _ in 0..100_000 {
            let mut bytes = examples[random.usize(..examples.len())].clone();
            for _ in 0..random.usize(..4) {
                let place = random.usize(..bytes.len());
                match random.u8(..6) {
                    0 => bytes.truncate(place.max(1)),
                    1 => bytes[0] = random.u8(..),
                    _ => bytes[place] = random.u8(..),
                }
            }
            accepted += decode_kernel_bytes(&bytes);
        }
        assert!(accepted > 10_000, "{accepted}");
    }

    /// Draws the arguments of a request: numbers at the limits, then two names.
    fn arguments(random: &mut fastrand::Rng) -> Vec<u8> {
        let numbers: [u64; 12] = [
            0,
            1,
            2,
            3,
            513,
            4096,
            0x1_0000_0001,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
            0o100_644,
        ];
        let names: [&[u8]; 9] = [
            b"",
            b".",
            b"..",
            b"a",
            b"b",
            b"c",
            b"a/b",
            b"user.a",
            b"system.posix_acl_access",
        ];
        let mut bytes = Vec::new();
        for _ in 0..random.usize(..9) {
            let number = numbers[random.usize(..numbers.len())];
            // Sizes have 4 bytes, and the kernel never asks for more than one transfer.
            let low = (number as u32).min(1 << 20);
            match random.bool() {
                true => bytes.extend_from_slice(&number.to_le_bytes()),
                false => bytes.extend_from_slice(&[low, random.u32(..20)].map(u32::to_le_bytes).concat()),
            }
        }
        for _ in 0..2 {
            bytes.extend_from_slice(names[random.usize(..names.len())]);
            bytes.push(0);
        }
        bytes.extend_from_slice(&[7; 600][..random.usize(..600)]);
        bytes
    }

    #[test]
    fn no_request_of_a_kernel_makes_a_mount_panic_or_damages_files() {
        let db = Options::new().memory(32 << 20).in_memory().unwrap();
        let options = FilesOptions::new().block_bytes(512).inline_bytes(100);
        let files = Files::open_with(&db, "main", &options).unwrap();
        let server = MountServer::new(Arc::new(files.clone()), MountOptions::default());
        let mut random = fastrand::Rng::with_seed(0xCE11);
        let (mut done, mut spare) = (0, Vec::new());
        for round in 0..6000 {
            let inode = match random.u8(..10) {
                0 => random.u64(..),
                1..4 => 1,
                _ => random.u64(1..60),
            };
            let operation = [random.u32(1..55), 8, 9, 35, 16][random.usize(..5)];
            let bytes = encode_request(operation, inode, &arguments(&mut random));
            let Some(request) = decode_request(&bytes) else {
                continue;
            };
            match server.answer(|serving| dispatch::answer(serving, &request, &mut spare)) {
                Err(ErrorNumber(error)) => {
                    assert_ne!(error, libc::EIO, "round {round}: {}", bytes.escape_ascii());
                }
                Ok(_) => done += 1,
            }
        }
        assert!(done > 500, "{done}");
        server.end();
        let report = files.check().unwrap();
        assert!(report.is_whole(), "{report}");
    }
}
