//! Batch methods that add writes to keyspaces.

use super::Keyspace;
use crate::engine::CommitRecord;
use crate::error::{Error, Result};
use crate::schema::format;
use crate::write::batch::{WriteBatch, checked_key, checked_key_of, checked_value, expiry_ms};
use alluvium_base::MessageKind;
use std::time::SystemTime;

impl WriteBatch {
    /// Adds a put to the batch: see [`Keyspace::put`].
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::KeyspaceDropped`], [`Error::OtherStore`]. After an error, the
    /// batch is unchanged.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<&mut Self> {
        let expires_ms = keyspace.put_expiry_ms();
        self.add(
            keyspace,
            key.as_ref(),
            MessageKind::Put,
            expires_ms,
            value.as_ref(),
        )
    }

    /// Adds a put with an expiry time to the batch: see [`Keyspace::put_until`].
    ///
    /// # Errors
    /// The same errors as [`WriteBatch::put`].
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<&mut Self> {
        self.add(
            keyspace,
            key.as_ref(),
            MessageKind::Put,
            expiry_ms(expires),
            value.as_ref(),
        )
    }

    /// Adds a delete of one key to the batch: see [`Keyspace::delete`].
    ///
    /// # Errors
    /// The same errors as [`WriteBatch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.add(keyspace, key.as_ref(), MessageKind::Delete, 0, &[])
    }

    /// Adds a timed delete of one key to the batch: see [`Keyspace::delete_at`].
    ///
    /// # Errors
    /// The same errors as [`WriteBatch::put`].
    pub fn delete_at(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<&mut Self> {
        let time_ms = expiry_ms(time);
        self.add(keyspace, key.as_ref(), MessageKind::TimedDelete, time_ms, &[])
    }

    /// Adds a merge to the batch: see [`Keyspace::merge`].
    ///
    /// # Errors
    /// The errors of [`WriteBatch::put`]; [`Error::NoOperator`]; [`Error::BadOperand`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<&mut Self> {
        keyspace.check_operand(operand.as_ref())?;
        self.add(keyspace, key.as_ref(), MessageKind::Merge, 0, operand.as_ref())
    }

    /// Adds a range delete to the batch: see [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// The same errors as [`WriteBatch::put`].
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: impl AsRef<[u8]>,
        end: Option<&[u8]>,
    ) -> Result<&mut Self> {
        self.belong(keyspace)?;
        let definition = keyspace.definition();
        let start = format::tree_key(&definition.prefix, checked_key(start.as_ref())?);
        let end = match end {
            Some(end) => format::tree_key(&definition.prefix, checked_key(end)?),
            None => definition.end.clone(),
        };
        definition.require_range(&start, &end)?;
        if start < end {
            self.commit.delete_range(&start, &end);
        }
        Ok(self)
    }

    /// Appends already validated writes to a keyspace, encoded as a commit record.
    pub(crate) fn append(&mut self, keyspace: &Keyspace, writes: &CommitRecord<'_>) -> Result<()> {
        self.belong(keyspace)?;
        self.commit.append(writes);
        Ok(())
    }

    fn belong(&mut self, keyspace: &Keyspace) -> Result<()> {
        let store = keyspace.store_number();
        if self.store.is_some_and(|own| own != store) {
            return Err(Error::OtherStore);
        }
        let catalog = &keyspace.shared().engine.catalog;
        self.members.add(catalog, keyspace.definition())?;
        self.store = Some(store);
        Ok(())
    }

    pub(crate) fn add(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        kind: MessageKind,
        expires_ms: u64,
        operand: &[u8],
    ) -> Result<&mut Self> {
        self.belong(keyspace)?;
        self.commit.add(
            &keyspace.definition().prefix,
            checked_key_of(keyspace.definition(), key)?,
            kind,
            expires_ms,
            checked_value(operand)?,
        );
        Ok(self)
    }
}
