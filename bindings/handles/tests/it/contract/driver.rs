//! Runs the steps of a case on the handles.

use super::language::{Word, optional, text, time, with_range, words};
use alluvium::{Value, WriteBatch};
use alluvium_handles::{
    ClosePolicy, HandleError, IngestHandle, KeyspaceHandle, Result, SnapshotHandle, StoreHandle,
    TransactionHandle, TransactionRead, WalkDirection, WalkHandle, check_json, keyspaces_json, page,
    repair_json, stats_json,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

enum Variable {
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
type Answer = Vec<Option<Vec<u8>>>;

#[derive(Default)]
pub(super) struct CaseRun {
    variables: HashMap<String, Variable>,
    pub(super) directory: PathBuf,
}

macro_rules! getter {
    ($name:ident, $kind:ident, $type:ty) => {
        fn $name(&self, name: &Word) -> Result<&$type> {
            match self.variables.get(&text(name)) {
                Some(Variable::$kind(handle)) => Ok(handle),
                Some(Variable::Freed) => Err(HandleError::argument("a handle is NULL")),
                _ => panic!("there is no variable {}", text(name)),
            }
        }
    };
}

/// Runs a write on a keyspace, or in a batch or a transaction, which are told the keyspace. The
/// words begin with the key.
macro_rules! write {
    ($verb:expr, $w:expr, $target:expr $(, $keyspace:expr)?) => {{
        let (verb, key, value) = ($verb, &$w[0].0, $w.get(1));
        match (verb, time($w.get(if verb == "put" { 2 } else { 1 }))) {
            ("put", None) => drop($target.put($($keyspace,)? key, &value.unwrap().0)?),
            ("put", Some(time)) => drop($target.put_until($($keyspace,)? key, &value.unwrap().0, time)?),
            ("delete", None) => drop($target.delete($($keyspace,)? key)?),
            ("delete", Some(time)) => drop($target.delete_at($($keyspace,)? key, time)?),
            ("delete-range", _) => drop($target.delete_range($($keyspace,)? key, optional(&$w[1]))?),
            ("merge", _) => drop($target.merge($($keyspace,)? key, &value.unwrap().0)?),
            _ => panic!("{verb} is no verb"),
        }
        Ok(Answer::new())
    }};
}

fn one(value: Option<Value>) -> Answer {
    vec![value.map(Value::into_vec)]
}

fn said(text: impl ToString) -> Result<Answer> {
    Ok(vec![Some(text.to_string().into_bytes())])
}

/// The answer of a step that returns nothing.
fn done<T, E: Into<HandleError>>(result: std::result::Result<T, E>) -> Result<Answer> {
    result.map(|_| Answer::new()).map_err(Into::into)
}

impl CaseRun {
    getter!(store, Store, StoreHandle);
    getter!(keyspace, Keyspace, KeyspaceHandle);
    getter!(ingest, Ingest, IngestHandle);
    getter!(snapshot, Snapshot, SnapshotHandle);
    getter!(walk, Walk, WalkHandle);
    getter!(transaction, Transaction, TransactionHandle);
    getter!(savepoint, Savepoint, u64);

    fn path(&self, word: &Word) -> PathBuf {
        self.directory.join(&text(word)[1..])
    }

    fn set(&mut self, name: &Word, variable: Variable) -> Result<Answer> {
        self.variables.insert(text(name), variable);
        Ok(Answer::new())
    }

    fn batch(&mut self, name: &Word) -> &mut WriteBatch {
        match self.variables.get_mut(&text(name)) {
            Some(Variable::Batch(batch)) => batch,
            _ => panic!("there is no batch {}", text(name)),
        }
    }

    /// Reads pages of `size` bytes, or all of them if it is `None`.
    fn pages(&self, w: &[Word], direction: WalkDirection) -> Result<Answer> {
        let (walk, size) = (self.walk(&w[0])?, w.get(1));
        let mut buffer = vec![0; size.map_or(200_000, |size| text(size).parse().unwrap())];
        let mut answer = Answer::new();
        loop {
            let extent = walk.fill(direction, &mut buffer)?;
            if extent.records == 0 && extent.bytes > buffer.len() {
                answer.extend(["short".to_owned(), extent.bytes.to_string()].map(|part| Some(part.into())));
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
        let texts: Vec<String> = w.iter().map(text).collect();
        let options = texts.get(2).map_or("", String::as_str);
        let db = || self.store(&w[0])?.db();
        match verb {
            "open" => {
                let path = (texts[1] != "memory").then(|| self.path(&w[1]));
                // A variable that is opened again is freed first.
                self.variables.remove(&texts[0]);
                let store = StoreHandle::open(path.as_deref(), &options.parse()?)?;
                self.set(&w[0], Variable::Store(store))
            }
            "close" => done(self.store(&w[0])?.close(ClosePolicy::WhenUnused)),
            "force-close" => done(self.store(&w[0])?.close(ClosePolicy::Force)),
            "free" => self.set(&w[0], Variable::Freed),
            "sync" => done(db()?.sync()),
            "checkpoint" => done(db()?.checkpoint()),
            "compact" => done(db()?.compact()),
            "check" => said(check_json(&db()?.check_report(|_| ())?)),
            "stats" => said(stats_json(&db()?.stats())),
            "keyspaces" => said(keyspaces_json(db()?)),
            "backup" => done(db()?.checkpoint_to(self.path(&w[1]))),
            "restore" => done(alluvium::restore(self.path(&w[0]), self.path(&w[1]))),
            "repair" => said(repair_json(&alluvium::repair(self.path(&w[0]))?)),
            "keyspace" => {
                let options = texts.get(3).map(|text| text.parse()).transpose()?;
                let keyspace = self.store(&w[1])?.keyspace(&texts[2], options.as_ref())?;
                self.set(&w[0], Variable::Keyspace(keyspace))
            }
            "existing" => {
                let keyspace = self.store(&w[1])?.existing_keyspace(&texts[2])?;
                self.set(&w[0], Variable::Keyspace(keyspace))
            }
            "drop" => done(db()?.drop_keyspace(&texts[1])),
            "rename" => done(db()?.rename_keyspace(&texts[1], &texts[2])),
            "snapshot" | "snapshot-open" => {
                let store = self.store(&w[1])?;
                let snapshot = match texts.get(2) {
                    None => store.snapshot()?,
                    Some(name) if verb == "snapshot" => store.create_snapshot(name)?,
                    Some(name) => store.open_snapshot(name)?,
                };
                self.set(&w[0], Variable::Snapshot(snapshot))
            }
            "snapshot-remove" => done(db()?.remove_snapshot(&texts[1])),
            "begin" => {
                let transaction = self.store(&w[1])?.begin(&options.parse()?)?;
                self.set(&w[0], Variable::Transaction(transaction))
            }
            "sleep" => done(Ok::<_, HandleError>(std::thread::sleep(Duration::from_millis(
                texts[0].parse().unwrap(),
            )))),
            _ => self.record_step(verb, w),
        }
    }

    fn record_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        match verb {
            "batch" => {
                let durability = w.get(1).map(|word| text(word).parse()).transpose()?;
                let batch = durability.map_or_else(WriteBatch::new, |of| WriteBatch::new().durability(of));
                self.set(&w[0], Variable::Batch(Box::new(batch)))
            }
            "batch-count" => said(self.batch(&w[0]).len()),
            "batch-clear" => done(Ok::<_, HandleError>(self.batch(&w[0]).clear())),
            "write" => {
                let batch = self.batch(&w[1]).clone();
                done(self.store(&w[0])?.write(&batch))
            }
            "ingest" => {
                let ingest = self.keyspace(&w[1])?.ingest()?;
                self.set(&w[0], Variable::Ingest(ingest))
            }
            "ingest-put" => done(self.ingest(&w[0])?.put(&w[1].0, &w[2].0)),
            "ingest-finish" => said(self.ingest(&w[0])?.finish()?),
            "snapshot-get" => Ok(one(self.snapshot(&w[0])?.get(self.keyspace(&w[1])?, &w[2].0)?)),
            "rest" | "page" => self.pages(w, WalkDirection::Forward),
            "rest-back" | "page-back" => self.pages(w, WalkDirection::Backward),
            "seek" => done(self.walk(&w[0])?.seek(&w[1].0)),
            "iter" | "snapshot-iter" | "tx-iter" => self.walk_step(verb, w),
            "get" => Ok(one(self.keyspace(&w[0])?.inner()?.get(&w[1].0)?)),
            "take" => Ok(one(self.keyspace(&w[0])?.inner()?.take(&w[1].0)?)),
            "contains" => said(self.keyspace(&w[0])?.inner()?.contains(&w[1].0)?),
            "cas" => {
                let (keyspace, expected) = (self.keyspace(&w[0])?.inner()?, optional(&w[2]));
                said(keyspace.compare_and_set(&w[1].0, expected, optional(&w[3]))?)
            }
            "multi-get" => {
                let keys = w[1..].iter().map(|word| &word.0);
                let values = self.keyspace(&w[0])?.inner()?.multi_get(keys)?;
                Ok(values.into_iter().flat_map(one).collect())
            }
            "savepoint" => {
                let number = self.transaction(&w[1])?.savepoint()?;
                self.set(&w[0], Variable::Savepoint(number))
            }
            "rollback-to" => done(self.transaction(&w[0])?.rollback_to(*self.savepoint(&w[1])?)),
            "release" => done(self.transaction(&w[0])?.release(*self.savepoint(&w[1])?)),
            "commit" => {
                let durability = w.get(1).map(|word| text(word).parse()).transpose()?;
                done(self.transaction(&w[0])?.commit(durability))
            }
            "rollback" => done(self.transaction(&w[0])?.rollback()),
            _ => self.write_step(verb, w),
        }
    }

    /// Runs a write, or a step of a transaction that names a keyspace.
    fn write_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        if let Some(verb) = verb.strip_prefix("batch-") {
            let keyspace = self.keyspace(&w[1])?.inner()?.clone();
            return write!(verb, w[2..], self.batch(&w[0]), &keyspace);
        }
        let Some(verb) = verb.strip_prefix("tx-") else {
            return write!(verb, w[1..], self.keyspace(&w[0])?.inner()?);
        };
        let (transaction, keyspace) = (self.transaction(&w[0])?, self.keyspace(&w[1])?);
        match (verb, w.get(3).map(text).as_deref()) {
            ("depend", _) => done(with_range(&w[2..], |range| {
                transaction.depend_on_range(keyspace, range)
            })),
            ("get", read) => {
                let read = match read {
                    None => TransactionRead::Tracked,
                    Some("untracked") => TransactionRead::Untracked,
                    Some("shared") => TransactionRead::Shared,
                    Some(_) => TransactionRead::ForUpdate,
                };
                Ok(one(transaction.get(keyspace, &w[2].0, read)?))
            }
            _ => {
                let keyspace = keyspace.inner()?;
                transaction.with(|transaction| write!(verb, w[2..], transaction, keyspace))
            }
        }
    }

    fn walk_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        let at = if verb == "iter" { 2 } else { 3 };
        let walk = with_range(&w[at..], |range| match verb {
            "iter" => self.keyspace(&w[1])?.walk(None, range),
            "tx-iter" => self.transaction(&w[1])?.walk(self.keyspace(&w[2])?, range),
            _ => self.keyspace(&w[2])?.walk(Some(self.snapshot(&w[1])?), range),
        })?;
        self.set(&w[0], Variable::Walk(walk))
    }

    /// Runs a line, and compares what comes of it. Returns what came of it if it does not agree.
    pub(super) fn line(&mut self, line: &str) -> std::result::Result<(), String> {
        let words = words(line);
        let Some(verb) = words.first().map(text) else {
            return Ok(());
        };
        let is_mark = |(word, is_quoted): &Word| !is_quoted && [&b"="[..], b"!", b"has"].contains(&&word[..]);
        let end = words.iter().position(is_mark).unwrap_or(words.len());
        let came = self.step(&verb, &words[1..end]);
        let expected = words.get(end + 1..).unwrap_or_default();
        let part = |at: usize| expected.get(at).map(text).unwrap_or_default();
        let agrees = match (words.get(end).map(text).as_deref(), &came) {
            (Some("!"), Err(error)) => error.kind().name() == part(0) && error.to_string().contains(&part(1)),
            (Some("has"), Ok(answer)) => {
                String::from_utf8_lossy(answer[0].as_ref().unwrap()).contains(&part(0))
            }
            (Some("="), Ok(answer)) => {
                let value = |word: &Word| (word.1 || word.0 != b"absent").then(|| word.0.clone());
                *answer == expected.iter().map(value).collect::<Answer>()
            }
            (None, Ok(_)) => true,
            _ => false,
        };
        agrees
            .then_some(())
            .ok_or_else(|| format!("{line}  came to {came:?}"))
    }
}
