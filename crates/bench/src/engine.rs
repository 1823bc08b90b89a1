//! What is measured: a key-value engine, as every adapter offers it.

use anyhow::Result;
use std::path::PathBuf;

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where its files are; the directory is there.
    pub directory: PathBuf,
    /// The memory that the process may use in all, page cache included, in bytes.
    pub cap: u64,
    /// Whether the process is kept within it.
    pub kept: Kept,
    /// The memory that the engine is told to use, if a size was chosen.
    pub memory: Option<u64>,
    /// Whether writes are logged.
    pub log: Log,
    /// How many threads will use it at once.
    pub threads: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many records are loaded.
    pub records: u64,
}

/// Whether something keeps a process within its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A control group does: an engine that asks the machine for its memory is told the cap.
    WithinCap,
    /// Nothing does: an engine that asks the machine is told all of it.
    Free,
}

/// Whether what was written survives the death of the process. Nothing is synced for each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// The log is on: a write survives the death of the process, as far as the engine can.
    #[default]
    On,
    /// No log, where the engine can do without.
    Off,
}

/// An engine that is open. All threads share it; each has a [`Session`].
pub trait Engine: Send + Sync {
    /// Returns what one thread reads and writes through.
    ///
    /// # Errors
    /// As the engine says.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Everything that was written goes to the device, memtables included.
    ///
    /// # Errors
    /// As the engine says.
    fn flush(&self) -> Result<()>;

    /// Returns how it was set up, each setting with its value.
    fn settings(&self) -> Vec<(String, String)>;

    /// What the engine itself has to say at the end of a phase, for people; empty if nothing.
    fn remarks(&self) -> String {
        String::new()
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// As the engine says.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a scan hands out: a key and its value.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// What one thread reads and writes through.
pub trait Session: Send {
    /// The key has this value from now on.
    ///
    /// # Errors
    /// As the engine says.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Hands out the key's value, if it has one. Returns whether it has.
    ///
    /// # Errors
    /// As the engine says.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Hands out up to `limit` pairs from a key on, in order. Returns how many there were.
    ///
    /// # Errors
    /// As the engine says.
    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize>;

    /// Hands out the values of many keys, each with its place among them. Engines that cannot do it
    /// at once do it one by one.
    ///
    /// # Errors
    /// As the engine says.
    fn multi_get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        let mut count = 0;
        for (place, key) in keys.iter().enumerate() {
            if self.get(key, &mut |value| found(place, value))? {
                count += 1;
            }
        }
        Ok(count)
    }
}

/// An engine that can be opened by its name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// Opens it, or creates it.
    pub open: fn(&Setup) -> Result<Box<dyn Engine>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
