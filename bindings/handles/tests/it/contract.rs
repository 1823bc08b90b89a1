//! Runs the cases of `bindings/contract` on the handles. The language of the cases is described in
//! `bindings/contract/README.md`.

use alluvium::text::split_words;
use alluvium::{Durability, KeyspaceOptions, Options, TransactionOptions, Value, WriteBatch};
use alluvium_handles::{
    ClosePolicy, HandleError, IngestHandle, KeyspaceHandle, Result, SnapshotHandle, StoreHandle,
    TransactionHandle, TransactionRead, WalkDirection, WalkHandle, WalkRange, check_json, keyspaces_json,
    page, repair_json, stats_json,
};
use std::collections::HashMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

/// A word of a line, and whether it was quoted.
type Word = (Vec<u8>, bool);

/// What a step returns: values, some of them absent.
type Answer = Vec<Option<Vec<u8>>>;

#[derive(Default)]
struct CaseRun {
    variables: HashMap<String, Variable>,
    directory: PathBuf,
}

/// Splits a line into words. A count after a quoted word repeats it: `"ab"*3`.
fn words(line: &str) -> Vec<Word> {
    let (mut all, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() && !rest.starts_with('#') {
        let is_quoted = rest.starts_with('"');
        let mut is_escaped = false;
        let mut end = rest.char_indices().skip(1).find(|&(_, c)| match is_quoted {
            false => c == ' ',
            true => {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            }
        });
        let (at, _) = end.get_or_insert((rest.len(), ' '));
        let (word, behind) = rest.split_at(*at + usize::from(is_quoted));
        rest = behind;
        let mut bytes = match is_quoted {
            true => split_words(word.as_bytes()).unwrap().remove(0),
            false => word.as_bytes().to_vec(),
        };
        if let Some(count) = rest.strip_prefix('*').filter(|_| is_quoted) {
            let (count, behind) = count.split_at(count.find(' ').unwrap_or(count.len()));
            bytes = bytes.repeat(count.parse().unwrap());
            rest = behind;
        }
        all.push((bytes, is_quoted));
        rest = rest.trim_start();
    }
    all
}

fn time(word: Option<&Word>) -> Option<SystemTime> {
    let (text, _) = word?;
    let now = SystemTime::now();
    match &text[..] {
        b"soon" => Some(now + Duration::from_millis(40)),
        text => Some(
            SystemTime::UNIX_EPOCH
                + Duration::from_millis(std::str::from_utf8(text).unwrap().parse().unwrap()),
        ),
    }
}

fn optional(word: &Word) -> Option<&[u8]> {
    (word.1 || word.0 != b"none").then_some(&word.0[..])
}

/// Calls `body` with the range that words describe.
fn with_range<T>(words: &[Word], body: impl FnOnce(&WalkRange<'_>) -> Result<T>) -> Result<T> {
    let mut range = WalkRange::default();
    let prefix_end;
    let mut at = words.iter();
    while let Some((verb, _)) = at.next() {
        let mut bound = || &at.next().unwrap().0[..];
        match &verb[..] {
            b"keys" => range.omits_values = true,
            b"unordered" => range.is_unordered = true,
            b"from" => range.start = Bound::Included(bound()),
            b"after" => range.start = Bound::Excluded(bound()),
            b"to" => range.end = Bound::Excluded(bound()),
            b"through" => range.end = Bound::Included(bound()),
            b"prefix" => {
                let prefix = bound();
                prefix_end = WalkRange::end_of_prefix(prefix);
                range.start = Bound::Included(prefix);
                range.end = prefix_end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                break;
            }
            other => panic!("{} is no word of a range", other.escape_ascii()),
        }
    }
    let has = |verb: &[u8]| words.iter().any(|(word, _)| word == verb);
    (range.omits_values, range.is_unordered) = (has(b"keys"), has(b"unordered"));
    body(&range)
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

fn text(word: &Word) -> String {
    String::from_utf8_lossy(&word.0).into_owned()
}

fn one(value: Option<Value>) -> Answer {
    vec![value.map(Value::into_vec)]
}

fn said(text: impl ToString) -> Answer {
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

    fn set(&mut self, name: &Word, variable: Variable) -> Answer {
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
        let durability = |word: &Word| text(word).parse::<Durability>();
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
            "check" => return Ok(said(check_json(&self.store(&w[0])?.db()?.check_report(|_| ())?))),
            "stats" => return Ok(said(stats_json(&self.store(&w[0])?.db()?.stats()))),
            "keyspaces" => return Ok(said(keyspaces_json(self.store(&w[0])?.db()?))),
            "backup" => drop(self.store(&w[0])?.db()?.checkpoint_to(path(1).unwrap())?),
            "restore" => alluvium::restore(path(0).unwrap(), path(1).unwrap())?,
            "repair" => return Ok(said(repair_json(&alluvium::repair(path(0).unwrap())?))),
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
            "batch" => {
                let batch = match w.get(1) {
                    None => WriteBatch::new(),
                    Some(word) => WriteBatch::new().durability(durability(word)?),
                };
                return Ok(self.set(&w[0], Variable::Batch(Box::new(batch))));
            }
            "batch-count" => return Ok(said(self.batch(&w[0]).len())),
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
            "ingest-finish" => return Ok(said(self.ingest(&w[0])?.finish()?)),
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
            ("contains", _) => return Ok(said(keyspace.contains(key)?)),
            ("cas", _) => {
                return Ok(said(keyspace.compare_and_set(
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

    fn transaction_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        match verb {
            "begin" => {
                let options: TransactionOptions = w.get(2).map(text).unwrap_or_default().parse()?;
                let transaction = self.store(&w[1])?.begin(&options)?;
                return Ok(self.set(&w[0], Variable::Transaction(transaction)));
            }
            "savepoint" => {
                let number = self.transaction(&w[1])?.savepoint()?;
                return Ok(self.set(&w[0], Variable::Savepoint(number)));
            }
            "rollback-to" | "release" => {
                // A savepoint that an ended transaction has not returned has no number.
                let number = self.savepoint(&w[1]).copied()?;
                let transaction = self.transaction(&w[0])?;
                match verb {
                    "release" => transaction.release(number)?,
                    _ => transaction.rollback_to(number)?,
                }
                return Ok(Answer::new());
            }
            "commit" => {
                let durability = w
                    .get(1)
                    .map(|word| text(word).parse::<Durability>())
                    .transpose()?;
                return self
                    .transaction(&w[0])?
                    .commit(durability)
                    .map(|()| Answer::new());
            }
            "rollback" => return self.transaction(&w[0])?.rollback().map(|()| Answer::new()),
            _ => {}
        }
        let (transaction, handle) = (self.transaction(&w[0])?, self.keyspace(&w[1])?);
        if verb == "tx-depend" {
            return with_range(&w[2..], |range| transaction.depend_on_range(handle, range))
                .map(|()| Answer::new());
        }
        let key = &w[2].0;
        if verb == "tx-get" {
            let read = match w.get(3).map(text).as_deref() {
                None => TransactionRead::Tracked,
                Some("untracked") => TransactionRead::Untracked,
                Some("shared") => TransactionRead::Shared,
                Some(_) => TransactionRead::ForUpdate,
            };
            return Ok(one(transaction.get(handle, key, read)?));
        }
        let keyspace = handle.inner()?;
        transaction.with(|tx| {
            match (
                verb,
                time(
                    w.get(if verb == "tx-put" { 4 } else { 3 })
                        .filter(|_| ["tx-put", "tx-delete"].contains(&verb)),
                ),
            ) {
                ("tx-put", None) => tx.put(keyspace, key, &w[3].0)?,
                ("tx-put", Some(time)) => tx.put_until(keyspace, key, &w[3].0, time)?,
                ("tx-delete", None) => tx.delete(keyspace, key)?,
                ("tx-delete", Some(time)) => tx.delete_at(keyspace, key, time)?,
                ("tx-delete-range", _) => tx.delete_range(keyspace, key, optional(&w[3]))?,
                ("tx-merge", _) => tx.merge(keyspace, key, &w[3].0)?,
                _ => panic!("{verb} is no verb"),
            }
            Ok(Answer::new())
        })
    }

    /// Runs a line, and compares what comes of it. Returns what came of it if it does not agree.
    fn line(&mut self, line: &str) -> std::result::Result<(), String> {
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

fn run_case(steps: &str, structure: &str) -> std::result::Result<(), String> {
    let place = tempfile::tempdir().unwrap();
    let mut run = CaseRun {
        directory: place.path().to_owned(),
        ..CaseRun::default()
    };
    run.line("open s memory \"--memory 16M --workers 1\"")?;
    run.line(&format!("keyspace k s k \"--structure {structure}\""))?;
    steps.lines().try_for_each(|line| run.line(line))
}

/// The names and steps of the cases of a file, and the structures that they run on.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str, &'static [&'static str])> {
    const STRUCTURES: [&str; 5] = ["tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"];
    text.split("[[case]]\n").skip(1).map(|case| {
        let (head, rest) = case.split_once("steps = '''\n").unwrap();
        let structures = match (head.contains("on = \"all\""), head.contains("on = \"ordered\"")) {
            (true, _) => &STRUCTURES[..],
            (_, true) => &STRUCTURES[..4],
            _ => &STRUCTURES[..1],
        };
        (
            head.lines().next().unwrap(),
            rest.split_once("\n'''").unwrap().0,
            structures,
        )
    })
}

#[test]
fn the_contract_suite_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contract");
    let mut files: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let (mut count, mut runs, mut failed) = (0, 0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (name, steps, structures) in cases(&text) {
            count += 1;
            for structure in structures {
                runs += 1;
                if let Err(why) = run_case(steps, structure) {
                    failed.push(format!("{name} ({structure}): {why}"));
                }
            }
        }
    }
    println!("contract: {count} cases, {runs} runs, {} failed", failed.len());
    assert!(count >= 300 && failed.is_empty(), "{count} cases; {failed:#?}");
}

#[test]
fn a_case_that_does_not_hold_is_found() {
    for wrong in [
        "get k a = 1",
        "put k a 1\nget k a = absent",
        "put k a 1\nget k a ! closed",
        "open d memory \"--colour\" ! closed",
        "open d memory \"--colour\" ! invalid_argument elephant",
        "put k a 1\niter i k\nrest i = a 1 b 2",
    ] {
        assert!(run_case(wrong, "tiered").is_err(), "{wrong}");
    }
}
