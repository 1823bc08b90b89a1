//! Runs the steps of a case on the handles.

use super::language::{Word, optional, text, time, with_range, words};
use alluvium::{KeyspaceOptions, Options, Value, WriteBatch};
use alluvium_handles::{
    ClosePolicy, HandleError, IngestHandle, KeyspaceHandle, Result, SnapshotHandle, StoreHandle,
    TransactionHandle, WalkDirection, WalkHandle, check_json, keyspaces_json, page, repair_json, stats_json,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) enum Variable {
    Store(StoreHandle),
    Keyspace(KeyspaceHandle),
    Batch(Box<WriteBatch>),
    Ingest(IngestHandle),
    Snapshot(SnapshotHandle),
    Walk(WalkHandle),
    Transaction(TransactionHandle),
    Savepoint(u64),
    Freed,
}

/// What a step returns: values, some of them absent.
pub(super) type Answer = Vec<Option<Vec<u8>>>;

#[derive(Default)]
pub(crate) struct CaseRun {
    pub(super) variables: HashMap<String, Variable>,
    pub(crate) directory: PathBuf,
}

macro_rules! getter {
    ($name:ident, $kind:ident, $type:ty) => {
        pub(super) fn $name(&self, name: &Word) -> Result<&$type> {
            match self.variables.get(&text(name)) {
                Some(Variable::$kind(handle)) => Ok(handle),
                Some(Variable::Freed) => Err(HandleError::argument("a handle is NULL")),
                _ => panic!("there is no variable {}", text(name)),
            }
        }
    };
}

pub(super) fn one(value: Option<Value>) -> Answer {
    vec![value.map(Value::into_vec)]
}

fn said(text: &(impl ToString + ?Sized)) -> Answer {
    vec![Some(text.to_string().into_bytes())]
}

impl CaseRun {
    getter!(store, Store, StoreHandle);
    getter!(keyspace, Keyspace, KeyspaceHandle);
    getter!(ingest, Ingest, IngestHandle);
    getter!(snapshot, Snapshot, SnapshotHandle);
    getter!(walk, Walk, WalkHandle);
    getter!(transaction, Transaction, TransactionHandle);
    getter!(savepoint, Savepoint, u64);

    fn path(&self, word: &Word) -> Option<PathBuf> {
        let text = text(word);
        (text != "memory").then(|| self.directory.join(&text[1..]))
    }

    pub(super) fn set(&mut self, name: &Word, variable: Variable) -> Answer {
        self.variables.insert(text(name), variable);
        Answer::new()
    }

    fn batch(&mut self, name: &Word) -> &mut WriteBatch {
        match self.variables.get_mut(&text(name)) {
            Some(Variable::Batch(batch)) => batch,
            _ => panic!("there is no batch {}", text(name)),
        }
    }

    /// Reads pages of `size` bytes, or all of them if it is `None`.
    fn pages(&self, name: &Word, direction: WalkDirection, size: Option<&Word>) -> Result<Answer> {
        let walk = self.walk(name)?;
        let mut buffer = vec![0; size.map_or(200_000, |size| text(size).parse().unwrap())];
        let mut answer = Answer::new();
        loop {
            let extent = walk.fill(direction, &mut buffer)?;
            if extent.records == 0 && extent.bytes > buffer.len() {
                answer.extend([
                    Some(b"short".to_vec()),
                    Some(extent.bytes.to_string().into_bytes()),
                ]);
            }
            let mut rest = &buffer[..if extent.records == 0 { 0 } else { extent.bytes }];
            while let Some((key, value, behind)) = page::next_record(rest) {
                answer.extend([Some(key.to_vec()), Some(value.to_vec())]);
                rest = behind;
            }
            if extent.records == 0 || size.is_some() {
                return Ok(answer);
            }
        }
    }

    fn step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        let path = |index: usize| self.path(&w[index]);
        match verb {
            "open" => {
                let options: Options = w.get(2).map(text).unwrap_or_default().parse()?;
                // A variable that is opened again is freed first.
                let path = path(1);
                self.variables.remove(&text(&w[0]));
                let store = StoreHandle::open(path.as_deref(), &options)?;
                return Ok(self.set(&w[0], Variable::Store(store)));
            }
            "close" => self.store(&w[0])?.close(ClosePolicy::WhenUnused)?,
            "force-close" => self.store(&w[0])?.close(ClosePolicy::Force)?,
            "free" => return Ok(self.set(&w[0], Variable::Freed)),
            "sync" => self.store(&w[0])?.db()?.sync()?,
            "checkpoint" => self.store(&w[0])?.db()?.checkpoint()?,
            "compact" => self.store(&w[0])?.db()?.compact()?,
            "check" => return Ok(said(&check_json(&self.store(&w[0])?.db()?.check_report(|_| ())?))),
            "stats" => return Ok(said(&stats_json(&self.store(&w[0])?.db()?.stats()))),
            "keyspaces" => return Ok(said(&keyspaces_json(self.store(&w[0])?.db()?))),
            "backup" => drop(self.store(&w[0])?.db()?.checkpoint_to(path(1).unwrap())?),
            "restore" => alluvium::restore(path(0).unwrap(), path(1).unwrap())?,
            "repair" => return Ok(said(&repair_json(&alluvium::repair(path(0).unwrap())?))),
            "keyspace" => {
                let options = w
                    .get(3)
                    .map(|word| text(word).parse::<KeyspaceOptions>())
                    .transpose()?;
                let keyspace = self.store(&w[1])?.keyspace(&text(&w[2]), options.as_ref())?;
                return Ok(self.set(&w[0], Variable::Keyspace(keyspace)));
            }
            "existing" => {
                let keyspace = self.store(&w[1])?.existing_keyspace(&text(&w[2]))?;
                return Ok(self.set(&w[0], Variable::Keyspace(keyspace)));
            }
            "drop" => self.store(&w[0])?.db()?.drop_keyspace(&text(&w[1]))?,
            "rename" => self
                .store(&w[0])?
                .db()?
                .rename_keyspace(&text(&w[1]), &text(&w[2]))?,
            _ => return self.group_step(verb, w),
        }
        Ok(Answer::new())
    }

    /// Runs a step of a batch, an ingest, a snapshot, an iterator, a record or a transaction.
    fn group_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        match verb {
            "batch" => {
                let batch = match w.get(1) {
                    None => WriteBatch::new(),
                    Some(word) => WriteBatch::new().durability(text(word).parse()?),
                };
                return Ok(self.set(&w[0], Variable::Batch(Box::new(batch))));
            }
            "batch-count" => return Ok(said(&self.batch(&w[0]).len())),
            "batch-clear" => self.batch(&w[0]).clear(),
            "write" => {
                let batch = self.batch(&w[1]).clone();
                self.store(&w[0])?.write(&batch)?;
            }
            "ingest" => {
                let ingest = self.keyspace(&w[1])?.ingest()?;
                return Ok(self.set(&w[0], Variable::Ingest(ingest)));
            }
            "ingest-put" => self.ingest(&w[0])?.put(&w[1].0, &w[2].0)?,
            "ingest-finish" => return Ok(said(&self.ingest(&w[0])?.finish()?)),
            "snapshot" | "snapshot-open" => {
                let (store, name) = (self.store(&w[1])?, w.get(2).map(text));
                let snapshot = match name {
                    None => store.snapshot()?,
                    Some(name) if verb == "snapshot" => store.create_snapshot(&name)?,
                    Some(name) => store.open_snapshot(&name)?,
                };
                return Ok(self.set(&w[0], Variable::Snapshot(snapshot)));
            }
            "snapshot-remove" => self.store(&w[0])?.db()?.remove_snapshot(&text(&w[1]))?,
            "snapshot-get" => return Ok(one(self.snapshot(&w[0])?.get(self.keyspace(&w[1])?, &w[2].0)?)),
            "sleep" => std::thread::sleep(Duration::from_millis(text(&w[0]).parse().unwrap())),
            _ if verb.starts_with("batch-") => self.batch_step(&verb["batch-".len()..], w)?,
            "iter" | "snapshot-iter" | "tx-iter" | "rest" | "rest-back" | "page" | "page-back" | "seek" => {
                return self.walk_step(verb, w);
            }
            "put" | "get" | "take" | "contains" | "cas" | "delete" | "delete-range" | "merge"
            | "multi-get" => {
                return self.record_step(verb, w);
            }
            _ => return self.transaction_step(verb, w),
        }
        Ok(Answer::new())
    }

    fn batch_step(&mut self, verb: &str, w: &[Word]) -> Result<()> {
        let keyspace = self.keyspace(&w[1])?.inner()?.clone();
        let (batch, key) = (self.batch(&w[0]), &w[2].0);
        match (
            verb,
            time(
                w.get(if verb == "put" { 4 } else { 3 })
                    .filter(|_| ["put", "delete"].contains(&verb)),
            ),
        ) {
            ("put", None) => batch.put(&keyspace, key, &w[3].0)?,
            ("put", Some(time)) => batch.put_until(&keyspace, key, &w[3].0, time)?,
            ("delete", None) => batch.delete(&keyspace, key)?,
            ("delete", Some(time)) => batch.delete_at(&keyspace, key, time)?,
            ("delete-range", _) => batch.delete_range(&keyspace, key, optional(&w[3]))?,
            _ => batch.merge(&keyspace, key, &w[3].0)?,
        };
        Ok(())
    }

    fn record_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        let keyspace = self.keyspace(&w[0])?.inner()?;
        let key = w.get(1).map_or(&[][..], |word| &word.0);
        match (
            verb,
            time(
                w.get(if verb == "put" { 3 } else { 2 })
                    .filter(|_| ["put", "delete"].contains(&verb)),
            ),
        ) {
            ("put", None) => keyspace.put(key, &w[2].0)?,
            ("put", Some(time)) => keyspace.put_until(key, &w[2].0, time)?,
            ("delete", None) => keyspace.delete(key)?,
            ("delete", Some(time)) => keyspace.delete_at(key, time)?,
            ("get", _) => return Ok(one(keyspace.get(key)?)),
            ("take", _) => return Ok(one(keyspace.take(key)?)),
            ("contains", _) => return Ok(said(&keyspace.contains(key)?)),
            ("cas", _) => {
                return Ok(said(&keyspace.compare_and_set(
                    key,
                    optional(&w[2]),
                    optional(&w[3]),
                )?));
            }
            ("delete-range", _) => keyspace.delete_range(key, optional(&w[2]))?,
            ("merge", _) => keyspace.merge(key, &w[2].0)?,
            _ => {
                let values = keyspace.multi_get(w[1..].iter().map(|word| &word.0))?;
                return Ok(values.into_iter().flat_map(one).collect());
            }
        }
        Ok(Answer::new())
    }

    fn walk_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        let direction = match verb.ends_with("-back") {
            true => WalkDirection::Backward,
            false => WalkDirection::Forward,
        };
        let walk = match verb {
            "iter" => with_range(&w[2..], |range| self.keyspace(&w[1])?.walk(None, range))?,
            "snapshot-iter" => with_range(&w[3..], |range| {
                self.keyspace(&w[2])?.walk(Some(self.snapshot(&w[1])?), range)
            })?,
            "tx-iter" => with_range(&w[3..], |range| {
                self.transaction(&w[1])?.walk(self.keyspace(&w[2])?, range)
            })?,
            "seek" => return self.walk(&w[0])?.seek(&w[1].0).map(|()| Answer::new()),
            _ => return self.pages(&w[0], direction, w.get(1)),
        };
        Ok(self.set(&w[0], Variable::Walk(walk)))
    }

    /// Runs a line, and compares what comes of it. Returns what came of it if it does not agree.
    pub(crate) fn line(&mut self, line: &str) -> std::result::Result<(), String> {
        let words = words(line);
        let Some(verb) = words.first().map(text) else {
            return Ok(());
        };
        let is_mark = |(word, is_quoted): &Word| !is_quoted && [&b"="[..], b"!", b"has"].contains(&&word[..]);
        let end = words.iter().position(is_mark).unwrap_or(words.len());
        let came = self.step(&verb, &words[1..end]);
        let expected = words.get(end + 1..).unwrap_or_default();
        let agrees = match (words.get(end).map(text).as_deref(), &came) {
            (Some("!"), Err(error)) => {
                let part = expected.get(1).map(text).unwrap_or_default();
                error.kind().name() == text(&expected[0]) && error.to_string().contains(&part)
            }
            (Some("has"), Ok(answer)) => {
                answer.len() == 1
                    && String::from_utf8_lossy(answer[0].as_ref().unwrap()).contains(&text(&expected[0]))
            }
            (Some("="), Ok(answer)) => {
                let value = |word: &Word| (word.1 || word.0 != b"absent").then(|| word.0.clone());
                *answer == expected.iter().map(value).collect::<Answer>()
            }
            (None, Ok(_)) => true,
            _ => false,
        };
        if agrees {
            Ok(())
        } else {
            Err(format!("{line}  came to {came:?}"))
        }
    }
}
