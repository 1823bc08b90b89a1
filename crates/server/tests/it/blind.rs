//! A SET that need not read the old value does not read it, and a SET over a collection still
//! deletes the collection's elements.

use crate::client::{Client, Fixture, options, request};
use alluvium::{Db, Options};
use alluvium_server::Server;

/// Returns the number of keys in the store whose second byte is `kind`.
fn count(db: &Db, kind: u8) -> usize {
    let data = db.keyspace("redis").unwrap();
    let of_a_kind = |(key, _): &(Vec<u8>, alluvium::Value)| key[0] < 16 && key[1] == kind;
    data.iter().map(Result::unwrap).filter(of_a_kind).count()
}

/// Returns the number of keys looked up so far. Excludes scans, because the background thread for
/// expired keys scans from time to time.
fn lookups(db: &Db) -> u64 {
    let operations = db.stats().operations;
    operations.gets + operations.multi_get_keys
}

/// Stops the server, applies `change` to the store, and starts a new server on it.
fn again(fixture: Fixture, change: impl FnOnce(&Db)) -> Fixture {
    let Fixture { server, db, place } = fixture;
    server.stop();
    server.join().unwrap();
    drop(server);
    change(&db);
    db.close().unwrap();
    let db = Options::new()
        .memory(64 << 20)
        .open(place.path().join("store"))
        .unwrap();
    let server = Server::start(&db, options()).unwrap();
    Fixture { server, db, place }
}

fn set_many(client: &mut Client, count: usize) {
    let sets: Vec<u8> = (0..count)
        .flat_map(|index| request(&[b"SET", format!("key {index}").as_bytes(), b"value"]))
        .collect();
    client.send_bytes(&sets);
    for _ in 0..count {
        assert_eq!(client.reply(), "OK");
    }
}

#[test]
fn sets_read_nothing_though_there_are_collections() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.ask("HSET hash f v");
    client.ask("RPUSH list e");
    let before = lookups(&fixture.db);
    set_many(&mut client, 5_000);
    assert_eq!(lookups(&fixture.db), before);
    let fixture = again(fixture, |_| {});
    let before = lookups(&fixture.db);
    set_many(&mut fixture.client(), 5_000);
    assert_eq!(lookups(&fixture.db), before, "after a restart");
}

/// Creates collections of all kinds. Some are renamed afterwards, one has expired, and one is in
/// another database.
fn make_collections(client: &mut Client) {
    client.script(
        r#"
        HSET a f v => :1
        RPUSH b e => :1
        SADD c m => :1
        ZADD d 1 m => :1
        RPUSH old x y => :2
        RENAME old e => OK
        COPY e f => :1
        COPY e g DB 5 => :1
        SADD h m => :1
        EXPIRE h 1000 => :1
        PERSIST h => :1
        SUNIONSTORE i c h => :1
        SADD j m => :1
        PEXPIRE j 1 => :1
        "#,
    );
}

/// Overwrites all of these collections with strings. Once expired collections have been deleted, no
/// element and no collection's record may remain.
fn overwrite(fixture: &Fixture, client: &mut Client) {
    client.script("MSET a 1 b 1 c 1 d 1 e 1 f 1 => OK\nSET h 1 EX 1000 => OK\nSET i 1 => OK\nSET j 1 => OK");
    client.script("SELECT 5 => OK\nSET g 1 => OK\nSELECT 0 => OK");
    let mut turns = 0;
    while count(&fixture.db, b'e') > 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        turns += 1;
        assert!(turns < 1_000, "{} elements are left", count(&fixture.db, b'e'));
    }
    assert_eq!(count(&fixture.db, b'c'), 0);
    client.script("MGET a b h j => [\"1\" \"1\" \"1\" \"1\"]");
}

#[test]
fn a_set_over_a_collection_leaves_no_elements() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    make_collections(&mut client);
    overwrite(&fixture, &mut client);
    make_collections_anew(&mut client);
    let fixture = again(fixture, |_| {});
    overwrite(&fixture, &mut fixture.client());
}

fn make_collections_anew(client: &mut Client) {
    client.script("FLUSHALL => OK");
    make_collections(client);
}

#[test]
fn a_store_of_the_first_version_is_brought_up_to_date() {
    let fixture = Fixture::new();
    make_collections(&mut fixture.client());
    // Remove the records that format version 1 did not have.
    let fixture = again(fixture, |db| {
        let data = db.keyspace("redis").unwrap();
        for database in 0..16 {
            data.delete_range([database, b'c'], Some(&[database, b'd']))
                .unwrap();
        }
        data.delete(&[254, b'v'][..]).unwrap();
    });
    assert!(count(&fixture.db, b'c') >= 9);
    overwrite(&fixture, &mut fixture.client());
}

#[test]
fn a_store_of_a_later_version_is_refused_by_name() {
    let fixture = Fixture::new();
    let data = fixture.db.keyspace("redis").unwrap();
    data.put(&[254, b'v'][..], 1_000u64.to_le_bytes()).unwrap();
    let error = Server::start(&fixture.db, options()).unwrap_err();
    assert!(error.to_string().contains("format 1000"), "{error}");
}

#[test]
fn sets_and_collections_of_the_same_keys_leave_nothing_behind() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let mut client = fixture.client();
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..60 {
                    let mut bytes = Vec::new();
                    for _ in 0..50 {
                        let key = format!("k{}", random.u32(..8));
                        let command = match random.u32(..6) {
                            0 => format!("SADD {key} a b"),
                            1 => format!("DEL {key}"),
                            2 => format!("RENAME {key} k{}", random.u32(..8)),
                            3 => format!("MSET {key} v k{} v", random.u32(..8)),
                            _ => format!("SET {key} v"),
                        };
                        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                        bytes.extend_from_slice(&request(&words));
                    }
                    client.send_bytes(&bytes);
                    (0..50).for_each(|_| drop(client.reply()));
                }
            });
        }
    });
    let mut client = fixture.client();
    client.script("MSET k0 v k1 v k2 v k3 v k4 v k5 v k6 v k7 v => OK");
    assert_eq!(count(&fixture.db, b'e'), 0);
    assert_eq!(count(&fixture.db, b'c'), 0);
    client.script("FLUSHALL => OK\nSADD k0 a => :1\nSET k0 v => OK");
    assert_eq!(count(&fixture.db, b'e'), 0);
}
