//! The layout of the table that a keyspace was imported from, kept so that its values can be
//! exported in the same form.

use crate::formats::Format;
use crate::formats::csv::{Head, LineEnd};
use crate::store::{Store, walk};
use crate::values::range::{Bounds, successor};
use alluvium_server::control::{Change, Direction, What};
use anyhow::{Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The keyspace of import progress.
pub(crate) const PROGRESS: &str = "alluvium.imports";

/// Version of the stored layout.
const VERSION: u64 = 1;

/// The layout of a CSV table, and the part of its rows that is stored as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    pub(crate) separator: u8,
    pub(crate) head: Head,
    /// The column of the values; `None` if they are whole rows.
    pub(crate) column: Option<String>,
}

/// Returns the key that stores the layout of a keyspace.
pub(crate) fn layout_key(keyspace: &str) -> Vec<u8> {
    format!("layout\0{keyspace}").into_bytes()
}

impl Layout {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let line_end = std::str::from_utf8(self.head.line_end.bytes());
        let json = json!({
            "version": VERSION,
            "format": self.format.name(),
            "separator": self.separator,
            "header": self.head.header.as_ref().map(|header| STANDARD.encode(header)),
            "columns": self.head.columns,
            "line_end": line_end.unwrap_or_default(),
            "column": self.column,
        });
        json.to_string().into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Layout> {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        Layout::read(&value).ok_or_else(|| {
            anyhow!("the layout that the keyspace was imported with cannot be read: import it again, or leave --values-only out")
        })
    }

    /// Parses a layout from JSON. Returns `None` if a field is missing.
    fn read(value: &Value) -> Option<Layout> {
        if value["version"] != VERSION {
            return None;
        }
        let line_end = value["line_end"].as_str()?.as_bytes();
        let header = match &value["header"] {
            Value::Null => None,
            text => Some(STANDARD.decode(text.as_str()?).ok()?),
        };
        Some(Layout {
            format: [Format::Csv, Format::Tsv]
                .into_iter()
                .find(|format| value["format"] == format.name())?,
            separator: value["separator"].as_u64()?.try_into().ok()?,
            head: Head {
                header,
                columns: value["columns"].as_u64()?.try_into().ok()?,
                line_end: LineEnd::ALL.into_iter().find(|known| known.bytes() == line_end)?,
            },
            column: match &value["column"] {
                Value::Null => None,
                name => Some(name.as_str()?.to_owned()),
            },
        })
    }
}

/// Returns the key prefix of the stored progress of imports into a keyspace.
fn progress_prefix(keyspace: &str) -> Vec<u8> {
    format!("progress\0{keyspace}\0").into_bytes()
}

/// Deletes the import data of a dropped keyspace.
pub(crate) fn forget(store: &Store, keyspace: &str) -> Result<()> {
    if !store.has_keyspace(PROGRESS)? {
        return Ok(());
    }
    let changes = keys(store, keyspace)?.into_iter().map(|key| set(key, None));
    store.write(changes.collect())
}

/// Moves the import data of a renamed keyspace.
pub(crate) fn rename(store: &Store, from: &str, to: &str) -> Result<()> {
    if !store.has_keyspace(PROGRESS)? {
        return Ok(());
    }
    let prefix = progress_prefix(from);
    for key in keys(store, from)? {
        let Some(value) = store.value(PROGRESS, &key)? else {
            continue;
        };
        let new = match key.strip_prefix(&prefix[..]) {
            Some(input) => [&progress_prefix(to)[..], input].concat(),
            None => layout_key(to),
        };
        store.write(vec![set(new, Some(value)), set(key, None)])?;
    }
    Ok(())
}

/// Returns a change of the import data.
pub(super) fn set(key: Vec<u8>, value: Option<Vec<u8>>) -> Change {
    Change {
        keyspace: PROGRESS.to_owned(),
        key,
        value,
        expires_in_ms: None,
    }
}

/// Returns the keys of a keyspace's import data.
fn keys(store: &Store, keyspace: &str) -> Result<Vec<Vec<u8>>> {
    let prefix = progress_prefix(keyspace);
    let bounds = Bounds {
        to: successor(&prefix),
        from: prefix,
    };
    let mut keys = vec![layout_key(keyspace)];
    store.scan(
        walk(PROGRESS, bounds, Direction::Forward, What::Keys),
        &mut |key, _| {
            keys.push(key);
            Ok(())
        },
    )?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        for (header, column, line_end) in [
            (Some(b"id,\xff".to_vec()), None, LineEnd::CrLf),
            (None, Some("2".to_owned()), LineEnd::Lf),
        ] {
            let layout = Layout {
                format: Format::Tsv,
                separator: b';',
                head: Head {
                    header,
                    columns: 2,
                    line_end,
                },
                column,
            };
            assert_eq!(Layout::decode(&layout.encode()).unwrap(), layout);
        }
        assert!(Layout::decode(b"{}").is_err() && Layout::decode(b"id,name\n").is_err());
    }
}
