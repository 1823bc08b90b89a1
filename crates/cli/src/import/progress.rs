//! The progress of imports, which is stored with the imported data.

use super::layout::ImportLayout;
use crate::store::StoreHandle;
use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

/// Version of the stored progress format.
const VERSION: u64 = 2;

/// The identity of an import: its input and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportIdentity {
    pub(crate) keyspace: String,
    /// The absolute path of the input file, or `-` for standard input.
    pub(crate) input: String,
}

impl ImportIdentity {
    pub(crate) fn key(&self) -> Vec<u8> {
        format!("progress\0{}\0{}", self.keyspace, self.input).into_bytes()
    }
}

/// The progress of an import, committed with the rows that it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportProgress {
    /// The command line options that determine how rows are interpreted.
    pub(crate) options: String,
    /// Position in the input in bytes. All rows before it are in the store.
    pub(crate) offset: u64,
    pub(crate) rows: u64,
    pub(crate) lines: u64,
    pub(crate) rejected: u64,
    /// Length of the file of rejected rows in bytes.
    pub(crate) rejects_bytes: u64,
    /// A fingerprint of the bytes before the position, and the number of these bytes.
    pub(crate) tail: u64,
    pub(crate) tail_bytes: u64,
    /// Number of rows whose key occurred in an earlier row. If `is_partial` is set, some keys were
    /// compared with only part of the earlier ones.
    pub(crate) duplicates: u64,
    pub(crate) is_partial: bool,
    /// The layout of the table, if the input is one.
    pub(crate) layout: Option<ImportLayout>,
    /// A bulk load that may or may not have taken effect.
    pub(crate) pending: Option<Box<PendingLoad>>,
}

/// An atomic bulk load, which is recorded before it takes effect. The current value of one of its
/// keys later shows whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingLoad {
    pub(crate) key: Vec<u8>,
    /// Fingerprints of this key's value before the load, if it had one, and after the load.
    pub(crate) before: Option<u64>,
    pub(crate) after: u64,
    /// The progress once the load has taken effect.
    pub(crate) then: ImportProgress,
}

/// Returns a hash of the bytes.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

impl ImportProgress {
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.json().to_string().into_bytes()
    }

    fn json(&self) -> Value {
        let pending = self.pending.as_ref().map(|pending| {
            json!({
                "key": STANDARD.encode(&pending.key),
                "before": pending.before,
                "after": pending.after,
                "then": pending.then.json(),
            })
        });
        json!({
            "version": VERSION,
            "options": self.options,
            "offset": self.offset,
            "rows": self.rows,
            "lines": self.lines,
            "rejected": self.rejected,
            "rejects_bytes": self.rejects_bytes,
            "tail": self.tail,
            "tail_bytes": self.tail_bytes,
            "duplicates": self.duplicates,
            "is_partial": self.is_partial,
            "layout": self.layout.as_ref().map(|layout| STANDARD.encode(layout.encode())),
            "pending": pending,
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<ImportProgress> {
        let wrong =
            || anyhow!("the stored progress of an earlier import cannot be read: start over with --restart");
        let value: Value = serde_json::from_slice(bytes).map_err(|_| wrong())?;
        ImportProgress::read(&value).ok_or_else(wrong)
    }

    /// Converts the progress from JSON. Returns `None` if a field is missing.
    fn read(value: &Value) -> Option<ImportProgress> {
        if value["version"] != VERSION {
            return None;
        }
        let number = |name: &str| value[name].as_u64();
        let layout = match &value["layout"] {
            Value::Null => None,
            text => Some(ImportLayout::decode(&STANDARD.decode(text.as_str()?).ok()?).ok()?),
        };
        let pending = match &value["pending"] {
            Value::Null => None,
            pending => Some(Box::new(PendingLoad {
                key: STANDARD.decode(pending["key"].as_str()?).ok()?,
                before: pending["before"].as_u64(),
                after: pending["after"].as_u64()?,
                then: ImportProgress::read(&pending["then"])?,
            })),
        };
        Some(ImportProgress {
            options: value["options"].as_str()?.to_owned(),
            offset: number("offset")?,
            rows: number("rows")?,
            lines: number("lines")?,
            rejected: number("rejected")?,
            rejects_bytes: number("rejects_bytes")?,
            tail: number("tail")?,
            tail_bytes: number("tail_bytes")?,
            duplicates: number("duplicates")?,
            is_partial: value["is_partial"].as_bool()?,
            layout,
            pending,
        })
    }

    /// Determines from the store's contents whether a pending load has taken effect, and returns
    /// the resulting progress.
    pub(crate) fn settled(mut self, store: &StoreHandle, keyspace: &str) -> Result<ImportProgress> {
        let Some(pending) = self.pending.take() else {
            return Ok(self);
        };
        let now = store
            .value(keyspace, &pending.key)?
            .map(|value| fingerprint(&value));
        // If the key's value does not show whether the load took effect, the rows are loaded again,
        // with the same result.
        let is_done = now == Some(pending.after) && pending.before != now;
        Ok(if is_done { pending.then } else { self })
    }

    /// Returns an error if the import was started with different options.
    pub(crate) fn fits(&self, options: &str) -> Result<()> {
        if self.options == options {
            return Ok(());
        }
        let text = format!(
            "an earlier import of this input reached byte {} with {}, not with {options}: \
             use the earlier options, or start over with --restart",
            self.offset, self.options
        );
        Err(failure(CommandExit::Usage, text))
    }

    /// Returns an error if the input differs from the one that an earlier import has sorted.
    pub(crate) fn is_same_input(&self, earlier: &ImportProgress) -> Result<()> {
        let of = |saved: &ImportProgress| (saved.offset, saved.lines, saved.tail, saved.tail_bytes);
        if of(self) == of(earlier) {
            return Ok(());
        }
        let text = format!(
            "an earlier import has written {} sorted keys of this input, but the input has changed since: \
             restore the earlier input, or start over with --restart",
            earlier.rows
        );
        Err(failure(CommandExit::Failed, text))
    }

    /// Returns an error if the beginning of the input differs from the part that was already
    /// imported.
    pub(crate) fn continues(&self, tail: &[u8]) -> Result<()> {
        if tail.len() as u64 == self.tail_bytes && fingerprint(tail) == self.tail {
            return Ok(());
        }
        let text = format!(
            "an earlier import of this input reached byte {}, but the input has changed before that position: \
             restore the earlier input, or start over with --restart",
            self.offset
        );
        Err(failure(CommandExit::Failed, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::FileFormat;
    use crate::formats::csv::TableLayout;

    #[test]
    fn what_is_remembered_is_read_again() {
        let saved = ImportProgress {
            options: "csv".to_owned(),
            offset: u64::MAX,
            tail: u64::MAX - 1,
            duplicates: 3,
            layout: Some(ImportLayout {
                format: FileFormat::Csv,
                separator: b',',
                head: TableLayout::default(),
                column: None,
            }),
            pending: Some(Box::new(PendingLoad {
                key: vec![0, 0xff],
                before: None,
                after: 7,
                then: ImportProgress {
                    offset: 9,
                    ..ImportProgress::default()
                },
            })),
            ..ImportProgress::default()
        };
        assert_eq!(ImportProgress::decode(&saved.encode()).unwrap(), saved);
        assert!(ImportProgress::decode(b"{}").is_err() && ImportProgress::decode(b"\xff").is_err());
    }

    #[test]
    fn another_input_and_other_options_are_refused() {
        let saved = ImportProgress {
            options: "csv".to_owned(),
            tail: fingerprint(b"abc"),
            tail_bytes: 3,
            ..ImportProgress::default()
        };
        assert!(saved.continues(b"abc").is_ok() && saved.fits("csv").is_ok());
        assert!(
            saved.continues(b"abd").is_err() && saved.continues(b"bc").is_err() && saved.fits("tsv").is_err()
        );
    }
}
