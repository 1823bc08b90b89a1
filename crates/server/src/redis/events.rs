//! The events that commands report about the keys that they change. They have the names and classes
//! of Redis' keyspace notifications.

use crate::store::{EventClass, KeyEvent};

/// Returns the event of the changes that a command makes. Commands that cause several kinds of
/// events choose them while they run.
pub(super) fn of_command(name: &'static str, group: &str) -> KeyEvent {
    let class = match group {
        "string" | "bitmap" => EventClass::Text,
        "list" => EventClass::List,
        "set" => EventClass::Set,
        "hash" => EventClass::Hash,
        "sorted-set" => EventClass::SortedSet,
        _ => EventClass::Generic,
    };
    let event = match name {
        "set" | "setnx" | "setex" | "psetex" | "mset" | "msetnx" | "getset" | "bitop" => "set",
        "bitfield" => "setbit",
        "incr" | "decr" | "incrby" | "decrby" => "incrby",
        "lpushx" => "lpush",
        "rpushx" => "rpush",
        "hmset" | "hsetnx" => "hset",
        "zincrby" => "zincr",
        "copy" => return KeyEvent::COPY_TO,
        "move" => return KeyEvent::MOVE_TO,
        "rename" | "renamenx" => return KeyEvent::RENAME_TO,
        "sort" => return KeyEvent::new("sortstore", EventClass::List),
        "flushall" | "flushdb" | "swapdb" => return KeyEvent::INTERNAL,
        other => other,
    };
    KeyEvent::new(event, class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use crate::redis::{local_execution, table};
    use crate::store::{AwaitedKey, ChannelMessage, CommitListener, KeyChange, KeyKind, ServerStore};
    use alluvium::Options;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Default)]
    struct RecordingListener(Mutex<Vec<String>>);

    impl CommitListener for RecordingListener {
        fn changed(&self, change: &KeyChange) -> Option<AwaitedKey> {
            let key = String::from_utf8(change.key.to_vec()).unwrap();
            let kind = match change.kind {
                KeyKind::Absent => "-".to_owned(),
                KeyKind::Text => "Text".to_owned(),
                KeyKind::Collection(kind) => format!("{kind:?}"),
            };
            let event = change.event.name;
            self.0
                .lock()
                .push(format!("{} {key} {kind} {event}", change.database));
            None
        }

        fn serve(&self, _ready: Vec<AwaitedKey>) {}

        fn awaited(&self, _database: u8) -> Vec<Box<[u8]>> {
            Vec::new()
        }

        fn is_awaited_before(&self, _place: &AwaitedKey, _number: u64) -> bool {
            false
        }

        fn receivers(&self, _message: &ChannelMessage) -> usize {
            0
        }

        fn publish(&self, _message: &ChannelMessage) {}
    }

    #[test]
    fn a_commit_reports_each_change_once_and_only_to_those_who_listen() {
        for layout in [KeyLayout::AsStored, KeyLayout::Hashed] {
            let place = tempfile::tempdir().unwrap();
            let db = Options::new()
                .memory(64 << 20)
                .open(place.path().join("store"))
                .unwrap();
            let store = ServerStore::open(&db, layout).unwrap();
            let heard = Arc::new(RecordingListener::default());
            store.locks.set_listener(Arc::clone(&heard) as _);
            let run = |lines: &str| {
                let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
                let commands: Vec<Vec<Vec<u8>>> = lines.split("; ").map(words).collect();
                local_execution::execute(&store, 0, &commands, |_| Ok(())).unwrap();
                std::mem::take(&mut *heard.0.lock())
            };
            assert_eq!(run("SET a 1"), [""; 0]);
            store.locks.begin_to_listen();
            for (lines, expected) in [
                (
                    "SET a 1; SET a 2 EX 100; GET a",
                    "0 a Text set, 0 a Text set, 0 a Text expire",
                ),
                (
                    "INCR a; PERSIST a; PERSIST a",
                    "0 a Text incrby, 0 a Text persist",
                ),
                (
                    "RENAME a b; DEL a b; DEL b",
                    "0 a - rename_from, 0 b Text rename_to, 0 b - del",
                ),
                ("RPUSH l x y; LPOP l", "0 l List rpush, 0 l List lpop"),
                ("LMOVE l m LEFT RIGHT", "0 l List lpop, 0 l - del, 0 m List rpush"),
                ("RPUSHX l z; SET m 1", "0 m Text set"),
                (
                    "SADD s 1; SMOVE s t 1",
                    "0 s Set sadd, 0 s Set srem, 0 s - del, 0 t Set sadd",
                ),
                (
                    "SUNIONSTORE t t; SINTERSTORE t t none",
                    "0 t Set sunionstore, 0 t - del",
                ),
                (
                    "ZADD z 1 a 2 b; ZPOPMAX z",
                    "0 z SortedSet zadd, 0 z SortedSet zpopmax",
                ),
                ("HSET h f 1; HDEL h f", "0 h Hash hset, 0 h Hash hdel, 0 h - del"),
                ("LPUSH n 2; SORT n STORE m", "0 n List lpush, 0 m List sortstore"),
                ("EXPIRE n 0; COPY m c", "0 n - del, 0 c List copy_to"),
                (
                    "GETEX v; SETRANGE v 0 a; SETBIT v 0 1",
                    "0 v Text setrange, 0 v Text setbit",
                ),
            ] {
                let heard = run(lines).join(", ");
                assert_eq!(heard, expected, "{lines}");
            }
            store.locks.end_to_listen();
            assert_eq!(run("SET a 1"), [""; 0]);
        }
    }

    #[test]
    fn every_command_that_writes_has_the_event_of_redis() {
        let event = |name: &'static str| {
            let command = table::all().find(|command| command.name == name).unwrap();
            (command.event.name, command.event.class)
        };
        assert_eq!(event("setex"), ("set", EventClass::Text));
        assert_eq!(event("decrby"), ("incrby", EventClass::Text));
        assert_eq!(event("zunionstore"), ("zunionstore", EventClass::SortedSet));
        assert_eq!(event("sort"), ("sortstore", EventClass::List));
        let internal = |command: &&table::CommandSpec| command.event == KeyEvent::INTERNAL;
        let internal: Vec<&str> = table::all()
            .filter(internal)
            .map(|command| command.name)
            .collect();
        assert_eq!(internal, ["swapdb", "flushall", "flushdb"]);
    }
}
