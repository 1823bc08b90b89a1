//! What every verb is given: where the store is, and how it answers.

use crate::arguments::Arguments;
use crate::exit::{self, Exit, failure};
use crate::remote::Remote;
use crate::screen;
use alluvium::{Db, Keyspace, KeyspaceOptions, Options};
use anyhow::{Context as _, Result};
use std::path::PathBuf;

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

    /// Opens a store that is there.
    pub(crate) fn open(&self) -> Result<Db> {
        if !self.path.exists() {
            let text = format!(
                "there is no store in {}: name its directory with --db or ALLUVIUM_DB, or put something into a new one with `alluvium put`",
                self.path.display()
            );
            return Err(failure(Exit::NotFound, text));
        }
        self.options()
            .open_existing(&self.path)
            .with_context(|| self.what())
    }

    /// Opens a store that is there, or finds the server that has it open.
    pub(crate) fn open_or_served(&self) -> Result<Access> {
        match self.open() {
            Ok(db) => Ok(Access::Own(db)),
            Err(error) if exit::is_of_map(&error) => {
                let db = self.options().open_read_only(&self.path);
                screen::note(
                    "the extent map is damaged: the store can be read all the same, and `alluvium repair` makes it one that can be written",
                );
                Ok(Access::Own(db.with_context(|| self.what())?))
            }
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
        self.options().open(&self.path).with_context(|| self.what())
    }
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
    Ok(db.keyspace_with(name, &KeyspaceOptions::new())?)
}

/// Closes the store, so that the next opening is fast.
pub(crate) fn close(db: Db) -> Result<()> {
    db.close().context("closing the store")
}
