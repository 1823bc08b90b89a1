//! The output of a script. Each operation prints a line of text or a JSON object.

use crate::context::CommandContext;
use crate::terminal::screen::{DIM, KEY, ScreenOutput};
use crate::values::bytes::{ByteEncoding, json_field};
use alluvium_server::control::TransactionStep;
use anyhow::Result;
use std::io::Write;

pub(super) struct ScriptOutput {
    out: ScreenOutput,
    encoding: ByteEncoding,
    is_json: bool,
}

impl ScriptOutput {
    pub(super) fn new(context: &CommandContext, encoding: ByteEncoding) -> ScriptOutput {
        ScriptOutput {
            out: ScreenOutput::new(),
            encoding,
            is_json: context.is_json(),
        }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    /// Prints a line of text after its line number in the script.
    fn text(&mut self, number: u64, text: &str) -> Result<()> {
        let number = self.out.styled(DIM, &format!("{number}:"));
        Ok(self.out.line(&format!("{number} {text}"))?)
    }

    /// Prints a JSON object. Its first fields describe the operation. `fields` writes the others,
    /// each of which must be preceded by a comma.
    fn object(
        &mut self,
        number: u64,
        operation: &str,
        fields: impl FnOnce(&mut ScreenOutput) -> std::io::Result<()>,
    ) -> Result<()> {
        write!(self.out, "{{\"line\":{number},\"operation\":\"{operation}\"")?;
        fields(&mut self.out)?;
        Ok(self.out.write_all(b"}\n")?)
    }

    pub(super) fn used(&mut self, number: u64, keyspace: &str) -> Result<()> {
        match self.is_json {
            true => self.object(number, "use", |out| field(out, "keyspace", keyspace.as_bytes())),
            false => self.text(number, &format!("use {keyspace:?}")),
        }
    }

    /// Prints the value that a read of a key has returned.
    pub(super) fn value(
        &mut self,
        number: u64,
        keyspace: &str,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        if self.is_json {
            return self.object(number, "get", |out| {
                field(out, "keyspace", keyspace.as_bytes())?;
                field(out, "key", key)?;
                match value {
                    Some(value) => field(out, "value", value),
                    None => out.write_all(b",\"value\":null"),
                }
            });
        }
        match value {
            Some(value) => self.record(number, "get ", key, value),
            None => {
                let key = self.key(key);
                self.text(number, &format!("get {key}: no value"))
            }
        }
    }

    /// Prints a key and a value that a scan has found.
    pub(super) fn pair(&mut self, number: u64, keyspace: &str, key: &[u8], value: &[u8]) -> Result<()> {
        match self.is_json {
            true => self.object(number, "scan", |out| {
                field(out, "keyspace", keyspace.as_bytes())?;
                field(out, "key", key)?;
                field(out, "value", value)
            }),
            false => self.record(number, "  ", key, value),
        }
    }

    fn record(&mut self, number: u64, before: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (self.key(key), self.encoding.show(value));
        self.text(number, &format!("{before}{key}\t{value}"))
    }

    fn key(&self, key: &[u8]) -> String {
        self.out.styled(KEY, &self.encoding.show(key))
    }

    /// Prints that an operation is complete and, for a scan, how many keys it has found.
    pub(super) fn done(&mut self, number: u64, step: &TransactionStep, keys: u64) -> Result<()> {
        if self.is_json {
            return self.done_object(number, step, keys);
        }
        match step {
            // For a read, the value has already been printed.
            TransactionStep::Get { .. } | TransactionStep::Commit | TransactionStep::Rollback => Ok(()),
            TransactionStep::Put { key, value, .. } => {
                let (key, bytes) = (self.key(key), value.len());
                self.text(number, &format!("put {key}: {bytes} bytes"))
            }
            TransactionStep::Delete { key, .. } => {
                let key = self.key(key);
                self.text(number, &format!("delete {key}"))
            }
            TransactionStep::DeleteRange { from, to, .. } => {
                let from = self.key(from);
                let to = to.as_ref().map(|to| format!(" to {}", self.key(to)));
                self.text(number, &format!("delete-range {from}{}", to.unwrap_or_default()))
            }
            TransactionStep::Scan(_) => self.text(number, &format!("scan: {keys} keys")),
            TransactionStep::Savepoint(name) => self.text(number, &format!("savepoint {name:?}")),
            TransactionStep::RollbackTo(name) => self.text(number, &format!("rollback-to {name:?}")),
        }
    }

    fn done_object(&mut self, number: u64, step: &TransactionStep, keys: u64) -> Result<()> {
        match step {
            TransactionStep::Get { .. } | TransactionStep::Commit | TransactionStep::Rollback => Ok(()),
            TransactionStep::Put { keyspace, key, value } => self.object(number, "put", |out| {
                field(out, "keyspace", keyspace.as_bytes())?;
                field(out, "key", key)?;
                write!(out, ",\"value_bytes\":{}", value.len())
            }),
            TransactionStep::Delete { keyspace, key } => self.object(number, "delete", |out| {
                field(out, "keyspace", keyspace.as_bytes())?;
                field(out, "key", key)
            }),
            TransactionStep::DeleteRange { keyspace, from, to } => {
                self.object(number, "delete-range", |out| {
                    field(out, "keyspace", keyspace.as_bytes())?;
                    field(out, "from", from)?;
                    match to {
                        Some(to) => field(out, "to", to),
                        None => Ok(()),
                    }
                })
            }
            TransactionStep::Scan(scan) => self.object(number, "scan", |out| {
                field(out, "keyspace", scan.keyspace.as_bytes())?;
                write!(out, ",\"keys\":{keys}")
            }),
            TransactionStep::Savepoint(name) => {
                self.object(number, "savepoint", |out| field(out, "name", name.as_bytes()))
            }
            TransactionStep::RollbackTo(name) => {
                self.object(number, "rollback-to", |out| field(out, "name", name.as_bytes()))
            }
        }
    }

    /// Prints that a transaction has ended.
    pub(super) fn ended(&mut self, number: u64, step: &TransactionStep, transaction: u64) -> Result<()> {
        let (operation, said) = match step {
            TransactionStep::Commit => ("commit", "committed"),
            _ => ("rollback", "rolled back"),
        };
        match self.is_json {
            true => self.object(number, operation, |out| {
                write!(out, ",\"transaction\":{transaction}")
            }),
            false => self.text(
                number,
                &format!("{operation}: transaction {transaction} is {said}"),
            ),
        }
    }

    /// Prints that the script has ended while a transaction was open.
    pub(super) fn unfinished(&mut self, last: u64) -> Result<()> {
        match self.is_json {
            true => self.object(last, "rollback", |out| {
                out.write_all(b",\"why\":\"the script ended without a commit\"")
            }),
            false => self.text(last, "the script ended without a commit: rolled back"),
        }
    }
}

/// Writes a field of a JSON object, preceded by a comma.
fn field(out: &mut ScreenOutput, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    out.write_all(b",")?;
    json_field(out, name, bytes)
}
