//! Executes management requests on a store that this process has open.

use super::claims::{ClaimRegistry, NameClaim};
use super::pairs::{CHUNK, add, pairs, walk};
use super::redis::RedisDatabases;
use super::request::{
    CheckExtent, Error, FailureKind, JobStage, KeyChange, ManagementReply, ManagementRequest, NewKeyspace,
    ReplySink, Result, ScanOrder, ScanRequest, TierChange, TransactionStep, UnorderedScanRequest,
};
use super::transact::ManagedTransaction;
use super::{advised, open_transactions, report};
use crate::store::model::format;
use crate::store::{self, ServerStore};
use alluvium::{Db, Ingest, Keyspace, Progress, Structure, TierOptions, WriteBatch};
use serde_json::Value;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Interval between a compaction's progress reports.
const LOOK: Duration = Duration::from_millis(100);

/// How long locking a name waits for another connection to release it.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

/// Returns whether a server stores typed keys in the keyspace of this name.
pub fn is_of_server(keyspace: &str) -> bool {
    matches!(keyspace, store::DATA | store::ITEMS) || format::is_records_name(keyspace)
}

/// Returns whether a file system keeps its records in the keyspace of this name
/// (`files.NAME.names` and so on).
fn is_of_files(keyspace: &str) -> bool {
    let parts = keyspace.strip_prefix("files.");
    let contents = parts.and_then(|rest| rest.rsplit_once('.'));
    contents.is_some_and(|(_, contents)| {
        matches!(
            contents,
            "names" | "inodes" | "blocks" | "counts" | "times" | "attributes" | "system" | "branches"
        )
    })
}

/// Rejects direct changes of the records of a file system.
fn require_no_files(keyspace: &str) -> Result<()> {
    if !is_of_files(keyspace) {
        return Ok(());
    }
    let text = format!(
        "the keyspace {keyspace:?} belongs to a file system, and a direct change would damage it; use \
         `alluvium files`, or a mount"
    );
    Err(Error::told(FailureKind::Usage, text))
}

/// Rejects keyspace names reserved for servers, because a server would treat a keyspace with such a
/// name as its own.
fn require_unreserved(name: &str) -> Result<()> {
    require_no_files(name)?;
    if !is_of_server(name) {
        return Ok(());
    }
    let text = format!(
        "the name {name:?} is reserved for a keyspace that `alluvium serve` creates; choose another name"
    );
    Err(Error::told(FailureKind::Usage, text))
}

/// What a running server adds to the store's statistics.
#[derive(Clone)]
pub(crate) struct ServerInfo {
    pub(crate) store: Arc<ServerStore>,
    pub(crate) counts: CounterSource,
}

/// Returns a running server's counters.
pub(super) type CounterSource = Arc<dyn Fn() -> Value + Send + Sync>;

/// Executes management requests one after the other.
pub struct ManagementSession {
    /// The names that this session has locked, released when the session is dropped.
    claimed: Vec<NameClaim>,
    claims: Arc<ClaimRegistry>,
    db: Db,
    keys: RedisDatabases,
    /// Access to the running server's counters, or `None` if there is no server.
    about: Option<ServerInfo>,
    ingest: Option<Ingest>,
    transaction: Option<ManagedTransaction>,
}

impl std::fmt::Debug for ManagementSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagementSession")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl ManagementSession {
    /// Returns a session for a store that no other client of this process uses.
    #[must_use]
    pub fn new(db: &Db) -> ManagementSession {
        ManagementSession {
            claimed: Vec::new(),
            claims: Arc::default(),
            db: db.clone(),
            keys: RedisDatabases::of_store(db),
            about: None,
            ingest: None,
            transaction: None,
        }
    }

    /// Returns a session for a store that other clients use at the same time.
    pub(super) fn shared(
        db: &Db,
        about: Option<ServerInfo>,
        claims: &Arc<ClaimRegistry>,
    ) -> ManagementSession {
        let keys = match about.as_ref() {
            Some(about) => RedisDatabases::of_server(&about.store),
            None => RedisDatabases::of_store(db),
        };
        ManagementSession {
            keys,
            about,
            claims: Arc::clone(claims),
            ..ManagementSession::new(db)
        }
    }

    /// Executes a request and passes each part of the reply to `hear`.
    ///
    /// # Errors
    /// Returns store errors, [`Error::Told`] if the request is rejected, and errors of `hear`.
    pub fn answer(&mut self, request: &ManagementRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        match request {
            ManagementRequest::Keyspaces
            | ManagementRequest::CreateKeyspace(_)
            | ManagementRequest::EnsureKeyspace(_)
            | ManagementRequest::DropKeyspace(_)
            | ManagementRequest::RenameKeyspace { .. } => self.of_keyspaces(request, hear),
            ManagementRequest::Get { keyspace, keys } => self.get(keyspace, keys, hear),
            ManagementRequest::PutIfAbsent { keyspace, key, value } => {
                self.require_writable(keyspace)?;
                let is_put = self.keyspace(keyspace)?.compare_and_set(key, None, Some(value))?;
                hear(ManagementReply::Truth(is_put))
            }
            ManagementRequest::Write(changes) => self.write(changes),
            ManagementRequest::DeleteRange { keyspace, from, to } => {
                self.require_writable(keyspace)?;
                Ok(self.keyspace(keyspace)?.delete_range(from, to.as_deref())?)
            }
            ManagementRequest::Scan(scan) => self.scan(scan, hear),
            ManagementRequest::Unordered(walk) => self.unordered(walk, hear),
            ManagementRequest::BeginIngest(_)
            | ManagementRequest::Ingest(_)
            | ManagementRequest::FinishIngest
            | ManagementRequest::AbandonIngest => self.load(request),
            ManagementRequest::Stats => self.report(report::stats(&self.db), hear),
            ManagementRequest::Figures => self.report(report::figures(&self.db), hear),
            ManagementRequest::Outline => json(&report::outline(&self.db), hear),
            ManagementRequest::Drawing => hear(ManagementReply::Text(self.db.draw())),
            ManagementRequest::Run { group, place } => {
                let place = usize::try_from(*place).unwrap_or(usize::MAX);
                let run = self.db.outline_run(*group, place);
                json(&run.as_ref().map_or(Value::Null, report::run), hear)
            }
            ManagementRequest::Check(depth) => self.check(*depth, hear),
            ManagementRequest::Backup { to } => self.back_up(to, &[], hear),
            ManagementRequest::BackupTiers { to, further } => self.back_up(to, further, hear),
            ManagementRequest::Compact => self.compact(hear),
            ManagementRequest::Sync => Ok(self.db.sync()?),
            ManagementRequest::Redis(request) => self.keys.answer(request, hear),
            ManagementRequest::BeginTransaction(new) => {
                self.transaction = None;
                let begun = ManagedTransaction::begin(&self.db, *new);
                let number = begun.number();
                self.transaction = Some(begun);
                hear(ManagementReply::Number(number))
            }
            ManagementRequest::InTransaction(step) => self.step(step, hear),
            ManagementRequest::Transactions => json(&open_transactions::report(&self.db), hear),
            ManagementRequest::Tiers => json(&report::tiers(&self.db), hear),
            ManagementRequest::ChangeTiers { path, change } => {
                self.change_tiers(Path::new(OsStr::from_bytes(path)), *change)
            }
            ManagementRequest::ApplyAdvice { record_permille } => {
                json(&advised::apply(&self.db, *record_permille)?, hear)
            }
            ManagementRequest::Trials => json(&advised::trials(&self.db), hear),
            ManagementRequest::Service(name) => Err(Error::told(
                FailureKind::NotFound,
                format!("the process that has the store open does not offer the service {name:?}"),
            )),
            ManagementRequest::Claim(name) => {
                let claim = self.claims.take(name, CLAIM_PATIENCE);
                let is_taken = claim.is_some();
                self.claimed.extend(claim);
                hear(ManagementReply::Truth(is_taken))
            }
        }
    }

    fn of_keyspaces(&self, request: &ManagementRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        match request {
            ManagementRequest::CreateKeyspace(new) => {
                require_unreserved(&new.name)?;
                self.create(new)
            }
            ManagementRequest::EnsureKeyspace(name) => {
                let is_new = self.db.existing_keyspace(name).is_err();
                match is_new {
                    true => require_unreserved(name)?,
                    false => self.require_writable(name)?,
                }
                self.db.keyspace(name)?;
                hear(ManagementReply::Truth(is_new))
            }
            ManagementRequest::DropKeyspace(name) => {
                self.require_movable(name)?;
                Ok(self.db.drop_keyspace(name)?)
            }
            ManagementRequest::RenameKeyspace { from, to } => {
                require_unreserved(to)?;
                self.require_movable(from)?;
                Ok(self.db.rename_keyspace(from, to)?)
            }
            _ => json(&report::keyspaces(&self.db)?, hear),
        }
    }

    /// Executes an operation in this session's transaction.
    fn step(&mut self, step: &TransactionStep, hear: &mut ReplySink<'_>) -> Result<()> {
        let none = || {
            let text = "this connection has no open transaction; begin one first";
            Error::told(FailureKind::Usage, text)
        };
        if let Some(keyspace) = step.keyspace() {
            match step.reads() {
                true => self.require_lockable(keyspace)?,
                false => self.require_writable(keyspace)?,
            }
        }
        match step {
            TransactionStep::Commit => return self.transaction.take().ok_or_else(none)?.commit(),
            TransactionStep::Rollback => {
                drop(self.transaction.take().ok_or_else(none)?);
                return Ok(());
            }
            _ => {}
        }
        let transaction = self.transaction.as_mut().ok_or_else(none)?;
        transaction.step(&self.db, step, hear)
    }

    /// Executes a request that belongs to a bulk load of sorted records.
    fn load(&mut self, request: &ManagementRequest) -> Result<()> {
        match request {
            ManagementRequest::BeginIngest(keyspace) => {
                self.require_writable(keyspace)?;
                self.ingest = None;
                self.ingest = Some(self.keyspace(keyspace)?.begin_ingest()?);
            }
            ManagementRequest::Ingest(records) => {
                let ingest = self.ingest.as_mut().ok_or_else(no_ingest)?;
                for (key, value) in records {
                    ingest.put(key, value)?;
                }
            }
            ManagementRequest::FinishIngest => {
                self.ingest.take().ok_or_else(no_ingest)?.finish()?;
            }
            _ => self.ingest = None,
        }
        Ok(())
    }

    /// Passes statistics to `hear`, with the server's counters if one is running.
    fn report(&self, mut figures: Value, hear: &mut ReplySink<'_>) -> Result<()> {
        if let Some(about) = &self.about {
            figures["server"] = (about.counts)();
        }
        json(&figures, hear)
    }

    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        Ok(self.db.existing_keyspace(name)?)
    }

    /// Returns whether a running server stores typed keys in the keyspace.
    fn is_typed(&self, keyspace: &str) -> bool {
        self.about.is_some() && is_of_server(keyspace)
    }

    /// Rejects reads that would lock a running server's typed keys (S21). A client of the server
    /// would wait for such a lock, and would block all other clients served by the same thread.
    fn require_lockable(&self, keyspace: &str) -> Result<()> {
        let locks = self
            .transaction
            .as_ref()
            .is_some_and(ManagedTransaction::is_locking);
        if !locks || !self.is_typed(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to the running server, and its clients would wait for the \
             locks of this transaction; read it in a transaction without --locking"
        );
        Err(Error::told(FailureKind::Usage, text))
    }

    /// Rejects direct changes to a server's records (S21). A running server, or the next one to
    /// open the store, would treat the changed records as damaged.
    fn require_writable(&self, keyspace: &str) -> Result<()> {
        self.require_movable(keyspace)?;
        if !is_of_server(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to `alluvium serve`, and a direct change would damage its \
             records; write Redis keys with --redis-db N and memcached items through the server's port, or \
             rename the keyspace with `alluvium keyspaces rename` if no server has created it"
        );
        Err(Error::told(FailureKind::Usage, text))
    }

    /// Rejects dropping or renaming a keyspace in which a running server stores typed keys (S21).
    fn require_movable(&self, keyspace: &str) -> Result<()> {
        require_no_files(keyspace)?;
        if !self.is_typed(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to the running server, and a direct change would damage its \
             records; write Redis keys with --redis-db N and memcached items through the server's port, or \
             stop the server"
        );
        Err(Error::told(FailureKind::Usage, text))
    }

    fn create(&self, new: &NewKeyspace) -> Result<()> {
        let structure = new.structure.as_deref().unwrap_or("tiered");
        let structure: Structure = structure
            .parse()
            .map_err(|error: alluvium::Error| Error::told(FailureKind::Usage, error.to_string()))?;
        let options = new.options().ok_or_else(|| {
            let text = format!(
                "unknown compression {:?}; choose none, lz4 or zstd",
                new.compression
            );
            Error::told(FailureKind::Usage, text)
        })?;
        if self.db.existing_keyspace(&new.name).is_ok() {
            let text = format!(
                "the keyspace {:?} exists already; drop or rename it first, or use it as it is",
                new.name
            );
            return Err(Error::told(FailureKind::Failed, text));
        }
        self.db
            .keyspace_with(&new.name, &options.structure(structure))
            .map_err(|error| match error {
                alluvium::Error::NotRegistered { name, .. } => {
                    let text = format!("unknown merge operator {name:?}; choose add or append");
                    Error::told(FailureKind::Usage, text)
                }
                error => error.into(),
            })?;
        Ok(())
    }

    fn write(&self, changes: &[KeyChange]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for change in changes {
            self.require_writable(&change.keyspace)?;
        }
        add(&self.db, changes, &mut batch)?;
        Ok(self.db.write(&batch)?)
    }

    fn get(&self, keyspace: &str, keys: &[Vec<u8>], hear: &mut ReplySink<'_>) -> Result<()> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        for value in self.keyspace(keyspace)?.multi_get(keys)? {
            let value = value.map(Vec::from);
            let more = value.as_ref().map_or(0, Vec::len);
            if bytes + more > CHUNK && !values.is_empty() {
                hear(ManagementReply::Values(std::mem::take(&mut values)))?;
                bytes = 0;
            }
            bytes += more + 16;
            values.push(value);
        }
        hear(ManagementReply::Values(values))
    }

    fn scan(&self, scan: &ScanRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        let keyspace = self.keyspace(&scan.keyspace)?;
        let is_all = scan.from.is_empty() && scan.to.is_none() && scan.direction == ScanOrder::Forward;
        if is_all && matches!(keyspace.options().structure, Structure::Hashed(_)) {
            let mut all = keyspace.unordered();
            return pairs(|| all.next(), scan.limit, scan.what, hear);
        }
        let to = match &scan.to {
            Some(to) => Bound::Excluded(&to[..]),
            None => Bound::Unbounded,
        };
        let pairs = keyspace.range::<&[u8]>((Bound::Included(&scan.from[..]), to));
        walk(pairs, scan, hear)
    }

    fn unordered(&self, walk: &UnorderedScanRequest, hear: &mut ReplySink<'_>) -> Result<()> {
        let all = self.keyspace(&walk.keyspace)?.unordered();
        let mut all = match &walk.after {
            Some(key) => all.after(key),
            None => all,
        };
        pairs(|| all.next(), walk.limit, walk.what, hear)
    }

    fn check(&self, depth: CheckExtent, hear: &mut ReplySink<'_>) -> Result<()> {
        let report = match depth {
            CheckExtent::Structure => {
                let mut report = report::check(&self.db.check_structure_report()?);
                // A check of the structure alone reads almost nothing, so omit the number of bytes
                // read.
                report.as_object_mut().map(|report| report.remove("read"));
                report
            }
            CheckExtent::Everything => {
                let mut heard = Ok(());
                let report = self
                    .db
                    .check_report(|progress| forward_progress(progress, &mut heard, hear))?;
                heard?;
                report::check(&report)
            }
        };
        json(&report, hear)
    }

    fn change_tiers(&self, path: &Path, change: TierChange) -> Result<()> {
        require_absolute(path)?;
        match change {
            TierChange::Add { max_bytes } => {
                let options = max_bytes.map(|bytes| TierOptions::new().max_bytes(bytes));
                self.db.add_tier(path, options.unwrap_or_default())?;
            }
            TierChange::Drain => self.db.drain_tier(path)?,
            TierChange::Use => self.db.use_tier(path)?,
        }
        Ok(())
    }

    fn back_up(&self, to: &[u8], further: &[Vec<u8>], hear: &mut ReplySink<'_>) -> Result<()> {
        let path = |bytes| Path::new(OsStr::from_bytes(bytes));
        let (to, further): (&Path, Vec<&Path>) = (path(to), further.iter().map(|to| path(to)).collect());
        further
            .iter()
            .copied()
            .chain([to])
            .try_for_each(require_absolute)?;
        let mut heard = Ok(());
        let follow = |progress| forward_progress(progress, &mut heard, hear);
        let copied = self.db.checkpoint_to_tiers(to, &further, follow);
        let last = copied.map_err(|error| match error {
            // The store is open and therefore exists, so this error concerns the copy's target
            // directory.
            error if error.kind() == alluvium::ErrorKind::NotAStore => {
                Error::told(FailureKind::Failed, error.to_string())
            }
            error => error.into(),
        })?;
        heard?;
        hear(ManagementReply::Number(last))
    }

    /// Compacts the store, and reports the bytes written so far and the expected total. The
    /// compaction continues even if the client disconnects.
    fn compact(&self, hear: &mut ReplySink<'_>) -> Result<()> {
        let space = || self.db.stats().space.live_extent_bytes;
        let before = space();
        let start = self.db.stats().tree.compacted_bytes;
        let work = thread::Builder::new().name("alluvium-compact".to_owned()).spawn({
            let db = self.db.clone();
            move || db.compact()
        });
        let work = work.map_err(|error| {
            Error::told(
                FailureKind::Failed,
                format!("cannot start a thread for the compaction: {error}"),
            )
        })?;
        while !work.is_finished() {
            thread::sleep(LOOK);
            let done = self.db.stats().tree.compacted_bytes.saturating_sub(start);
            hear(ManagementReply::Progress {
                stage: JobStage::Compacting,
                done_bytes: done.min(before),
                total_bytes: before,
            })?;
        }
        match work.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        json(
            &serde_json::json!({ "bytes_before": before, "bytes_after": space() }),
            hear,
        )
    }
}

fn no_ingest() -> Error {
    Error::told(
        FailureKind::Usage,
        "this connection has begun no load of sorted records",
    )
}

pub(super) fn json(value: &Value, hear: &mut ReplySink<'_>) -> Result<()> {
    hear(ManagementReply::Json(value.to_string()))
}

/// Forwards the progress of a long operation to `hear`. If `hear` fails, stores its error in
/// `heard` and forwards nothing from then on.
fn forward_progress(progress: Progress, heard: &mut Result<()>, hear: &mut ReplySink<'_>) {
    if heard.is_ok() {
        *heard = hear(ManagementReply::Progress {
            stage: match progress.stage {
                alluvium::ProgressStage::Copying => JobStage::Copying,
                _ => JobStage::Checking,
            },
            done_bytes: progress.done_bytes,
            total_bytes: progress.total_bytes,
        });
    }
}

/// Rejects a relative path, because client and server may have different working directories.
fn require_absolute(path: &Path) -> Result<()> {
    if path.is_absolute() {
        return Ok(());
    }
    let text = format!(
        "{} is a relative path, and the process that has the store open may have another working directory; \
         give an absolute path",
        path.display()
    );
    Err(Error::told(FailureKind::Usage, text))
}
