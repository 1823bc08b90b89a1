//! What every verb is given: where the store is, and how it answers.

use crate::arguments::Arguments;
use crate::exit::{self, Exit, failure};
use crate::remote::Remote;
use crate::{screen, sizes};
use alluvium::{Db, Keyspace, MIN_MEMORY, Options};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// What is common to all verbs.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) path: PathBuf,
    pub(crate) form: Form,
    pub(crate) memory: Option<u64>,
}

/// Who reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

impl Context {
    pub(crate) fn new(arguments: &Arguments) -> Context {
        Context {
            path: arguments.db.clone(),
            form: if arguments.json { Form::Json } else { Form::Text },
            memory: arguments.memory.map(|memory| memory.0),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// How the store is opened.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new();
        match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        }
    }

    fn what(&self) -> String {
        format!("opening the store in {}", self.path.display())
    }

    /// Refuses a file in the place of a directory, and less memory than a store works with.
    pub(crate) fn check(&self) -> Result<()> {
        if self.path.exists() && !self.path.is_dir() {
            let text = format!(
                "{} is a file: --db and ALLUVIUM_DB name the directory of a store",
                self.path.display()
            );
            return Err(failure(Exit::Usage, text));
        }
        if let Some(memory) = self.memory.filter(|&memory| memory < MIN_MEMORY) {
            let text = format!(
                "--memory {}: a store works with {} or more",
                sizes::human(memory),
                sizes::human(MIN_MEMORY)
            );
            return Err(failure(Exit::Usage, text));
        }
        Ok(())
    }

    /// Opens a store that is there.
    pub(crate) fn open(&self) -> Result<Db> {
        self.check_store()?;
        self.options()
            .open_existing(&self.path)
            .with_context(|| self.what())
    }

    /// Opens a store that is there for reading: for reading only where nothing can be written,
    /// which is said.
    pub(crate) fn open_to_read(&self) -> Result<Db> {
        let error = match self.open() {
            Ok(db) => return Ok(db),
            Err(error) => error,
        };
        let Some(why) = exit::cannot_write(&error) else {
            return Err(error);
        };
        let db = match self.options().open_read_only(&self.path) {
            Ok(db) => db,
            Err(other) => {
                let other = anyhow::Error::new(other).context(self.what());
                // What is in the way of writing says more, unless a server can be asked.
                let is_busy = exit::classify(&other) == Exit::Busy;
                return Err(if is_busy { other } else { error });
            }
        };
        screen::note(&format!(
            "{} is opened for reading only: {why}",
            self.path.display()
        ));
        Ok(db)
    }

    fn check_store(&self) -> Result<()> {
        self.check()?;
        if !self.path.exists() {
            let text = format!(
                "there is no store in {}: name its directory with --db or ALLUVIUM_DB, or put something into a new one with `alluvium put`",
                self.path.display()
            );
            return Err(failure(Exit::NotFound, text));
        }
        Ok(())
    }

    /// Opens a store that is there, or finds the server that has it open.
    pub(crate) fn open_or_served(&self) -> Result<Access> {
        match self.open_to_read() {
            Ok(db) => Ok(Access::Own(db)),
            Err(error) if exit::classify(&error) == Exit::Busy => match Remote::of(&self.path) {
                Some(remote) => Ok(Access::Served(remote)),
                None => Err(error.context(
                    "another process has the store open: `alluvium serve` lets others read it through its web page (--web), any other must end first",
                )),
            },
            Err(error) => Err(error),
        }
    }

    /// Opens the store, or creates it.
    pub(crate) fn open_or_create(&self) -> Result<Db> {
        self.check()?;
        self.options().open(&self.path).with_context(|| self.what())
    }
}

/// Refuses a directory for a copy that holds something already.
pub(crate) fn vacant(directory: &Path) -> Result<()> {
    let Ok(mut entries) = directory.read_dir() else {
        // What is in the way is said when it is written to.
        return Ok(());
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let what = match directory.join("superblock").exists() {
        true => "holds a store already",
        false => "is not empty",
    };
    let text = format!(
        "{} {what}, and a copy goes into an empty directory: name another one",
        directory.display()
    );
    Err(failure(Exit::Failed, text))
}

/// A store that can be read.
#[derive(Debug)]
pub(crate) enum Access {
    /// Nobody else has it open.
    Own(Db),
    /// A server has it open, and answers.
    Served(Remote),
}

/// The keyspace that is read, which must be there.
pub(crate) fn existing(db: &Db, name: &str) -> Result<Keyspace> {
    db.existing_keyspace(name).map_err(|error| match error {
        alluvium::Error::NoSuchKeyspace { .. } => {
            let text =
                format!("there is no keyspace {name:?}: `alluvium keyspaces list` says which there are");
            failure(Exit::NotFound, text)
        }
        error => error.into(),
    })
}

/// The keyspace that is written, created if it is not there.
pub(crate) fn wanted(db: &Db, name: &str) -> Result<Keyspace> {
    Ok(db.keyspace(name)?)
}

/// The keyspace that is written, and whether it was created for that.
pub(crate) fn wanted_or_created(db: &Db, name: &str) -> Result<(Keyspace, bool)> {
    match db.existing_keyspace(name) {
        Ok(keyspace) => Ok((keyspace, false)),
        Err(alluvium::Error::NoSuchKeyspace { .. }) => Ok((wanted(db, name)?, true)),
        Err(error) => Err(error.into()),
    }
}

/// Closes the store, so that the next opening is fast.
pub(crate) fn close(db: Db) -> Result<()> {
    db.close().context("closing the store")
}
