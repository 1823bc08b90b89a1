//! Settings of CONFIG that only Redis has. They have no effect here: a client may set them, and
//! reads back what it has set.

use crate::error::{CommandError, CommandResult};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The settings with their defaults in Redis 7.2. A default that is a number, a memory size or a
/// word of a choice determines which values are valid.
#[rustfmt::skip]
static DEFAULTS: &[(&str, &str)] = &[
    ("active-defrag-cycle-max", "25"), ("active-defrag-cycle-min", "1"), ("active-defrag-ignore-bytes", "104857600"),
    ("active-defrag-max-scan-fields", "1000"), ("active-defrag-threshold-lower", "10"), ("active-defrag-threshold-upper", "100"),
    ("active-expire-effort", "1"), ("activedefrag", "no"), ("activerehashing", "yes"), ("aof-load-truncated", "yes"),
    ("aof-rewrite-incremental-fsync", "yes"), ("aof-timestamp-enabled", "no"), ("aof-use-rdb-preamble", "yes"),
    ("auto-aof-rewrite-min-size", "67108864"), ("auto-aof-rewrite-percentage", "100"), ("client-query-buffer-limit", "1073741824"),
    ("cluster-allow-reads-when-down", "no"), ("cluster-node-timeout", "15000"), ("dynamic-hz", "yes"),
    ("hash-max-listpack-entries", "512"), ("hash-max-listpack-value", "64"), ("hash-max-ziplist-entries", "512"),
    ("hash-max-ziplist-value", "64"), ("hll-sparse-max-bytes", "3000"), ("hz", "10"), ("io-threads-do-reads", "no"),
    ("jemalloc-bg-thread", "yes"), ("latency-tracking", "yes"), ("lazyfree-lazy-eviction", "no"), ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"), ("lazyfree-lazy-user-del", "no"), ("lazyfree-lazy-user-flush", "no"), ("lfu-decay-time", "1"),
    ("lfu-log-factor", "10"), ("list-compress-depth", "0"), ("list-max-listpack-size", "-2"), ("list-max-ziplist-size", "-2"),
    ("maxmemory-eviction-tenacity", "10"), ("maxmemory-samples", "5"), ("min-replicas-max-lag", "10"), ("min-replicas-to-write", "0"),
    ("min-slaves-max-lag", "10"), ("min-slaves-to-write", "0"), ("no-appendfsync-on-rewrite", "no"),
    ("rdb-del-sync-files", "no"), ("rdb-save-incremental-fsync", "yes"), ("rdbchecksum", "yes"), ("rdbcompression", "yes"),
    ("repl-backlog-size", "1048576"), ("repl-backlog-ttl", "3600"), ("repl-disable-tcp-nodelay", "no"), ("repl-diskless-sync", "yes"),
    ("repl-diskless-sync-delay", "5"), ("repl-ping-replica-period", "10"), ("repl-timeout", "60"), ("replica-announced", "yes"),
    ("replica-ignore-maxmemory", "yes"), ("replica-lazy-flush", "no"), ("replica-priority", "100"), ("replica-read-only", "yes"),
    ("replica-serve-stale-data", "yes"), ("set-max-intset-entries", "512"), ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"), ("stop-writes-on-bgsave-error", "yes"), ("stream-node-max-bytes", "4096"),
    ("stream-node-max-entries", "100"), ("tracking-table-max-keys", "1000000"), ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"), ("zset-max-ziplist-entries", "128"), ("zset-max-ziplist-value", "64"),
];

/// The values that clients have set.
#[derive(Debug, Default)]
pub(crate) struct ForeignSettings(Mutex<BTreeMap<&'static str, String>>);

/// Returns the setting with this name in lower case.
pub(super) fn find(name: &[u8]) -> Option<&'static str> {
    let found = DEFAULTS.iter().find(|(known, _)| known.as_bytes() == name);
    found.map(|(known, _)| *known)
}

/// Returns the names of all settings.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    DEFAULTS.iter().map(|(name, _)| *name)
}

impl ForeignSettings {
    /// Returns the value of a setting.
    pub(super) fn get(&self, name: &'static str) -> String {
        if let Some(set) = self.0.lock().get(name) {
            return set.clone();
        }
        let default = DEFAULTS.iter().find(|(known, _)| *known == name);
        default.map_or_else(String::new, |(_, value)| (*value).to_owned())
    }

    /// Sets a setting, whose value must have the form of the default.
    pub(super) fn set(&self, name: &'static str, value: &[u8]) -> CommandResult {
        let default = DEFAULTS.iter().find(|(known, _)| *known == name);
        let takes_numbers = default.is_some_and(|(_, default)| default.parse::<i64>().is_ok());
        let value = match (takes_numbers, value.to_ascii_lowercase().as_slice()) {
            (true, [b'-', digits @ ..]) => format!("-{}", super::limits::memory(digits)?),
            (true, digits) => super::limits::memory(digits)?.to_string(),
            (false, b"yes") => "yes".to_owned(),
            (false, b"no") => "no".to_owned(),
            (false, _) => return Err(CommandError::say("argument must be 'yes' or 'no'")),
        };
        self.0.lock().insert(name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_keeps_values_of_its_own_form_only() {
        let settings = ForeignSettings::default();
        for (name, value, kept) in [
            ("hz", "20", Some("20")),
            ("hz", "many", None),
            ("hz", "yes", None),
            ("list-max-listpack-size", "-5", Some("-5")),
            ("list-max-listpack-size", "--5", None),
            ("repl-backlog-size", "1mb", Some("1048576")),
            ("activedefrag", "YES", Some("yes")),
            ("activedefrag", "1", None),
        ] {
            let before = settings.get(name);
            let result = settings.set(name, value.as_bytes());
            assert_eq!(result.is_ok(), kept.is_some(), "{name} {value}");
            assert_eq!(settings.get(name), kept.unwrap_or(&before));
        }
        assert_eq!((find(b"hz"), find(b"nosuch")), (Some("hz"), None));
        for (name, default) in DEFAULTS {
            assert!(settings.set(name, default.as_bytes()).is_ok(), "{name}");
        }
    }
}
