//! Invalidates cached records. Before the tree publishes a memtable's messages, the cache updates
//! or removes every record that they affect.

use super::RecordCache;
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::memtable::{KeyVersionIter, Memtable};
use alluvium_dictionary::rules::KeyspaceSchema;
use std::sync::Arc;

/// Invalidation of one memtable's keys, performed in slices. Once it is complete, the tree may
/// publish the memtable's messages.
#[derive(Debug)]
pub(crate) struct CacheInvalidation {
    memtable: Arc<Memtable>,
    cut: SequenceNumber,
    schema: Arc<dyn KeyspaceSchema>,
    deletes_ranges: bool,
    /// The cache shards whose records have not been compared with the memtable's range deletes.
    shards: std::ops::Range<usize>,
    keys: InvalidationCursor,
}

#[derive(Debug)]
enum InvalidationCursor {
    /// All keys of the memtable have yet to be processed.
    All,
    After(Vec<u8>),
    Done,
}

impl RecordCache {
    /// Begins the invalidation of a memtable that contains the commits up to `cut`.
    pub(crate) fn begin(
        &self,
        memtable: &Arc<Memtable>,
        cut: SequenceNumber,
        schema: &Arc<dyn KeyspaceSchema>,
    ) -> CacheInvalidation {
        self.raise(cut);
        let mut forgetting = CacheInvalidation {
            deletes_ranges: memtable.has_range_deletes(),
            memtable: Arc::clone(memtable),
            cut,
            schema: Arc::clone(schema),
            shards: 0..0,
            keys: InvalidationCursor::Done,
        };
        // An empty cache needs no invalidation. A reader that adds a record after its shard was
        // found empty sees the new value of `begun` (Y2).
        if !self.is_empty() {
            forgetting.keys = InvalidationCursor::All;
            if forgetting.deletes_ranges {
                forgetting.shards = 0..self.shards();
            }
        }
        forgetting
    }
}

impl RecordCache {
    /// Removes all cached records with keys from `first` to `last`, both included. Must be called
    /// before the tree publishes new records in this range as of sequence number `cut`.
    pub(crate) fn forget_range(&self, first: &[u8], last: &[u8], cut: SequenceNumber) {
        self.raise(cut);
        for shard in 0..self.shards() {
            self.forget_in(shard, |key| (first..=last).contains(&key));
        }
    }
}

impl CacheInvalidation {
    /// Runs a slice of the invalidation, which updates or removes the records of approximately
    /// `keys` keys.
    pub(crate) fn poll(&mut self, records: &RecordCache, keys: usize) -> StepProgress {
        let mut left = keys;
        for shard in self.shards.by_ref() {
            let compared =
                records.forget_in(shard, |key| self.memtable.range_deleted(key, self.cut).is_some());
            left = left.saturating_sub(1 + compared);
            if left == 0 {
                return StepProgress::More;
            }
        }
        let mut cursor = self.memtable.cursor();
        match &self.keys {
            InvalidationCursor::Done => return StepProgress::Done,
            InvalidationCursor::All => cursor.first(),
            InvalidationCursor::After(last) => {
                cursor.seek(last);
                if cursor.key() == Some(last) {
                    cursor.next();
                }
            }
        }
        while let Some(key) = cursor.key() {
            self.settle(records, key, cursor.versions(self.cut));
            left = left.saturating_sub(1);
            if left == 0 {
                self.keys = InvalidationCursor::After(key.to_vec());
                return StepProgress::More;
            }
            cursor.next();
        }
        self.keys = InvalidationCursor::Done;
        StepProgress::Done
    }

    /// Processes one key. If the key's newest message is a put without an expiry time, and the
    /// memtable has no range deletes, the put is the key's next value in the tree, so the cached
    /// record is updated to it. Otherwise the cached record is removed. A key written several times
    /// in one memtable is usually read often too, so it is treated as hot.
    fn settle(&self, records: &RecordCache, key: &[u8], mut versions: KeyVersionIter<'_>) {
        match versions.next() {
            Some(newest)
                if newest.kind == MessageKind::Put && newest.expires_ms == 0 && !self.deletes_ranges =>
            {
                let is_hot = versions.next().is_some();
                let may_keep = || self.schema.rules(key).filter.is_none();
                records.renew(LookupKey::new(key), newest.operand, is_hot, may_keep);
            }
            _ => records.forget(LookupKey::new(key)),
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_base::Message;
    use alluvium_dictionary::rules::OneKeyspace;

    fn schema() -> Arc<dyn KeyspaceSchema> {
        Arc::new(OneKeyspace::default())
    }

    #[test]
    fn a_plain_put_renews_what_is_kept_and_everything_else_is_forgotten() {
        let memtable = Memtable::new(1 << 20);
        let records = RecordCache::new(1 << 20, 0);
        let tell = |key: &str, message: Message<'_>| {
            records.offer(LookupKey::new(key.as_bytes()), b"old", 0);
            memtable.insert(key.as_bytes(), message).unwrap();
        };
        tell("as long", Message::put(1, b"new"));
        tell("longer", Message::put(2, b"newer"));
        tell("gone", Message::delete(3));
        tell("folded", Message::merge(4, b"more"));
        tell(
            "expires",
            Message {
                expires_ms: 99,
                ..Message::put(5, b"new")
            },
        );
        tell("again", Message::delete(6));
        tell("again", Message::put(7, b"n"));
        tell("later", Message::put(8, b"new"));
        tell("later", Message::put(11, b"far"));
        memtable.insert(b"not kept", Message::put(9, b"new")).unwrap();
        let mut forgetting = records.begin(&Arc::new(memtable), 10, &schema());
        while forgetting.poll(&records, 2) == StepProgress::More {}
        let kept = |key: &str| {
            let mut value = Vec::new();
            records
                .get(LookupKey::new(key.as_bytes()), 10, &mut value)
                .then(|| String::from_utf8(value).unwrap())
        };
        let table = [
            ("as long", Some("new")),
            ("longer", Some("newer")),
            ("gone", None),
            ("folded", None),
            ("expires", None),
            ("again", Some("n")),
            ("later", Some("new")),
            ("not kept", None),
        ];
        for (key, value) in table {
            assert_eq!(kept(key).as_deref(), value, "{key}");
        }
    }

    #[test]
    fn every_key_that_a_memtable_with_range_deletes_is_about_is_forgotten_whatever_the_slices() {
        let memtable = Memtable::new(1 << 20);
        for number in (0..1000u32).step_by(3) {
            let message = Message::put(u64::from(number) + 1, b"new");
            memtable.insert(&number.to_be_bytes(), message).unwrap();
        }
        memtable
            .delete_range(&500u32.to_be_bytes(), &600u32.to_be_bytes(), 2000)
            .unwrap();
        let memtable = Arc::new(memtable);
        for slice in [1, 7, 100, usize::MAX] {
            let records = RecordCache::new(1 << 20, 0);
            for number in 0..1000u32 {
                records.offer(LookupKey::new(&number.to_be_bytes()), b"old", 0);
            }
            let mut forgetting = records.begin(&memtable, 2000, &schema());
            while forgetting.poll(&records, slice) == StepProgress::More {}
            for number in 0..1000u32 {
                let is_found = records.get(LookupKey::new(&number.to_be_bytes()), 2000, &mut Vec::new());
                let is_touched = number % 3 == 0 || (500..600).contains(&number);
                assert_eq!(is_found, !is_touched, "{number} with slices of {slice}");
            }
        }
    }
}
