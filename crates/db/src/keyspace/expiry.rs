//! The time at which a key loses its value: reading it, and changing it without changing the value.

use super::Keyspace;
use crate::engine::{CommitPreconditions, CommitRecord, ConditionVerdict, ReadPosition};
use crate::error::Result;
use crate::read::value::Value;
use crate::schema::format;
use crate::write::batch::{checked_key_of, checked_value, expiry_ms};
use alluvium_base::MessageKind;
use std::time::{Duration, SystemTime};

fn time_of(ends_ms: u64) -> Option<SystemTime> {
    (ends_ms > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(ends_ms))
}

impl Keyspace {
    /// Returns the expiry time, in milliseconds since 1970, of a value that is put now without one:
    /// that of the keyspace's default, or 0 if values stay.
    #[inline]
    pub(crate) fn put_expiry_ms(&self) -> u64 {
        match self.definition().options.default_expiry_ms() {
            Some(after_ms) => self.shared().engine.now_ms().saturating_add(after_ms),
            None => 0,
        }
    }

    /// Returns the value of a key, and the time at which the key loses it. The time is `None` if
    /// the key keeps the value until something is written to it.
    ///
    /// A value that was put with [`Keyspace::put_until`] ends at that time, and one under
    /// [`Keyspace::delete_at`] at the time of that call. Operands that were merged into the value
    /// afterwards stay when it ends, so the key then has no time.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use std::time::{Duration, SystemTime};
    /// let sessions = db.keyspace("sessions")?;
    /// let tomorrow = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    /// sessions.put_until("7", "Ada", tomorrow)?;
    /// sessions.put("8", "Bob")?;
    /// let (value, ends) = sessions.get_with_expiry("7")?.unwrap();
    /// assert_eq!((value, ends), (b"Ada".to_vec().into(), Some(tomorrow)));
    /// assert_eq!(sessions.get_with_expiry("8")?.unwrap().1, None);
    /// assert!(sessions.get_with_expiry("9")?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<(Value, Option<SystemTime>)>> {
        self.get_with_expiry_at(key.as_ref(), ReadPosition::Now)
    }

    pub(super) fn get_with_expiry_at(
        &self,
        key: &[u8],
        at: ReadPosition,
    ) -> Result<Option<(Value, Option<SystemTime>)>> {
        self.definition().alive()?;
        let key = format::tree_key(&self.definition().prefix, key);
        let engine = &self.shared().engine;
        let found = engine.get_with_expiry(&key, self.definition(), at)?;
        Ok(found.map(|(value, ends_ms)| (Value::new(value), time_of(ends_ms))))
    }

    /// Returns the time at which a key loses its value. Returns `None` if the key has no value or
    /// keeps it; see [`Keyspace::get_with_expiry`].
    ///
    /// # Errors
    /// The same errors as [`Keyspace::get`].
    pub fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<SystemTime>> {
        let found = self.get_with_expiry(key)?;
        Ok(found.and_then(|(_, ends)| ends))
    }

    /// Atomically sets the time at which a key loses its value, earlier or later than before.
    /// Returns `false` if the key has no value. A time that has passed deletes the key.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// use std::time::{Duration, SystemTime};
    /// let sessions = db.keyspace("sessions")?;
    /// let tomorrow = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    /// assert!(!sessions.expire_at("7", tomorrow)?, "there is no such session");
    /// sessions.put("7", "Ada")?;
    /// assert!(sessions.expire_at("7", tomorrow)?);
    /// assert_eq!(sessions.expires_at("7")?, Some(tomorrow));
    /// assert!(sessions.persist("7")?);
    /// assert_eq!(sessions.expires_at("7")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`] and [`Keyspace::put`].
    pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        self.write_again(key.as_ref(), Some(expiry_ms(time)))
    }

    /// Atomically lets a key keep its value for good. Returns `false` if the key has no value, or
    /// would have kept it anyway.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`] and [`Keyspace::put`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.write_again(key.as_ref(), None)
    }

    /// Writes a key's value again, with another expiry time or with none.
    fn write_again(&self, key: &[u8], expires_ms: Option<u64>) -> Result<bool> {
        let (shared, definition) = (self.shared(), self.definition());
        let engine = &shared.engine;
        let name = format::tree_key(&definition.prefix, checked_key_of(definition, key)?);
        let read = || engine.get_with_expiry(&name, definition, ReadPosition::Newest);
        loop {
            shared.healthy()?;
            definition.alive()?;
            let Some((value, ends_ms)) = read()? else {
                return Ok(false);
            };
            if expires_ms.is_none() && ends_ms == 0 {
                return Ok(false);
            }
            let mut commit = CommitRecord::default();
            let value_written = checked_value(&value)?;
            let expires = expires_ms.unwrap_or(0);
            commit.add_only(&definition.prefix, key, MessageKind::Put, expires, value_written);
            let is_as_before = || {
                let found = read()?;
                let (found, found_ms) = found.map_or((None, 0), |(found, ms)| (Some(found), ms));
                Ok(
                    match found.as_deref() == Some(&value[..]) && found_ms == ends_ms {
                        true => ConditionVerdict::Go,
                        false => ConditionVerdict::Stop,
                    },
                )
            };
            let condition = CommitPreconditions::of_its_keys(&is_as_before);
            let done = engine.commit_if(&commit, self.owner(), engine.durability, Some(&condition))?;
            if done.is_some() {
                return Ok(true);
            }
        }
    }
}
