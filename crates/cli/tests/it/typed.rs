//! Redis keys, read and written from the command line, with and without a server.

use crate::serve::{Served, asked};
use crate::{Place, lines};

const FILL: &str = "SET s hello\r\nSET t text PX 90000000\r\nRPUSH l a b c\r\nSADD m x\r\nHSET h f 1 g 2\r\nZADD z 1.5 one 2 two\r\nEXPIRE h 9000\r\n";
const FILLED: &str = "+OK\r\n+OK\r\n:3\r\n:1\r\n:2\r\n:2\r\n:1\r\n";

/// Checks reads, whose output must be the same with and without a server.
fn reads(place: &Place) {
    let get = |arguments: &[&str]| place.done([&["get", "--redis-db", "0"][..], arguments].concat());
    assert_eq!(get(&["s"]).text(), "hello");
    assert_eq!(
        lines(&get(&["l"]).text()),
        ["l\tlist of 3", "  0\ta", "  1\tb", "  2\tc"]
    );
    assert_eq!(lines(&get(&["m"]).text()), ["m\tset of 1", "  x"]);
    assert_eq!(
        lines(&get(&["z"]).text()),
        ["z\tzset of 2", "  one\t1.5", "  two\t2"]
    );
    let hash = get(&["h"]).text();
    assert!(hash.starts_with("h\thash of 2, expires in "), "{hash}");
    let json = get(&["--json", "z"]).json();
    assert_eq!(json["type"], "zset");
    assert_eq!(json["value"], serde_json::json!([["one", 1.5], ["two", 2]]));
    let json = get(&["--json", "t"]).json();
    assert!(
        json["value"] == "text" && json["expires_at_ms"].as_u64().is_some(),
        "{json}"
    );
    place
        .run(["get", "--redis-db", "0", "s", "none"])
        .ended(1)
        .complained("there is no key \"none\" in database 0");
    place.run(["get", "--redis-db", "16", "s"]).ended(2);
    let keys = place
        .done(["scan", "--redis-db", "0", "--keys-only", "--json"])
        .text();
    let names: Vec<String> = lines(&keys)
        .iter()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["key"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(names, ["h", "l", "m", "s", "t", "z"]);
    let some = place
        .done(["scan", "--redis-db", "0", "--from", "m", "--to", "t", "--reverse"])
        .text();
    assert_eq!(lines(&some), ["s\tstring\thello", "m\tset of 1", "  x"]);
    place
        .run(["export", "-", "--redis-db", "0", "--format", "csv"])
        .ended(3)
        .complained("--format redis or jsonl");
}

#[test]
fn keys_of_every_type_are_read_with_a_server_and_without() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    asked(&served.redis, FILL, FILLED);
    reads(&place);
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    reads(&place);
}

#[test]
fn keys_are_written_and_deleted_as_clients_would() {
    let place = Place::new();
    for is_served in [false, true] {
        let served = is_served.then(|| Served::new(&place, &[]));
        place.done(["put", "--redis-db", "1", "k", "v"]);
        place.done(["put", "--redis-db", "1", "t", "v", "--expires-in", "30d"]);
        place
            .run(["put", "--redis-db", "1", "k", "w", "--if-absent"])
            .ended(1)
            .complained("has a value already");
        assert_eq!(place.done(["get", "--redis-db", "1", "k"]).text(), "v");
        let text = place.done(["get", "--redis-db", "1", "--json", "t"]).json();
        assert!(text["expires_at_ms"].as_u64().is_some());
        if let Some(served) = &served {
            asked(
                &served.redis,
                "SELECT 1\r\nGET k\r\nLPUSH l a\r\n",
                "+OK\r\n$1\r\nv\r\n:1\r\n",
            );
            // Writes from the command line invalidate watches of clients.
            let mut client = std::net::TcpStream::connect(&served.redis).unwrap();
            let mut ask = |text: &str, reply: &str| {
                use std::io::{Read, Write};
                client.write_all(text.as_bytes()).unwrap();
                let mut bytes = vec![0; reply.len()];
                client.read_exact(&mut bytes).unwrap();
                assert_eq!(String::from_utf8_lossy(&bytes), reply);
            };
            ask("SELECT 1\r\nWATCH k\r\n", "+OK\r\n+OK\r\n");
            place.done(["put", "--redis-db", "1", "k", "new"]);
            ask("MULTI\r\nSET k mine\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*-1\r\n");
        }
        place
            .run(["delete", "--redis-db", "1", "k", "none"])
            .ended(1)
            .complained("\"none\" in database 1");
        place.done(["delete", "--redis-db", "1", "--prefix", "", "--yes"]);
        assert_eq!(place.done(["scan", "--redis-db", "1"]).text(), "");
        if let Some(served) = served {
            asked(&served.redis, "SELECT 1\r\nDBSIZE\r\n", "+OK\r\n:0\r\n");
            assert_eq!(served.ended(libc::SIGTERM), Some(0));
        }
    }
}

#[test]
fn an_export_of_all_types_is_imported_again() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    asked(&served.redis, FILL, FILLED);
    let (one, two) = (place.path("one.redis"), place.path("two.redis"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    place.done(["export", one, "--redis-db", "0"]);
    // Imports into another database of the running server, and into a closed store.
    place.done(["import", one, "--redis-db", "5"]);
    place.done(["export", two, "--redis-db", "5"]);
    assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap());
    asked(
        &served.redis,
        "SELECT 5\r\nZRANGE z 0 -1\r\nLLEN l\r\nTYPE h\r\n",
        "+OK\r\n*2\r\n$3\r\none\r\n$3\r\ntwo\r\n:3\r\n+hash\r\n",
    );
    let other = place.path("other");
    let other = other.to_str().unwrap();
    place.done(["--db", other, "import", one, "--redis-db", "0"]);
    place.done(["--db", other, "export", two, "--redis-db", "0", "--yes"]);
    assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap());
    place.done(["--db", other, "check"]);
    // A second import gives the same result, because it replaces existing keys.
    place.done(["import", one, "--redis-db", "5"]);
    asked(&served.redis, "SELECT 5\r\nLLEN l\r\n", "+OK\r\n:3\r\n");
    let json = place
        .done(["export", "-", "--format", "jsonl", "--redis-db", "0"])
        .text();
    assert_eq!(json.lines().count(), 6);
    // Rows of other formats become strings.
    let rows = place.file("rows.csv", "key,value\nr1,a\nr2,b\n");
    place.done(["import", rows.to_str().unwrap(), "--redis-db", "6"]);
    asked(
        &served.redis,
        "SELECT 6\r\nMGET r1 r2\r\n",
        "+OK\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    );
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn a_command_that_is_refused_is_named_with_its_line_and_leaves_nothing_of_its_block() {
    let place = Place::new();
    let commands = place.file("bad.redis", "SET a 1\r\nLPUSH a x\r\n");
    let commands = commands.to_str().unwrap();
    place
        .run(["import", commands, "--redis-db", "0"])
        .ended(4)
        .complained("line 2")
        .complained("WRONGTYPE");
    assert_eq!(place.done(["scan", "--redis-db", "0"]).text(), "");
    let commands = place.file("worse.redis", "SET a 1\r\nSELECT 3\r\n");
    place
        .run(["import", commands.to_str().unwrap(), "--redis-db", "0"])
        .ended(4)
        .complained("--redis-db");
    let commands = place.file("other.redis", "CLIENT LIST\r\n");
    place
        .run(["import", commands.to_str().unwrap(), "--redis-db", "0"])
        .ended(4)
        .complained("needs a connection to a server");
}

#[test]
fn words_in_quotes_are_those_that_a_server_reads() {
    let place = Place::new();
    let typed = [
        "LPUSH one 'lorem ipsum'",
        r#"RPUSH dq "a b" "c\x41\n" plain"#,
        "SET q1 'a'",
        "SET q2 \"\"",
        "HSET h 'f 1' v\r",
        "  ",
    ];
    let file = place.file("in.redis", typed.join("\n"));
    let get = |database: &str| {
        let keys = ["dq", "h", "one", "q1", "q2"];
        let get = |key: &&str| place.done(["get", "--redis-db", database, "--json", key]).text();
        keys.iter().map(get).collect::<Vec<String>>()
    };
    place.done(["import", file.to_str().unwrap(), "--redis-db", "0"]);
    let wanted = [
        r#"{"key":"dq","type":"list","value":["a b","cA\n","plain"]}"#,
        r#"{"key":"h","type":"hash","value":[["f 1","v"]]}"#,
        r#"{"key":"one","type":"list","value":["lorem ipsum"]}"#,
        r#"{"key":"q1","type":"string","value":"a"}"#,
        r#"{"key":"q2","type":"string","value":""}"#,
    ];
    assert_eq!(get("0"), wanted.map(|line| format!("{line}\n")));
    // The server parses these lines the same way.
    let served = Served::new(&place, &[]);
    let typed = format!("SELECT 1\r\n{}\r\n", typed.join("\r\n"));
    asked(&served.redis, &typed, "+OK\r\n:1\r\n:3\r\n+OK\r\n+OK\r\n:1\r\n");
    assert_eq!(get("1"), get("0"));
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    // Raw commands are parsed the same way, and a line that is not a command is reported with its
    // number.
    let file = place.file("raw.redis", "SET 'a b' \"c\\n\"\nSET x 'y\nSET z 1\n");
    let rejects = place.path("rejects");
    let import = [
        "import",
        file.to_str().unwrap(),
        "--rejects",
        rejects.to_str().unwrap(),
    ];
    place.run(import).ended(4);
    let read = lines(&place.done(["scan"]).text()).join("|");
    assert_eq!(read, "a b\tc\\n|z\t1");
    let rejected = std::fs::read_to_string(&rejects).unwrap();
    assert!(rejected.contains("SET x 'y\n"), "{rejected}");
    place
        .run(["import", file.to_str().unwrap(), "--redis-db", "2", "--restart"])
        .ended(4)
        .complained("line 2: a quote is not closed");
}

#[test]
fn commands_of_a_file_change_the_chosen_database_alone() {
    let place = Place::new();
    let import = |text: &str, database: &str| {
        let file = place.file("in.redis", text);
        place.run([
            "import",
            file.to_str().unwrap(),
            "--redis-db",
            database,
            "--restart",
        ])
    };
    import("SET s here\n", "0").ended(0);
    import("SET s there\n", "7").ended(0);
    for command in [
        "FLUSHALL",
        "flushall async",
        "MOVE s 3",
        "SWAPDB 0 7",
        "COPY s t DB 3",
        "COPY s t REPLACE db 0",
        "COPY s t DB 7 DB 0",
    ] {
        import(&format!("SET u 1\n{command}\n"), "7")
            .ended(4)
            .complained("line 2")
            .complained("other databases than 7");
    }
    for (database, value) in [("0", "here"), ("7", "there")] {
        assert_eq!(place.done(["get", "--redis-db", database, "s"]).text(), value);
        assert_eq!(
            place
                .done(["scan", "--redis-db", database, "--keys-only"])
                .text()
                .lines()
                .count(),
            1
        );
    }
    assert_eq!(place.done(["scan", "--redis-db", "3"]).text(), "");
    import("COPY s t DB 7\n", "7").ended(0);
    assert_eq!(place.done(["get", "--redis-db", "7", "t"]).text(), "there");
    import("FLUSHDB\n", "7").ended(0);
    assert_eq!(place.done(["scan", "--redis-db", "7"]).text(), "");
    assert_eq!(place.done(["get", "--redis-db", "0", "s"]).text(), "here");
}
