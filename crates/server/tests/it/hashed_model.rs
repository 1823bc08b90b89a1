//! Sends the same random commands of several clients to a server with hashed keys and to one with
//! ordered keys. The replies must be equal, except for the order of keys.
//!
//! `ALLUVIUM_HASHED_COMMANDS` sets the number of commands, and `ALLUVIUM_HASHED_SEED` the seed.
//! During the test, records are flushed and merged, and both servers are restarted.

use crate::client::{Client, options, sorted};
use crate::differential::{SHAPES, compared, fill, is_of_its_moment, is_unordered};
use alluvium::{Db, Options};
use alluvium_server::{KeyLayout, Server, ServerOptions};
use std::collections::BTreeSet;

const CLIENTS: usize = 4;

/// Additional commands, besides those on the keys of one database.
const OTHERS: &[&str] = &[
    "SELECT 0",
    "SELECT 1",
    "SELECT 2",
    "MOVE $any 1",
    "COPY $any $any DB 2 REPLACE",
    "SWAPDB 0 1",
    "SORT L BY S* ALPHA GET S* GET #",
    "SORT T ALPHA STORE L",
    "GETDEL S",
    "MGET S S N L H",
    "SET S $value GET",
    "DBSIZE",
    "KEYS *",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 TYPE string",
    "SCAN 0 COUNT 1000 MATCH s*",
    "RANDOMKEY",
];

/// A server with a store that can be reopened.
struct Opened {
    place: tempfile::TempDir,
    keys: KeyLayout,
    running: Option<(Db, Server)>,
}

impl Opened {
    fn new(keys: KeyLayout) -> Opened {
        let place = tempfile::tempdir().unwrap();
        let mut opened = Opened {
            place,
            keys,
            running: None,
        };
        opened.open();
        opened
    }

    fn open(&mut self) {
        if let Some((db, server)) = self.running.take() {
            server.stop();
            server.join().unwrap();
            drop(server);
            db.close().unwrap();
        }
        let place = self.place.path().join("store");
        let db = Options::new().memory(64 << 20).open(place).unwrap();
        let keys = self.keys;
        let server = Server::start(&db, ServerOptions { keys, ..options() }).unwrap();
        // From now on, the layout is read from the store.
        self.keys = KeyLayout::AsStored;
        self.running = Some((db, server));
    }

    fn db(&self) -> &Db {
        &self.running.as_ref().unwrap().0
    }

    fn client(&self) -> Client {
        Client::connect(self.running.as_ref().unwrap().1.redis_addr().unwrap())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Multi,
    Begun,
}

/// A client of both servers.
struct Both {
    hashed: Client,
    ordered: Client,
    state: State,
}

impl Both {
    fn connect(hashed: &Opened, ordered: &Opened) -> Both {
        Both {
            hashed: hashed.client(),
            ordered: ordered.client(),
            state: State::Plain,
        }
    }

    /// Returns the next command.
    fn command(&self, random: &mut fastrand::Rng) -> String {
        let shape = match (self.state, random.u8(..60)) {
            (State::Plain, 0) => "MULTI",
            (State::Plain, 1) => "BEGIN",
            (State::Plain, 2) => "WATCH $any $any",
            (State::Plain | State::Multi, 3) => ["FLUSHDB", "FLUSHALL"][usize::from(random.u8(..4) == 0)],
            (State::Multi, 4..14) => "EXEC",
            (State::Multi, 14) => "DISCARD",
            (State::Begun, 4..10) => "COMMIT",
            (State::Begun, 10) => "ABORT",
            (_, 15..30) => OTHERS[random.usize(..OTHERS.len())],
            _ => SHAPES[random.usize(..SHAPES.len())],
        };
        fill(shape, random)
    }

    /// Returns whether the replies to a command can be compared.
    fn is_comparable(&self, command: &str) -> bool {
        let of_its_moment = is_of_its_moment(command) || is_unordered(command);
        let is_brief = command.ends_with(" PX 3");
        match self.state {
            _ if is_brief => false,
            State::Plain => true,
            // The replies arrive as part of EXEC's.
            State::Multi => !of_its_moment,
            // In an ordered store, the read set of a partial iteration covers only part of the
            // keys.
            State::Begun => !command.starts_with("KEYS [") && !command.contains(" MATCH "),
        }
    }

    fn ask(&mut self, command: &str) {
        let (hashed, ordered) = (self.hashed.ask(command), self.ordered.ask(command));
        let is_error = ordered.starts_with('-');
        assert_eq!(compared(command, hashed), compared(command, ordered), "{command}");
        match command {
            "MULTI" if self.state == State::Plain => self.state = State::Multi,
            "BEGIN" if self.state == State::Plain && !is_error => self.state = State::Begun,
            "EXEC" | "DISCARD" if self.state == State::Multi => self.state = State::Plain,
            "COMMIT" | "ABORT" if self.state == State::Begun => self.state = State::Plain,
            _ => {}
        }
    }
}

/// Returns all keys from SCAN, page by page.
pub(crate) fn scanned(client: &mut Client, count: usize, mut between: impl FnMut()) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.ask(&format!("SCAN {cursor} COUNT {count}"));
        let (next, names) = reply[1..reply.len() - 1].split_once(' ').expect("two parts");
        found.extend(sorted(names));
        cursor = next.trim_matches('"').to_owned();
        if cursor == "0" {
            return found;
        }
        between();
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn random_commands_to_hashed_and_ordered_keys_have_equal_replies() {
    let seed = number("ALLUVIUM_HASHED_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut hashed, mut ordered) = (Opened::new(KeyLayout::Hashed), Opened::new(KeyLayout::AsStored));
    let connect = |hashed: &Opened, ordered: &Opened| -> Vec<Both> {
        (0..CLIENTS).map(|_| Both::connect(hashed, ordered)).collect()
    };
    let mut clients = connect(&hashed, &ordered);
    for step in 0..number("ALLUVIUM_HASHED_COMMANDS", 6_000) {
        let client = &mut clients[random.usize(..CLIENTS)];
        let command = client.command(&mut random);
        if client.is_comparable(&command) {
            client.ask(&command);
        }
        let has_begun = clients.iter().any(|client| client.state == State::Begun);
        match random.u16(..800) {
            // Conflict detection depends on what is in memory, so do not move records while a
            // transaction is open.
            0..8 if !has_begun => hashed.db().checkpoint().unwrap(),
            8 if !has_begun => hashed.db().compact().unwrap(),
            9..11 => {
                hashed.open();
                ordered.open();
                clients = connect(&hashed, &ordered);
            }
            11..20 => {
                let (mut one, mut other) = (hashed.client(), ordered.client());
                let found: BTreeSet<String> = scanned(&mut one, 3, || {}).into_iter().collect();
                let expected: BTreeSet<String> = sorted(&other.ask("KEYS *")).into_iter().collect();
                assert_eq!(found, expected, "step {step}, seed {seed}");
            }
            _ => {}
        }
    }
    for (db, check) in [(hashed.db(), "hashed"), (ordered.db(), "ordered")] {
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{check}");
    }
}
