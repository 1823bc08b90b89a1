//! The layout of the table from which a keyspace was imported, stored so that the values can be
//! exported in the same form.

use crate::formats::FileFormat;
use crate::formats::csv::{LineEnd, TableLayout};
use crate::store::{StoreHandle, walk};
use crate::values::range::{ByteBounds, successor};
use alluvium_server::control::{KeyChange, ScanContent, ScanOrder};
use anyhow::{Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The name of the keyspace that stores the progress of imports.
pub(crate) const PROGRESS: &str = "alluvium.imports";

/// Version of the stored layout format.
const VERSION: u64 = 1;

/// The layout of a CSV table, and the part of its rows that was stored as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportLayout {
    pub(crate) format: FileFormat,
    pub(crate) separator: u8,
    pub(crate) head: TableLayout,
    /// The name of the column stored as values, or `None` if the values are complete rows.
    pub(crate) column: Option<String>,
}

/// Returns the key under which the layout of a keyspace is stored.
pub(crate) fn layout_key(keyspace: &str) -> Vec<u8> {
    format!("layout\0{keyspace}").into_bytes()
}

impl ImportLayout {
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

    pub(crate) fn decode(bytes: &[u8]) -> Result<ImportLayout> {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        ImportLayout::read(&value).ok_or_else(|| {
            anyhow!("the stored layout of the imported table cannot be read: import the table again, or leave --values-only out")
        })
    }

    /// Converts a layout from JSON. Returns `None` if a field is missing.
    fn read(value: &Value) -> Option<ImportLayout> {
        if value["version"] != VERSION {
            return None;
        }
        let line_end = value["line_end"].as_str()?.as_bytes();
        let header = match &value["header"] {
            Value::Null => None,
            text => Some(STANDARD.decode(text.as_str()?).ok()?),
        };
        Some(ImportLayout {
            format: [FileFormat::Csv, FileFormat::Tsv]
                .into_iter()
                .find(|format| value["format"] == format.name())?,
            separator: value["separator"].as_u64()?.try_into().ok()?,
            head: TableLayout {
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

/// Returns the prefix of the keys under which the progress of imports into a keyspace is stored.
fn progress_prefix(keyspace: &str) -> Vec<u8> {
    format!("progress\0{keyspace}\0").into_bytes()
}

/// Deletes the stored layout and progress after a keyspace was dropped.
pub(crate) fn forget(store: &StoreHandle, keyspace: &str) -> Result<()> {
    if !store.has_keyspace(PROGRESS)? {
        return Ok(());
    }
    let changes = keys(store, keyspace)?.into_iter().map(|key| set(key, None));
    store.write(changes.collect())
}

/// Moves the stored layout and progress to a new name after a keyspace was renamed.
pub(crate) fn rename(store: &StoreHandle, from: &str, to: &str) -> Result<()> {
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

/// Returns a change that sets or deletes a key in the keyspace of import progress.
pub(super) fn set(key: Vec<u8>, value: Option<Vec<u8>>) -> KeyChange {
    KeyChange {
        keyspace: PROGRESS.to_owned(),
        key,
        value,
        expires_in_ms: None,
    }
}

/// Returns all keys under which data about imports into a keyspace is stored.
fn keys(store: &StoreHandle, keyspace: &str) -> Result<Vec<Vec<u8>>> {
    let prefix = progress_prefix(keyspace);
    let bounds = ByteBounds {
        to: successor(&prefix),
        from: prefix,
    };
    let mut keys = vec![layout_key(keyspace)];
    store.scan(
        walk(PROGRESS, bounds, ScanOrder::Forward, ScanContent::Keys),
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
            let layout = ImportLayout {
                format: FileFormat::Tsv,
                separator: b';',
                head: TableLayout {
                    header,
                    columns: 2,
                    line_end,
                },
                column,
            };
            assert_eq!(ImportLayout::decode(&layout.encode()).unwrap(), layout);
        }
        assert!(ImportLayout::decode(b"{}").is_err() && ImportLayout::decode(b"id,name\n").is_err());
    }
}
