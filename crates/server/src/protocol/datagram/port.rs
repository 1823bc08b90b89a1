//! Executes the requests that a port receives.

use super::deduplication::{RequestDeduplicator, RequestStatus};
use super::format::{
    self, Datagram, DatagramDirection, DatagramHeader, DatagramOperation, DatagramOutcome, PortDirectory,
    SharedKey,
};
use super::frames::FrameBatch;
use crate::cache::{CachedItemHeader, ItemCache};
use alluvium::cache::MAX_KEY_BYTES;
use std::sync::Arc;

/// A port of a cache, which owns the keys in one range of hashes.
pub(super) struct DatagramPort {
    pub(super) directory: Arc<PortDirectory>,
    /// This port's index in the directory.
    pub(super) place: usize,
    pub(super) key: Option<SharedKey>,
    repeats: RequestDeduplicator,
    /// Buffer for the encoded item being read or written.
    stored: Vec<u8>,
}

impl DatagramPort {
    pub(super) fn new(directory: &Arc<PortDirectory>, place: usize, key: Option<SharedKey>) -> DatagramPort {
        assert!(place < directory.ports.len(), "the directory has the port");
        DatagramPort {
            directory: Arc::clone(directory),
            place,
            key,
            repeats: RequestDeduplicator::default(),
            stored: Vec::new(),
        }
    }

    /// Executes the first `count` requests of a burst and overwrites each with its reply. Sets a
    /// datagram's length to 0 if it must not be answered, for example because it is invalid.
    pub(super) fn execute(&mut self, content: &ItemCache, burst: &mut impl FrameBatch, count: usize) {
        let now_ms = content.now_ms();
        let keys = (0..count).filter_map(|index| format::read(burst.bytes(index)));
        content.prefetch(keys.map(|datagram| datagram.key));
        for index in 0..count {
            let done = self.answer(content, burst.bytes(index), now_ms);
            let Some((header, outcome, expires_in_ms, has_value)) = done else {
                burst.set_length(index, 0);
                continue;
            };
            let value = match has_value {
                true if header.operation == DatagramOperation::Directory => &self.stored[..],
                true => &self.stored[CachedItemHeader::length(&self.stored)..],
                false => &[],
            };
            let buffer = burst.buffer(index);
            let length = format::reply(&header, outcome, expires_in_ms, value, buffer);
            if let Some(key) = &self.key {
                key.seal(&mut buffer[..length]);
            }
            burst.set_length(index, length);
        }
    }

    /// Executes the request in a datagram. Returns the request's header, the outcome, the remaining
    /// time to live in milliseconds, and whether the reply contains a value. Returns `None` if
    /// there must be no reply.
    fn answer(
        &mut self,
        content: &ItemCache,
        bytes: &[u8],
        now_ms: u64,
    ) -> Option<(DatagramHeader, DatagramOutcome, u64, bool)> {
        let datagram = format::read(bytes)?;
        let header = datagram.header;
        // Never answer a reply. Otherwise two servers could answer each other endlessly.
        if header.way != DatagramDirection::Request {
            return None;
        }
        let short = |outcome| Some((header, outcome, 0, false));
        if self.key.as_ref().is_some_and(|key| !key.admits(bytes)) {
            return short(DatagramOutcome::Denied);
        }
        if header.operation == DatagramOperation::Directory {
            self.stored = self.directory.encode();
            return Some((header, DatagramOutcome::Done, 0, true));
        }
        if self.directory.place(header.hash) != self.place {
            return short(DatagramOutcome::WrongPort);
        }
        if datagram.key.len() > MAX_KEY_BYTES {
            return short(DatagramOutcome::TooLarge);
        }
        if header.operation == DatagramOperation::Get {
            return match content.read(datagram.key, &mut self.stored) {
                Some(found) => {
                    let left = found.expires_ms.saturating_sub(now_ms);
                    Some((header, DatagramOutcome::Done, left, true))
                }
                None => short(DatagramOutcome::Missing),
            };
        }
        match self.repeats.look(header.client, header.sequence) {
            RequestStatus::Never => {}
            RequestStatus::Before(outcome) => return short(outcome),
            RequestStatus::TooOld => return None,
        }
        let outcome = self.change(content, &datagram, now_ms);
        self.repeats.note(header.client, header.sequence, outcome);
        short(outcome)
    }

    fn change(&mut self, content: &ItemCache, datagram: &Datagram<'_>, now_ms: u64) -> DatagramOutcome {
        let Datagram { header, key, value } = datagram;
        let _locked = content.lock(key);
        if header.operation == DatagramOperation::Delete {
            return match content.delete(key) {
                true => DatagramOutcome::Done,
                false => DatagramOutcome::Missing,
            };
        }
        self.stored.clear();
        let head = CachedItemHeader {
            cas: content.next_cas(),
            ..CachedItemHeader::default()
        };
        head.write(&mut self.stored);
        self.stored.extend_from_slice(value);
        let expires_ms = match header.expires_in_ms {
            0 => 0,
            left => now_ms.saturating_add(left),
        };
        match content.write(key, &self.stored, expires_ms) {
            Ok(()) => DatagramOutcome::Done,
            Err(_) => DatagramOutcome::TooLarge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheMemory;
    use alluvium_device::datagrams::DatagramBurst;

    fn header(operation: DatagramOperation, sequence: u32) -> DatagramHeader {
        DatagramHeader {
            operation,
            way: DatagramDirection::Request,
            sequence,
            client: 1,
            hash: 0,
            expires_in_ms: 0,
            echo: 77,
        }
    }

    struct PortFixture {
        content: ItemCache,
        port: DatagramPort,
        burst: DatagramBurst,
    }

    impl PortFixture {
        fn new(key: Option<SharedKey>) -> PortFixture {
            let directory = PortDirectory {
                seed: 3,
                ports: vec![1, 2],
            };
            PortFixture {
                content: ItemCache::new(CacheMemory::new(4 << 20), 1).unwrap(),
                port: DatagramPort::new(&Arc::new(directory), 0, key),
                burst: DatagramBurst::new(4, 512),
            }
        }

        /// Executes a request. Returns its outcome and value, or `None` if the port sends no reply.
        fn ask(
            &mut self,
            header: DatagramHeader,
            key: &[u8],
            value: &[u8],
        ) -> Option<(DatagramOutcome, Vec<u8>)> {
            let datagram = Datagram { header, key, value };
            let length = format::write(&datagram, self.burst.buffer(0)).unwrap();
            self.burst.set_length(0, length);
            self.port.execute(&self.content, &mut self.burst, 1);
            let reply = format::read(self.burst.bytes(0))?;
            assert_eq!((reply.header.echo, reply.key), (77, &b""[..]));
            match reply.header.way {
                DatagramDirection::Reply(outcome) => Some((outcome, reply.value.to_vec())),
                DatagramDirection::Request => panic!("a reply"),
            }
        }
    }

    #[test]
    fn a_request_is_executed_once_and_its_reply_repeated() {
        let mut fixture = PortFixture::new(None);
        let (get, set) = (DatagramOperation::Get, DatagramOperation::Set);
        let done = Some((DatagramOutcome::Done, Vec::new()));
        assert_eq!(fixture.ask(header(set, 1), b"k", b"one"), done);
        assert_eq!(fixture.ask(header(set, 2), b"k", b"two"), done);
        assert_eq!(fixture.ask(header(set, 1), b"k", b"one"), done, "a late copy");
        let two = Some((DatagramOutcome::Done, b"two".to_vec()));
        assert_eq!(fixture.ask(header(get, 3), b"k", b""), two);
        assert_eq!(fixture.ask(header(DatagramOperation::Delete, 4), b"k", b""), done);
        assert_eq!(
            fixture.ask(header(DatagramOperation::Delete, 4), b"k", b""),
            done,
            "as before"
        );
        let missing = Some((DatagramOutcome::Missing, Vec::new()));
        assert_eq!(fixture.ask(header(get, 5), b"k", b""), missing);
        assert_eq!(fixture.ask(header(set, 3000), b"k", b"new"), done);
        assert_eq!(fixture.ask(header(set, 1500), b"k", b"old"), None);
    }

    #[test]
    fn what_is_wrong_is_refused_by_rule() {
        let mut fixture = PortFixture::new(None);
        let mut other = header(DatagramOperation::Get, 1);
        other.hash = u64::MAX;
        let said = |outcome| Some((outcome, Vec::new()));
        assert_eq!(fixture.ask(other, b"k", b""), said(DatagramOutcome::WrongPort));
        let long = header(DatagramOperation::Set, 2);
        fixture.burst = DatagramBurst::new(1, 4096);
        assert_eq!(
            fixture.ask(long, &[7; 2000], b"v"),
            said(DatagramOutcome::TooLarge)
        );
        assert_eq!(
            fixture.ask(header(DatagramOperation::Set, 3), b"", b""),
            said(DatagramOutcome::Done)
        );
        assert_eq!(
            fixture.ask(header(DatagramOperation::Get, 4), b"", b""),
            said(DatagramOutcome::Done)
        );
        let value = vec![1; 3900];
        assert_eq!(
            fixture.ask(header(DatagramOperation::Set, 5), b"k", &value),
            said(DatagramOutcome::Done)
        );
        fixture.burst = DatagramBurst::new(1, 512);
        assert_eq!(
            fixture.ask(header(DatagramOperation::Get, 6), b"k", b""),
            said(DatagramOutcome::TooLarge)
        );
        let mut reply = header(DatagramOperation::Get, 7);
        reply.way = DatagramDirection::Reply(DatagramOutcome::Done);
        assert_eq!(fixture.ask(reply, b"", b""), None, "a reply has no reply");
        let directory = fixture
            .ask(header(DatagramOperation::Directory, 8), b"", b"")
            .unwrap()
            .1;
        assert_eq!(
            PortDirectory::decode(&directory).unwrap(),
            *fixture.port.directory
        );
    }

    #[test]
    fn a_time_to_live_counts_from_the_request() {
        let mut fixture = PortFixture::new(None);
        let mut set = header(DatagramOperation::Set, 1);
        set.expires_in_ms = 600_000;
        assert_eq!(
            fixture.ask(set, b"k", b"v"),
            Some((DatagramOutcome::Done, Vec::new()))
        );
        let found = fixture.ask(header(DatagramOperation::Get, 2), b"k", b"");
        assert_eq!(found, Some((DatagramOutcome::Done, b"v".to_vec())));
        let reply = format::read(fixture.burst.bytes(0)).unwrap();
        assert!((1..=600_000).contains(&reply.header.expires_in_ms));
    }

    #[test]
    fn with_a_shared_key_only_those_who_have_it_are_served() {
        let key = SharedKey::new(b"secret");
        let mut fixture = PortFixture::new(Some(key.clone()));
        let denied = Some((DatagramOutcome::Denied, Vec::new()));
        assert_eq!(fixture.ask(header(DatagramOperation::Set, 1), b"k", b"v"), denied);
        assert!(key.admits(fixture.burst.bytes(0)), "replies are sealed");
        let (header, key_bytes, value) = (header(DatagramOperation::Set, 2), &b"k"[..], &b"v"[..]);
        let datagram = Datagram {
            header,
            key: key_bytes,
            value,
        };
        let length = format::write(&datagram, fixture.burst.buffer(1)).unwrap();
        key.seal(&mut fixture.burst.buffer(1)[..length]);
        fixture.burst.set_length(1, length);
        fixture.burst.set_length(0, 0);
        fixture.port.execute(&fixture.content, &mut fixture.burst, 2);
        let reply = format::read(fixture.burst.bytes(1)).unwrap();
        assert_eq!(reply.header.way, DatagramDirection::Reply(DatagramOutcome::Done));
        assert!(
            fixture.burst.bytes(0).is_empty(),
            "what is no datagram has no reply"
        );
    }
}
