//! Management of an open store, both by this process and through the socket.

use crate::client::Fixture;
use alluvium_server::control::format::{frame, read};
use alluvium_server::control::{
    CheckExtent, Error, FailureKind, KeyChange, ManagementClient, ManagementReply, ManagementRequest,
    ManagementServer, ManagementSession, RedisRequest, ScanContent, ScanOrder, ScanRequest,
};
use std::io::ErrorKind;

fn scan(keyspace: &str) -> ScanRequest {
    ScanRequest {
        keyspace: keyspace.to_owned(),
        from: Vec::new(),
        to: None,
        direction: ScanOrder::Forward,
        limit: None,
        what: ScanContent::Pairs,
    }
}

fn change(keyspace: &str, key: &[u8]) -> KeyChange {
    KeyChange {
        keyspace: keyspace.to_owned(),
        key: key.to_vec(),
        value: Some(b"value".to_vec()),
        expires_in_ms: None,
    }
}

/// Returns all replies to a request.
fn asked(client: &mut ManagementClient, request: &ManagementRequest) -> Vec<ManagementReply> {
    let mut replies = Vec::new();
    let answered = client.ask(request, &mut |reply| {
        replies.push(reply);
        Ok(())
    });
    answered.unwrap();
    replies
}

#[test]
fn two_managers_and_clients_work_on_one_store() {
    let fixture = Fixture::new();
    let directory = fixture.place.path().join("store");
    assert_eq!(
        ManagementClient::connect(&directory).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fixture.server.manage(&directory).unwrap();
    let (mut one, mut two) = (
        ManagementClient::connect(&directory).unwrap(),
        ManagementClient::connect(&directory).unwrap(),
    );
    assert_eq!(
        asked(&mut one, &ManagementRequest::EnsureKeyspace("rivers".to_owned())),
        [ManagementReply::Truth(true)]
    );
    one.tell(&ManagementRequest::BeginIngest("rivers".to_owned()))
        .unwrap();
    one.tell(&ManagementRequest::Ingest(vec![(b"a".to_vec(), b"1".to_vec())]))
        .unwrap();
    // Other connections must not see an operation begun on one connection.
    let refused = two.tell(&ManagementRequest::FinishIngest).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Told {
                kind: FailureKind::Usage,
                ..
            }
        ),
        "{refused}"
    );
    two.tell(&ManagementRequest::Write(vec![change("rivers", b"b")]))
        .unwrap();
    one.tell(&ManagementRequest::FinishIngest).unwrap();
    let pairs = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"value".to_vec())];
    assert_eq!(
        asked(&mut two, &ManagementRequest::Scan(scan("rivers"))),
        [ManagementReply::Pairs(pairs.to_vec())]
    );
    // A client that stops reading an answer loses only its own connection.
    let unheard = two.ask(&ManagementRequest::Scan(scan("rivers")), &mut |_| {
        Err(Error::Unheard)
    });
    assert!(matches!(unheard, Err(Error::Unheard)));
    assert!(matches!(
        two.tell(&ManagementRequest::Sync),
        Err(Error::Connection(_))
    ));
    one.tell(&ManagementRequest::Sync).unwrap();
    let missing = one.tell(&ManagementRequest::Scan(scan("none"))).unwrap_err();
    assert!(
        matches!(missing, Error::Store(alluvium::Error::NoSuchKeyspace { ref name }) if name == "none"),
        "{missing}"
    );
    let refused = one
        .tell(&ManagementRequest::Write(vec![change("redis", b"b")]))
        .unwrap_err();
    assert!(refused.to_string().contains("--redis-db"), "{refused}");
    let set = vec![b"SET".to_vec(), b"k".to_vec(), b"v".to_vec()];
    let executed = ManagementRequest::Redis(RedisRequest::Execute {
        database: 0,
        commands: vec![set],
        also: vec![change("rivers", b"c")],
    });
    assert_eq!(
        asked(&mut one, &executed),
        [ManagementReply::Values(vec![Some(b"+OK\r\n".to_vec())])]
    );
    assert_eq!(fixture.client().ask("GET k"), "\"v\"");
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert!(one.tell(&ManagementRequest::Sync).is_err());
    assert_eq!(
        ManagementClient::connect(&directory).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_refused_command_undoes_those_before_it_and_what_was_to_go_with_them() {
    let fixture = Fixture::new();
    let mut session = ManagementSession::new(&fixture.db);
    let words =
        |text: &str| -> Vec<Vec<u8>> { text.split(' ').map(|word| word.as_bytes().to_vec()).collect() };
    fixture.db.keyspace("rivers").unwrap();
    let request = ManagementRequest::Redis(RedisRequest::Execute {
        database: 0,
        commands: vec![words("SET a 1"), words("LPUSH a x"), words("SET b 1")],
        also: vec![change("rivers", b"c")],
    });
    let mut replies = Vec::new();
    session
        .answer(&request, &mut |reply| {
            replies.push(reply);
            Ok(())
        })
        .unwrap();
    let [ManagementReply::Values(values)] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert!(
        values.len() == 2 && values[1].as_ref().unwrap().starts_with(b"-WRONGTYPE"),
        "{values:?}"
    );
    assert!(fixture.client().ask("EXISTS a b") == ":0");
    assert!(fixture.db.keyspace("rivers").unwrap().get("c").unwrap().is_none());
}

/// Returns requests of every kind, except those that write whole stores.
fn seeds() -> Vec<ManagementRequest> {
    vec![
        ManagementRequest::Keyspaces,
        ManagementRequest::EnsureKeyspace("others".to_owned()),
        ManagementRequest::Get {
            keyspace: "rivers".to_owned(),
            keys: vec![b"Elbe".to_vec(), Vec::new()],
        },
        ManagementRequest::Write(vec![change("rivers", b"Oder"), change("rivers", b"Main")]),
        ManagementRequest::Scan(scan("rivers")),
        ManagementRequest::DeleteRange {
            keyspace: "rivers".to_owned(),
            from: b"a".to_vec(),
            to: Some(b"b".to_vec()),
        },
        ManagementRequest::BeginIngest("rivers".to_owned()),
        ManagementRequest::Ingest(vec![(b"x".to_vec(), Vec::new()), (b"y".to_vec(), Vec::new())]),
        ManagementRequest::FinishIngest,
        ManagementRequest::Run { group: 1, place: 0 },
        ManagementRequest::Check(CheckExtent::Structure),
        ManagementRequest::Redis(RedisRequest::Get {
            database: 0,
            keys: vec![b"z".to_vec()],
        }),
        ManagementRequest::Redis(RedisRequest::Scan {
            database: 0,
            scan: scan(""),
        }),
        ManagementRequest::Redis(RedisRequest::Execute {
            database: 0,
            commands: vec![vec![
                b"ZADD".to_vec(),
                b"z".to_vec(),
                b"3".to_vec(),
                b"c".to_vec(),
            ]],
            also: Vec::new(),
        }),
    ]
}

#[test]
fn no_request_is_a_panic() {
    let fixture = Fixture::new();
    let directory = fixture.place.path().join("store");
    let control = ManagementServer::start(&fixture.db, &directory).unwrap();
    fixture
        .db
        .keyspace("rivers")
        .unwrap()
        .put("Elbe", "1094 km")
        .unwrap();
    fixture.client().ask("ZADD z 1 a 2 b");
    let mut session = ManagementSession::new(&fixture.db);
    let seeds: Vec<Vec<u8>> = seeds().iter().map(|request| frame(request).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(25);
    let mut understood = 0;
    for _ in 0..4000 {
        let mut bytes = seeds[random.usize(..seeds.len())].clone();
        for _ in 0..random.usize(..4) {
            // Change only bytes after the length prefix, so that the message is parsed.
            let at = random.usize(4..bytes.len());
            bytes[at] = random.u8(..);
        }
        let Ok(Some(request)) = read::<ManagementRequest>(&mut &bytes[..]) else {
            continue;
        };
        // Skip requests that write whole stores, or outside the store.
        if matches!(
            request,
            ManagementRequest::Backup { .. }
                | ManagementRequest::BackupTiers { .. }
                | ManagementRequest::Compact
                | ManagementRequest::Check(CheckExtent::Everything)
        ) {
            continue;
        }
        understood += 1;
        let _ = session.answer(&request, &mut |_| Ok(()));
    }
    assert!(understood > 1000, "{understood}");
    control.stop();
    assert_eq!(fixture.db.check().unwrap(), Vec::<String>::new());
    assert_eq!(fixture.client().ask("PING"), "PONG");
}
