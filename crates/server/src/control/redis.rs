//! Operations on the keys of Redis clients. Reads use a snapshot; changes run as commands under the
//! keys' locks.

use super::pairs::add;
use super::request::{
    Error, FailureKind, ManagementReply, RedisKey, RedisKind, RedisRequest, ReplySink, Result, ScanContent,
    ScanOrder, ScanRequest,
};
use crate::error::CommandError;
use crate::options::KeyLayout;
use crate::redis::{execute, score_text};
use crate::store::model::{self, CollectionHeader, RecordBytes, TypedValue, format};
use crate::store::{self, DATABASES, ServerStore, numbers_of};
use alluvium::{Db, Keyspace, Snapshot, UnorderedScan};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Approximate maximum size of the elements in one reply in bytes.
const CHUNK: usize = 256 << 10;

/// Access to the keys of all Redis databases of a store.
pub(super) struct RedisDatabases {
    db: Db,
    /// The commands' view of the store, created on first use.
    store: Option<Arc<ServerStore>>,
}

impl RedisDatabases {
    /// Returns access to the keys of a store without a running server.
    pub(super) fn of_store(db: &Db) -> RedisDatabases {
        RedisDatabases {
            db: db.clone(),
            store: None,
        }
    }

    /// Returns access to the keys of a store that a server in this process is serving.
    pub(super) fn of_server(store: &Arc<ServerStore>) -> RedisDatabases {
        RedisDatabases {
            db: store.db.clone(),
            store: Some(Arc::clone(store)),
        }
    }

    pub(super) fn answer(&mut self, request: &RedisRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        match request {
            RedisRequest::Get { database, keys } => {
                let reading = self.reading(*database)?;
                keys.iter().try_for_each(|key| reading.key(key, hear))
            }
            RedisRequest::Scan { database, scan } => self.reading(*database)?.scan(scan, hear),
            RedisRequest::ScanBehind {
                database,
                key,
                limit,
                what,
            } => self.reading(*database)?.scan_behind(key, *limit, *what, hear),
            RedisRequest::Execute {
                database,
                commands,
                also,
            } => {
                checked(*database)?;
                let store = self.writing()?;
                let executed = execute(&store, *database, commands, |batch| add(&store.db, also, batch));
                hear(ManagementReply::Values(
                    executed.map_err(told)?.into_iter().map(Some).collect(),
                ))
            }
        }
    }

    fn reading(&self, database: u8) -> Result<DatabaseSnapshot> {
        checked(database)?;
        let data = self.db.existing_keyspace(store::DATA).map_err(|error| match error {
            alluvium::Error::NoSuchKeyspace { .. } => Error::told(
                FailureKind::NotFound,
                "the store has no Redis keys, because no server has served it yet; leave out --redis-db, or \
                 write keys with it",
            ),
            error => error.into(),
        })?;
        let now_ms = match &self.store {
            Some(store) => store.now_ms(),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        };
        let snapshot = self.db.snapshot();
        let numbers = numbers_of(snapshot.get(&data, &format::databases_key()[..])?.as_deref());
        let database = numbers[usize::from(database)];
        let version = snapshot.get(&data, &format::version_key()[..])?;
        let is_hashed =
            |version: alluvium::Value| format::decode_number(&version) == Ok(format::HASHED_VERSION);
        let records = match version.is_some_and(is_hashed) {
            true => RecordLocation::Hashed(store::existing(&self.db, &format::records_name(database))?),
            false => RecordLocation::Ordered,
        };
        Ok(DatabaseSnapshot {
            database,
            snapshot,
            data,
            records,
            now_ms,
        })
    }

    fn writing(&mut self) -> Result<Arc<ServerStore>> {
        if let Some(store) = &self.store {
            return Ok(Arc::clone(store));
        }
        let store = ServerStore::open(&self.db, KeyLayout::AsStored)
            .map_err(|error| Error::told(FailureKind::Failed, error.to_string()))?;
        Ok(Arc::clone(self.store.insert(Arc::new(store))))
    }
}

fn checked(database: u8) -> Result<()> {
    match database < DATABASES {
        true => Ok(()),
        false => {
            let text = format!(
                "--redis-db {database}: there is no such database; choose 0 to {}",
                DATABASES - 1
            );
            Err(Error::told(FailureKind::Usage, text))
        }
    }
}

fn told(failure: CommandError) -> Error {
    match failure {
        CommandError::Store(error) => error.into(),
        failure => Error::told(FailureKind::Failed, failure.to_string()),
    }
}

/// Converts an invalid record to a failure of the operation.
fn damaged(damaged: format::DamagedRecord) -> Error {
    Error::told(FailureKind::Damaged, damaged.to_string())
}

/// The keyspace of a database's records.
enum RecordLocation {
    /// The ordered keyspace shared by all databases with ordered keys.
    Ordered,
    /// This database's unordered keyspace, or `None` if it never had records.
    Hashed(Option<Keyspace>),
}

/// One database's keys as of a snapshot.
struct DatabaseSnapshot {
    snapshot: Snapshot,
    data: Keyspace,
    records: RecordLocation,
    database: u8,
    now_ms: u64,
}

impl DatabaseSnapshot {
    fn key(&self, key: &[u8], hear: &mut ReplySink<'_>) -> Result<()> {
        let record = match &self.records {
            RecordLocation::Hashed(Some(space)) => self.snapshot.get(space, key)?,
            RecordLocation::Hashed(None) => None,
            RecordLocation::Ordered => {
                let place = format::record_key(self.database, key);
                self.snapshot.get(&self.data, &place[..])?
            }
        };
        let entry = match record {
            Some(record) => TypedValue::read(RecordBytes::Owned(record), self.now_ms).map_err(damaged)?,
            None => None,
        };
        match entry {
            Some(entry) => self.entry(key, &entry, ScanContent::Pairs, hear),
            None => hear(ManagementReply::Key(RedisKey {
                key: key.to_vec(),
                kind: None,
                expires_ms: None,
                elements: 0,
            })),
        }
    }

    fn scan(&self, scan: &ScanRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        if let RecordLocation::Hashed(space) = &self.records {
            return self.scan_hashed(space.as_ref(), scan, hear);
        }
        let start = format::record_key(self.database, &scan.from);
        let end = match &scan.to {
            Some(to) => format::record_key(self.database, to),
            None => format::records(self.database).1,
        };
        if start >= end {
            return Ok(());
        }
        let mut records = self.snapshot.range(&self.data, &start[..]..&end[..]);
        let mut left = scan.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let next = match scan.direction {
                ScanOrder::Forward => records.next(),
                ScanOrder::Backward => records.next_back(),
            };
            let Some((inner, record)) = next.transpose()? else {
                break;
            };
            if let Some(entry) = TypedValue::read(RecordBytes::Owned(record), self.now_ms).map_err(damaged)? {
                self.entry(format::user_key(&inner), &entry, scan.what, hear)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// Like `scan`, but for a database with hashed keys.
    fn scan_hashed(
        &self,
        space: Option<&Keyspace>,
        scan: &ScanRequest,
        hear: &mut ReplySink<'_>,
    ) -> Result<()> {
        if !scan.from.is_empty() || scan.to.is_some() || scan.direction == ScanOrder::Backward {
            return Err(Error::told(
                FailureKind::Usage,
                "the Redis keys of this store are hashed and have no order; leave out --prefix, --from, \
                 --to and --reverse",
            ));
        }
        let records = space.map(|space| self.snapshot.unordered(space));
        self.walk_hashed(records, scan.limit, scan.what, hear)
    }

    /// Returns the keys that follow a given key in scan order.
    fn scan_behind(
        &self,
        key: &[u8],
        limit: Option<u64>,
        what: ScanContent,
        hear: &mut ReplySink<'_>,
    ) -> Result<()> {
        if let RecordLocation::Hashed(space) = &self.records {
            let records = space.as_ref().map(|space| self.snapshot.unordered(space));
            return self.walk_hashed(records.map(|walk| walk.after(key)), limit, what, hear);
        }
        let scan = ScanRequest {
            keyspace: String::new(),
            // Start at the smallest key greater than the given one.
            from: [key, &[0]].concat(),
            to: None,
            direction: ScanOrder::Forward,
            limit,
            what,
        };
        self.scan(&scan, hear)
    }

    fn walk_hashed(
        &self,
        mut records: Option<UnorderedScan>,
        limit: Option<u64>,
        what: ScanContent,
        hear: &mut ReplySink<'_>,
    ) -> Result<()> {
        let mut left = limit.unwrap_or(u64::MAX);
        while left > 0 {
            let Some(pair) = records.as_mut().and_then(Iterator::next) else {
                break;
            };
            let (key, record) = pair?;
            if let Some(entry) = TypedValue::read(RecordBytes::Owned(record), self.now_ms).map_err(damaged)? {
                self.entry(&key, &entry, what, hear)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// Passes a key and its content to `hear`.
    fn entry(
        &self,
        key: &[u8],
        entry: &TypedValue<'_>,
        what: ScanContent,
        hear: &mut ReplySink<'_>,
    ) -> Result<()> {
        let (kind, elements) = match entry {
            TypedValue::Text(_) => (RedisKind::String, 1),
            TypedValue::Collection(collection) => (kind_of(collection), collection.count),
        };
        hear(ManagementReply::Key(RedisKey {
            key: key.to_vec(),
            kind: Some(kind),
            expires_ms: Some(entry.expires_ms()).filter(|&ms| ms != 0),
            elements,
        }))?;
        match (entry, what) {
            (_, ScanContent::Keys) => Ok(()),
            (TypedValue::Text(text), ScanContent::Pairs) => {
                hear(ManagementReply::Elements(vec![(text.to_vec(), Vec::new())]))
            }
            (TypedValue::Collection(collection), ScanContent::Pairs) => self.elements(collection, hear),
        }
    }

    fn elements(&self, collection: &CollectionHeader, hear: &mut ReplySink<'_>) -> Result<()> {
        let (start, end) = match collection.kind {
            model::CollectionKind::SortedSet => format::scores(self.database, collection.number),
            _ => {
                let start = format::elements(self.database, collection.number);
                let end = format::behind(&start);
                (start, end)
            }
        };
        let (mut elements, mut bytes) = (Vec::new(), 0);
        for pair in self.snapshot.range(&self.data, &start[..]..&end[..]) {
            let (inner, value) = pair?;
            let element = match collection.kind {
                model::CollectionKind::List => (value.into_vec(), Vec::new()),
                model::CollectionKind::Set => (format::member_of(&inner).1.to_vec(), Vec::new()),
                model::CollectionKind::Hash => (format::member_of(&inner).1.to_vec(), value.into_vec()),
                model::CollectionKind::SortedSet => {
                    let (score, member) = format::scored_member_of(&inner);
                    (member.to_vec(), score_text(score))
                }
            };
            let more = element.0.len() + element.1.len() + 16;
            if bytes + more > CHUNK && !elements.is_empty() {
                hear(ManagementReply::Elements(std::mem::take(&mut elements)))?;
                bytes = 0;
            }
            bytes += more;
            elements.push(element);
        }
        match elements.is_empty() {
            true => Ok(()),
            false => hear(ManagementReply::Elements(elements)),
        }
    }
}

fn kind_of(collection: &CollectionHeader) -> RedisKind {
    match collection.kind {
        model::CollectionKind::List => RedisKind::List,
        model::CollectionKind::Set => RedisKind::Set,
        model::CollectionKind::SortedSet => RedisKind::SortedSet,
        model::CollectionKind::Hash => RedisKind::Hash,
    }
}
