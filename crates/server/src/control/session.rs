//! Execution of requests on a store that this process has open.

use super::claims::{Claim, Claims};
use super::pairs::{CHUNK, add, pairs, walk};
use super::redis::Keys;
use super::request::{
    Change, Depth, Direction, Error, Hear, Kind, NewKeyspace, Reply, Request, Result, Scan, Stage, Step,
    TierChange, Unordered,
};
use super::transact::Transacting;
use super::{advised, held, report};
use crate::store::model::format;
use crate::store::{self, Store};
use alluvium::{Db, Ingest, Keyspace, Progress, Structure, TierOptions, WriteBatch};
use serde_json::Value;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Interval of progress reports of a compaction.
const LOOK: Duration = Duration::from_millis(100);

/// Time that a claim waits for another connection.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

/// Returns whether a server keeps typed keys in a keyspace of this name.
pub fn is_of_server(keyspace: &str) -> bool {
    matches!(keyspace, store::DATA | store::ITEMS) || format::is_records_name(keyspace)
}

/// Refuses names that are reserved for a server, which would take the keyspace for its own.
fn free(name: &str) -> Result<()> {
    if !is_of_server(name) {
        return Ok(());
    }
    let text = format!(
        "the name {name:?} is of those that `alluvium serve` gives to its own keyspaces, and makes itself: choose another"
    );
    Err(Error::told(Kind::Usage, text))
}

/// Information that a server adds to that of the store.
#[derive(Clone)]
pub(crate) struct About {
    pub(crate) store: Arc<Store>,
    pub(crate) counts: Counts,
}

/// Returns the counters of a server.
pub(super) type Counts = Arc<dyn Fn() -> Value + Send + Sync>;

/// Executes operations one after the other.
pub struct Session {
    /// The names it has claimed, released on drop.
    claimed: Vec<Claim>,
    claims: Arc<Claims>,
    db: Db,
    keys: Keys,
    /// Figures of a running server, if there is one.
    about: Option<About>,
    ingest: Option<Ingest>,
    transaction: Option<Transacting>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Returns a session for a store that only this process uses.
    #[must_use]
    pub fn new(db: &Db) -> Session {
        Session {
            claimed: Vec::new(),
            claims: Arc::default(),
            db: db.clone(),
            keys: Keys::of_store(db),
            about: None,
            ingest: None,
            transaction: None,
        }
    }

    /// Returns a session for a store that others use at the same time.
    pub(super) fn shared(db: &Db, about: Option<About>, claims: &Arc<Claims>) -> Session {
        let keys = match about.as_ref() {
            Some(about) => Keys::of_server(&about.store),
            None => Keys::of_store(db),
        };
        Session {
            keys,
            about,
            claims: Arc::clone(claims),
            ..Session::new(db)
        }
    }

    /// Executes an operation and passes the parts of its answer to `hear`.
    ///
    /// # Errors
    /// Errors of the store; [`Error::Told`] for refusals; errors of `hear`.
    pub fn answer(&mut self, request: &Request, hear: &mut Hear<'_>) -> Result<()> {
        match request {
            Request::Keyspaces
            | Request::CreateKeyspace(_)
            | Request::EnsureKeyspace(_)
            | Request::DropKeyspace(_)
            | Request::RenameKeyspace { .. } => self.of_keyspaces(request, hear),
            Request::Get { keyspace, keys } => self.get(keyspace, keys, hear),
            Request::PutIfAbsent { keyspace, key, value } => {
                self.writable(keyspace)?;
                let is_put = self.keyspace(keyspace)?.compare_and_set(key, None, Some(value))?;
                hear(Reply::Truth(is_put))
            }
            Request::Write(changes) => self.write(changes),
            Request::DeleteRange { keyspace, from, to } => {
                self.writable(keyspace)?;
                Ok(self.keyspace(keyspace)?.delete_range(from, to.as_deref())?)
            }
            Request::Scan(scan) => self.scan(scan, hear),
            Request::Unordered(walk) => self.unordered(walk, hear),
            Request::BeginIngest(_) | Request::Ingest(_) | Request::FinishIngest | Request::AbandonIngest => {
                self.load(request)
            }
            Request::Stats => self.report(report::stats(&self.db), hear),
            Request::Figures => self.report(report::figures(&self.db), hear),
            Request::Outline => json(&report::outline(&self.db), hear),
            Request::Drawing => hear(Reply::Text(self.db.draw())),
            Request::Run { group, place } => {
                let place = usize::try_from(*place).unwrap_or(usize::MAX);
                let run = self.db.outline_run(*group, place);
                json(&run.as_ref().map_or(Value::Null, report::run), hear)
            }
            Request::Check(depth) => self.check(*depth, hear),
            Request::Backup { to } => self.back_up(to, &[], hear),
            Request::BackupTiers { to, further } => self.back_up(to, further, hear),
            Request::Compact => self.compact(hear),
            Request::Sync => Ok(self.db.sync()?),
            Request::Redis(request) => self.keys.answer(request, hear),
            Request::BeginTransaction(new) => {
                self.transaction = None;
                let begun = Transacting::begin(&self.db, *new);
                let number = begun.number();
                self.transaction = Some(begun);
                hear(Reply::Number(number))
            }
            Request::InTransaction(step) => self.step(step, hear),
            Request::Transactions => json(&held::report(&self.db), hear),
            Request::Tiers => json(&report::tiers(&self.db), hear),
            Request::ChangeTiers { path, change } => {
                self.change_tiers(Path::new(OsStr::from_bytes(path)), *change)
            }
            Request::ApplyAdvice { record_permille } => {
                json(&advised::apply(&self.db, *record_permille)?, hear)
            }
            Request::Trials => json(&advised::trials(&self.db), hear),
            Request::Claim(name) => {
                let claim = self.claims.take(name, CLAIM_PATIENCE);
                let is_taken = claim.is_some();
                self.claimed.extend(claim);
                hear(Reply::Truth(is_taken))
            }
        }
    }

    fn of_keyspaces(&self, request: &Request, hear: &mut Hear<'_>) -> Result<()> {
        match request {
            Request::CreateKeyspace(new) => {
                free(&new.name)?;
                self.create(new)
            }
            Request::EnsureKeyspace(name) => {
                let is_new = self.db.existing_keyspace(name).is_err();
                match is_new {
                    true => free(name)?,
                    false => self.writable(name)?,
                }
                self.db.keyspace(name)?;
                hear(Reply::Truth(is_new))
            }
            Request::DropKeyspace(name) => {
                self.movable(name)?;
                Ok(self.db.drop_keyspace(name)?)
            }
            Request::RenameKeyspace { from, to } => {
                free(to)?;
                self.movable(from)?;
                Ok(self.db.rename_keyspace(from, to)?)
            }
            _ => json(&report::keyspaces(&self.db)?, hear),
        }
    }

    /// Executes an operation in the transaction.
    fn step(&mut self, step: &Step, hear: &mut Hear<'_>) -> Result<()> {
        let none = || {
            let text = "no transaction was begun on this connection, or it has ended";
            Error::told(Kind::Usage, text)
        };
        if let Some(keyspace) = step.keyspace() {
            match step.reads() {
                true => self.lockable(keyspace)?,
                false => self.writable(keyspace)?,
            }
        }
        match step {
            Step::Commit => return self.transaction.take().ok_or_else(none)?.commit(),
            Step::Rollback => {
                drop(self.transaction.take().ok_or_else(none)?);
                return Ok(());
            }
            _ => {}
        }
        let transaction = self.transaction.as_mut().ok_or_else(none)?;
        transaction.step(&self.db, step, hear)
    }

    /// Executes a request of a load of sorted records.
    fn load(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::BeginIngest(keyspace) => {
                self.writable(keyspace)?;
                self.ingest = None;
                self.ingest = Some(self.keyspace(keyspace)?.begin_ingest()?);
            }
            Request::Ingest(records) => {
                let ingest = self.ingest.as_mut().ok_or_else(no_ingest)?;
                for (key, value) in records {
                    ingest.put(key, value)?;
                }
            }
            Request::FinishIngest => {
                self.ingest.take().ok_or_else(no_ingest)?.finish()?;
            }
            _ => self.ingest = None,
        }
        Ok(())
    }

    /// Sends figures, together with the counters of a server.
    fn report(&self, mut figures: Value, hear: &mut Hear<'_>) -> Result<()> {
        if let Some(about) = &self.about {
            figures["server"] = (about.counts)();
        }
        json(&figures, hear)
    }

    fn keyspace(&self, name: &str) -> Result<Keyspace> {
        Ok(self.db.existing_keyspace(name)?)
    }

    /// Returns whether a running server keeps typed keys in a keyspace.
    fn is_typed(&self, keyspace: &str) -> bool {
        self.about.is_some() && is_of_server(keyspace)
    }

    /// Refuses locking reads of a running server's typed keys (S21): its clients would wait for the
    /// locks, together with all clients that the same thread serves.
    fn lockable(&self, keyspace: &str) -> Result<()> {
        let locks = self.transaction.as_ref().is_some_and(Transacting::is_locking);
        if !locks || !self.is_typed(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to the running server, whose clients would wait for the locks of what is read: \
             read it in a transaction without --locking"
        );
        Err(Error::told(Kind::Usage, text))
    }

    /// Refuses to change records of a server directly (S21): a running server, or the next one to
    /// open the store, would find damage.
    fn writable(&self, keyspace: &str) -> Result<()> {
        self.movable(keyspace)?;
        if !is_of_server(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to `alluvium serve`, which would find damage if records in it were changed past it: \
             write keys of Redis clients with --redis-db N, those of memcached through the server's port; \
             a keyspace that no server has made gets another name with `alluvium keyspaces rename`"
        );
        Err(Error::told(Kind::Usage, text))
    }

    /// Refuses to drop or rename a keyspace with a running server's typed keys (S21).
    fn movable(&self, keyspace: &str) -> Result<()> {
        if !self.is_typed(keyspace) {
            return Ok(());
        }
        let text = format!(
            "the keyspace {keyspace:?} belongs to the running server, whose clients would see damage if records in it were changed past it: \
             write keys of Redis clients with --redis-db N, those of memcached through its port, or stop the server"
        );
        Err(Error::told(Kind::Usage, text))
    }

    fn create(&self, new: &NewKeyspace) -> Result<()> {
        let structure = new.structure.as_deref().unwrap_or("tiered");
        let structure: Structure = structure
            .parse()
            .map_err(|error: alluvium::Error| Error::told(Kind::Usage, error.to_string()))?;
        let options = new.options().ok_or_else(|| {
            let text = format!(
                "there is no compression {:?}: choose none, lz4 or zstd",
                new.compression
            );
            Error::told(Kind::Usage, text)
        })?;
        if self.db.existing_keyspace(&new.name).is_ok() {
            let text = format!(
                "there is a keyspace {:?} already: drop or rename it first, or use it as it is",
                new.name
            );
            return Err(Error::told(Kind::Failed, text));
        }
        self.db
            .keyspace_with(&new.name, &options.structure(structure))
            .map_err(|error| match error {
                alluvium::Error::NotRegistered { name, .. } => {
                    let text = format!("there is no merge operator {name:?}: choose add or append");
                    Error::told(Kind::Usage, text)
                }
                error => error.into(),
            })?;
        Ok(())
    }

    fn write(&self, changes: &[Change]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for change in changes {
            self.writable(&change.keyspace)?;
        }
        add(&self.db, changes, &mut batch)?;
        Ok(self.db.write(&batch)?)
    }

    fn get(&self, keyspace: &str, keys: &[Vec<u8>], hear: &mut Hear<'_>) -> Result<()> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        for value in self.keyspace(keyspace)?.multi_get(keys)? {
            let value = value.map(Vec::from);
            let more = value.as_ref().map_or(0, Vec::len);
            if bytes + more > CHUNK && !values.is_empty() {
                hear(Reply::Values(std::mem::take(&mut values)))?;
                bytes = 0;
            }
            bytes += more + 16;
            values.push(value);
        }
        hear(Reply::Values(values))
    }

    fn scan(&self, scan: &Scan, hear: &mut Hear<'_>) -> Result<()> {
        let keyspace = self.keyspace(&scan.keyspace)?;
        let is_all = scan.from.is_empty() && scan.to.is_none() && scan.direction == Direction::Forward;
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

    fn unordered(&self, walk: &Unordered, hear: &mut Hear<'_>) -> Result<()> {
        let all = self.keyspace(&walk.keyspace)?.unordered();
        let mut all = match &walk.after {
            Some(key) => all.after(key),
            None => all,
        };
        pairs(|| all.next(), walk.limit, walk.what, hear)
    }

    fn check(&self, depth: Depth, hear: &mut Hear<'_>) -> Result<()> {
        let report = match depth {
            Depth::Structure => {
                let mut report = report::check(&self.db.check_structure_report()?);
                // The check of the structure reads almost nothing.
                report.as_object_mut().map(|report| report.remove("read"));
                report
            }
            Depth::Everything => {
                let mut heard = Ok(());
                let report = self
                    .db
                    .check_report(|progress| tell(progress, &mut heard, hear))?;
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

    fn back_up(&self, to: &[u8], further: &[Vec<u8>], hear: &mut Hear<'_>) -> Result<()> {
        let path = |bytes| Path::new(OsStr::from_bytes(bytes));
        let (to, further): (&Path, Vec<&Path>) = (path(to), further.iter().map(|to| path(to)).collect());
        further
            .iter()
            .copied()
            .chain([to])
            .try_for_each(require_absolute)?;
        let mut heard = Ok(());
        let follow = |progress| tell(progress, &mut heard, hear);
        let copied = self.db.checkpoint_to_tiers(to, &further, follow);
        let last = copied.map_err(|error| match error {
            // The store exists; the target directory is the problem.
            error if error.kind() == alluvium::ErrorKind::NotAStore => {
                Error::told(Kind::Failed, error.to_string())
            }
            error => error.into(),
        })?;
        heard?;
        hear(Reply::Number(last))
    }

    /// Compacts, and reports the bytes written and the total. Continues even if the client has
    /// gone.
    fn compact(&self, hear: &mut Hear<'_>) -> Result<()> {
        let space = || self.db.stats().space.live_extent_bytes;
        let before = space();
        let start = self.db.stats().tree.compacted_bytes;
        let work = thread::Builder::new().name("alluvium-compact".to_owned()).spawn({
            let db = self.db.clone();
            move || db.compact()
        });
        let work = work.map_err(|error| {
            Error::told(
                Kind::Failed,
                format!("the system has no thread for the compaction: {error}"),
            )
        })?;
        while !work.is_finished() {
            thread::sleep(LOOK);
            let done = self.db.stats().tree.compacted_bytes.saturating_sub(start);
            hear(Reply::Progress {
                stage: Stage::Compacting,
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
        Kind::Usage,
        "no load of sorted records was begun on this connection",
    )
}

pub(super) fn json(value: &Value, hear: &mut Hear<'_>) -> Result<()> {
    hear(Reply::Json(value.to_string()))
}

/// Forwards the progress of a job until `hear` fails.
fn tell(progress: Progress, heard: &mut Result<()>, hear: &mut Hear<'_>) {
    if heard.is_ok() {
        *heard = hear(Reply::Progress {
            stage: match progress.stage {
                alluvium::Stage::Copying => Stage::Copying,
                _ => Stage::Checking,
            },
            done_bytes: progress.done_bytes,
            total_bytes: progress.total_bytes,
        });
    }
}

/// Refuses a relative path, because it would denote another location in another process.
fn require_absolute(path: &Path) -> Result<()> {
    if path.is_absolute() {
        return Ok(());
    }
    let text = format!(
        "{} is not absolute, and this process has a working directory of its own",
        path.display()
    );
    Err(Error::told(Kind::Usage, text))
}
