//! Every subcommand works on a store that a running server has open.

use crate::serve::{Served, asked};
use crate::{Place, Said, as_other_user};
use alluvium_server::control::{ManagementClient, ManagementReply, ManagementRequest};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

fn socket(place: &Place) -> PathBuf {
    place.path("store/manage.sock")
}

/// Runs a fixed sequence of commands and returns their results.
fn work(place: &Place) -> Vec<(Option<i32>, Vec<u8>)> {
    let bytes: Vec<u8> = (0..=255).collect();
    let rows: String = (0..3000)
        .map(|number| format!("{number:05},v{number}\n"))
        .collect();
    let rows = place.file("rows.csv", format!("key,value\n{rows}"));
    let rows = rows.to_str().unwrap();
    let mut said = vec![place.fed(["put", "bytes", "-"], &bytes).ended(0)];
    let mut run = |arguments: &[&str]| said.push(place.run(arguments));
    run(&["put", "Elbe", "1094 km"]);
    run(&["put", "--if-absent", "Elbe", "other"]);
    run(&["put", "--if-absent", "Oder", "854 km"]);
    run(&["put", "-k", "short", "gone", "x", "--expires-in", "30d"]);
    run(&["get", "Elbe"]);
    run(&["get", "bytes"]);
    run(&["get", "Elbe", "Oder", "none"]);
    run(&["get", "-k", "none", "a"]);
    run(&["get", "--json", "bytes"]);
    run(&[
        "keyspaces",
        "create",
        "events",
        "--compression",
        "zstd",
        "--merge-operator",
        "add",
    ]);
    run(&["keyspaces", "create", "events"]);
    run(&["keyspaces", "create", "others", "--merge-operator", "none"]);
    run(&["import", rows, "-k", "rows"]);
    run(&["keyspaces", "rename", "rows", "table"]);
    run(&["keyspaces", "--json"]);
    run(&["scan", "-k", "table", "--prefix", "0001"]);
    run(&["scan", "-k", "table", "--reverse", "-n", "3", "--keys-only"]);
    run(&["export", "-", "-k", "table", "--format", "binary"]);
    run(&["export", "-", "-k", "table", "--format", "csv", "--values-only"]);
    run(&["delete", "-k", "table", "00001", "00001x"]);
    run(&["delete", "-k", "table", "--prefix", "0002"]);
    run(&["delete", "-k", "table", "--from", "b", "--to", "a"]);
    run(&["delete", "-k", "table", "--prefix", ""]);
    run(&["export", "-", "-k", "table", "--format", "jsonl"]);
    run(&["keyspaces", "drop", "table"]);
    run(&["keyspaces", "drop", "table", "--yes"]);
    run(&["scan", "-k", "table"]);
    run(&["scan"]);
    run(&["check", "--structure"]);
    run(&["inspect", "--run", "999.0"]);
    said.into_iter().map(|said| (said.code, said.out)).collect()
}

#[test]
fn every_verb_says_and_does_the_same_while_a_server_runs() {
    let alone = Place::new();
    let wanted = work(&alone);
    let place = Place::new();
    let served = Served::new(&place, &["--web", "off"]);
    let found = work(&place);
    for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        // The list also contains the server's keyspaces.
        if String::from_utf8_lossy(&wanted.1).contains("merge_operator") {
            continue;
        }
        assert_eq!(
            (found.0, String::from_utf8_lossy(&found.1)),
            (wanted.0, String::from_utf8_lossy(&wanted.1)),
            "verb {index}"
        );
    }
    let names = place.done(["keyspaces"]).text();
    assert!(names.contains("events") && names.contains("redis"), "{names}");
    let stats = place.done(["stats", "--json"]).json();
    assert!(stats["server"]["connections"].is_number() && stats["space"]["live_bytes"].is_number());
    let page = place
        .done(["stats", "--watch", "-n", "1", "--interval", "0.1"])
        .text();
    assert!(page.contains("throughput") && page.contains("process"), "{page}");
    let checked = place.done(["check", "--json"]).json();
    assert!(
        checked["is_whole"] == true && checked["read"]["records"].is_number(),
        "{checked}"
    );
    let compacted = place.done(["compact", "--json"]).json();
    assert!(compacted["bytes_after"].is_number(), "{compacted}");
    assert!(place.done(["inspect", "--json"]).json()["root"]["pivots"].is_array());
    assert!(!place.done(["inspect"]).text().is_empty());
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    assert!(!socket(&place).exists(), "the socket goes with the server");
    assert_eq!(place.done(["get", "Oder"]).text(), "854 km");
}

#[test]
fn a_scan_of_clients_keys_goes_on_behind_a_key_hashed_or_not() {
    for (layout, is_ordered) in [
        (&["--web", "off", "--hashed"][..], false),
        (&["--web", "off"], true),
    ] {
        let place = Place::new();
        let served = Served::new(&place, layout);
        for key in ["Elbe", "Oder", "Rhein", "Weser"] {
            place.done(["put", "--redis-db", "2", key, "river"]);
        }
        let scan = |more: &[&str]| {
            let base = ["scan", "--redis-db", "2", "--keys-only"];
            place.done(base.iter().chain(more)).text()
        };
        let pages = || {
            let all = scan(&[]);
            let all: Vec<&str> = all.lines().map(|line| line.split('\t').next().unwrap()).collect();
            assert_eq!(all.len(), 4);
            assert!(all.is_sorted() || !is_ordered, "{all:?}");
            // Page by page, each starting after the last key of the previous page.
            let mut found = vec![all[0].to_owned()];
            while let Some(last) = found.last().cloned() {
                let page = scan(&["--after", &last, "-n", "2"]);
                let keys = page
                    .lines()
                    .map(|line| line.split('\t').next().unwrap().to_owned());
                let before = found.len();
                found.extend(keys);
                if found.len() == before {
                    break;
                }
            }
            assert_eq!(found, all);
        };
        pages();
        assert_eq!(served.ended(libc::SIGTERM), Some(0));
        pages();
        let refused = ["scan", "--redis-db", "2", "--after", "Oder", "--prefix", "O"];
        place.run(refused).ended(2).complained("--after");
    }
}

#[test]
fn a_backup_of_a_running_store_is_a_store() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    asked(&served.redis, "SET a 1\r\nRPUSH l x y\r\n", "+OK\r\n:2\r\n");
    place.done(["put", "Elbe", "1094 km"]);
    let backup = place.path("backup");
    let said = place.done(["backup", backup.to_str().unwrap()]);
    assert!(said.text().contains("all of it was read"), "{said:?}");
    // A relative path is relative to the directory of the caller.
    let relative = place
        .command(["backup", "second"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    Said::from(relative).ended(0);
    place
        .run(["backup", backup.to_str().unwrap()])
        .ended(3)
        .complained("holds a store already");
    asked(&served.redis, "SET a 2\r\n", "+OK\r\n");
    for copy in ["backup", "second"] {
        let copy = place.path(copy);
        let copy = copy.to_str().unwrap();
        assert_eq!(place.done(["--db", copy, "get", "Elbe"]).text(), "1094 km");
        assert_eq!(
            place.done(["--db", copy, "get", "--redis-db", "0", "a"]).text(),
            "1"
        );
        place.done(["--db", copy, "check"]);
    }
    for verb in [
        &["restore", backup.to_str().unwrap()][..],
        &["repair"],
        &["repair", "--yes"],
    ] {
        let said = place.run(verb);
        assert_ne!(said.code, Some(0), "{said:?}");
        assert!(
            said.err.contains("server") || said.err.contains("empty directory"),
            "{said:?}"
        );
    }
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn what_a_killed_server_leaves_is_in_nobodys_way() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    place.done(["put", "a", "1"]);
    let file = std::fs::symlink_metadata(socket(&place)).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.mode() & 0o777, 0o600);
    assert_eq!(served.ended(libc::SIGKILL), None);
    assert!(socket(&place).exists());
    assert_eq!(place.done(["get", "a"]).text(), "1");
    place.done(["check"]);
    // A stale socket does not hide a process that has the store open but answers no requests.
    let db = alluvium::Db::open(place.path("store")).unwrap();
    place.run(["get", "a"]).ended(6).complained("alluvium serve");
    drop(db);
    let served = Served::new(&place, &[]);
    assert_eq!(place.done(["get", "a"]).text(), "1");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn a_program_that_embeds_the_store_is_managed_alike() {
    let place = Place::new();
    let db = alluvium::Options::new()
        .memory(32 << 20)
        .open(place.path("store"))
        .unwrap();
    let control = alluvium_server::control::ManagementServer::start(&db, place.path("store")).unwrap();
    place.done(["put", "a", "1"]);
    assert_eq!(db.keyspace("default").unwrap().get("a").unwrap().unwrap(), b"1");
    place.done(["put", "--redis-db", "3", "r", "2"]);
    assert_eq!(place.done(["get", "--redis-db", "3", "r"]).text(), "2");
    control.stop();
    place.run(["get", "a"]).ended(6);
}

#[test]
fn an_import_waits_for_what_a_killed_one_has_begun() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let file = place.file("commands", "INCR counter\r\n");
    let whole = std::fs::canonicalize(&file).unwrap();
    // Simulate a killed command, whose connection ends once its last rows are written.
    let mut earlier = ManagementClient::connect(place.path("store")).unwrap();
    let name = format!("progress\0--redis-db 0\0{}", whole.display());
    let mut is_claimed = false;
    earlier
        .ask(&ManagementRequest::Claim(name.into_bytes()), &mut |reply| {
            is_claimed = reply == ManagementReply::Truth(true);
            Ok(())
        })
        .unwrap();
    assert!(is_claimed);
    let mut import = place
        .command([
            "import",
            "--redis-db",
            "0",
            "--format",
            "redis",
            file.to_str().unwrap(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(import.try_wait().unwrap().is_none(), "it waits");
    asked(&served.redis, "GET counter\r\n", "$-1\r\n");
    drop(earlier);
    Said::from(import.wait_with_output().unwrap()).ended(0);
    asked(&served.redis, "GET counter\r\n", "$1\r\n1\r\n");
}

#[test]
fn names_of_keyspaces_of_a_server_are_not_given_to_others() {
    let place = Place::new();
    place.done(["put", "a", "1"]);
    for name in ["redis", "memcached", "redis.keys.3"] {
        let create = ["keyspaces", "create", name, "--structure", "hashed"];
        place.run(create).ended(2).complained("choose another");
        place
            .run(["put", "-k", name, "a", "1"])
            .ended(2)
            .complained("choose another");
        let rename = ["keyspaces", "rename", "default", name, "--yes"];
        place.run(rename).ended(2);
    }
    place.done(["keyspaces", "create", "redis.keys", "--structure", "hashed"]);
}

#[test]
fn several_commands_at_once_and_one_more_than_there_are_seats() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut imports = Vec::new();
    for number in 0..3 {
        let rows: String = (0..20_000).map(|row| format!("{row:06},{number}\n")).collect();
        let file = place.file(&format!("rows{number}.csv"), format!("key,value\n{rows}"));
        let import = place
            .command(["import", file.to_str().unwrap(), "-k", &format!("k{number}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        imports.push(import);
    }
    asked(&served.redis, "SET a 1\r\n", "+OK\r\n");
    for import in imports {
        Said::from(import.wait_with_output().unwrap()).ended(0);
    }
    for number in 0..3 {
        let rows = place.done(["scan", "-k", &format!("k{number}")]).text();
        assert_eq!(rows.lines().count(), 20_000);
    }
    let idle: Vec<UnixStream> = (0..64).map(|_| greeted(&socket(&place))).collect();
    place.run(["get", "a"]).ended(3).complained("64 commands");
    drop(idle);
    // Slots become free once the server notices that the clients have disconnected.
    let mut is_answered = false;
    for _ in 0..100 {
        is_answered = place.run(["get", "--redis-db", "0", "a"]).code == Some(0);
        if is_answered {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_answered);
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

/// Returns a connection that has completed the greeting.
fn greeted(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"alluvium\x01\0\0\0").unwrap();
    let mut greeting = [0; 12];
    stream.read_exact(&mut greeting).unwrap();
    stream
}

#[test]
fn hostile_bytes_at_the_socket_harm_nobody() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let mut state = 25_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let frames: [&[u8]; 6] = [
        b"\x06\0\0\0\x05\x07default\x01\x01k",
        b"\xff\xff\xff\xff",
        b"\x05\0\0\0\x07\xff\xff\xff\xff\x0f",
        b"\x01\0\0\0\x00",
        b"\x01\0\0\0\x15",
        b"POST / HTTP/1.1\r\n\r\n",
    ];
    for round in 0..400 {
        let mut stream = match round % 4 {
            0 => UnixStream::connect(socket(&place)).unwrap(),
            _ => greeted(&socket(&place)),
        };
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut bytes = frames[random() % frames.len()].to_vec();
        for _ in 0..random() % 6 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        // The server may have closed the connection before it has read everything.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 1 << 20);
    }
    place.done(["put", "a", "1"]);
    place.done(["check"]);
    asked(&served.redis, "SET a 1\r\n", "+OK\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn another_user_is_not_answered() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    place.done(["put", "a", "1"]);
    std::fs::set_permissions(place.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place.path("store"), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Other users are refused even if the mode of the socket file admits them.
    for mode in [0o600, 0o777] {
        std::fs::set_permissions(socket(&place), std::fs::Permissions::from_mode(mode)).unwrap();
        let Some(mut other) = as_other_user(&place.command(["put", "a", "2"])) else {
            break;
        };
        let said: Said = other
            .env("ALLUVIUM_DB", place.path("store"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .into();
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            alluvium_device::skipped!("root", "the same user is all that can be had");
            return;
        }
        assert_ne!(said.code, Some(0), "{said:?}");
    }
    assert_eq!(place.done(["get", "a"]).text(), "1");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn a_directory_with_a_long_name_is_managed_too() {
    let place = Place::new();
    let store = place.path(&"d".repeat(150));
    let store = store.to_str().unwrap().to_owned();
    let mut long = vec!["--db", &store];
    place.done([&long[..], &["put", "a", "1"]].concat());
    let served = Served::new(&place, &["--db", &store]);
    long.extend(["get", "a"]);
    assert_eq!(place.done(&long).text(), "1");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn a_server_ends_while_commands_work_on_its_store() {
    let place = Place::new();
    let rows: String = (0..40_000)
        .map(|row| format!("{row:06},{}\n", "x".repeat(100)))
        .collect();
    let rows = place.file("rows.csv", format!("key,value\n{rows}"));
    place.done(["import", rows.to_str().unwrap()]);
    let served = Served::new(&place, &[]);
    let backup = place.path("backup");
    let mut working: Vec<_> = [
        vec!["compact"],
        vec!["check"],
        vec!["backup", backup.to_str().unwrap()],
        vec!["scan"],
    ]
    .into_iter()
    .map(|arguments| {
        let mut command = place.command(arguments);
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    })
    .collect();
    // The scan has begun, and the rest of its output is not read.
    let mut first = [0; 1];
    let scan = working[3].stdout.as_mut().unwrap();
    scan.read_exact(&mut first).unwrap();
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    for mut child in working {
        // The command may have finished. Otherwise it reports that the server has ended.
        drop(child.stdout.take());
        child.wait().unwrap();
    }
    place.done(["check"]);
    assert_eq!(place.done(["get", "000007"]).text(), "x".repeat(100));
}

#[test]
fn records_of_a_server_are_not_changed_past_it() {
    let place = Place::new();
    let served = Served::new(&place, &[]);
    asked(&served.redis, "SET a 1\r\n", "+OK\r\n");
    let rows = place.file("rows.csv", "key,value\na,b\n");
    for arguments in [
        &["put", "-k", "redis", "x", "y"][..],
        &["put", "-k", "memcached", "x", "y", "--if-absent"],
        &["delete", "-k", "redis", "x"],
        &["delete", "-k", "redis", "--prefix", "x"],
        &["import", rows.to_str().unwrap(), "-k", "redis"],
        &["keyspaces", "drop", "redis", "--yes"],
        &["keyspaces", "rename", "redis", "other"],
    ] {
        place.run(arguments).ended(2).complained("--redis-db");
    }
    place
        .done(["scan", "-k", "redis"])
        .complained("raw records")
        .complained("--redis-db");
    place.run(["get", "a"]).ended(1).complained("--redis-db");
    asked(&served.redis, "GET a\r\n", "$1\r\n1\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn records_of_a_server_are_not_changed_while_it_does_not_run() {
    let place = Place::new();
    let served = Served::new(&place, &["--hashed"]);
    asked(&served.redis, "SET a 1\r\n", "+OK\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    let rows = place.file("rows.csv", "key,value\na,b\n");
    let rows = rows.to_str().unwrap();
    for keyspace in ["redis", "redis.keys.0", "memcached"] {
        for arguments in [
            &["put", "-k", keyspace, "x", "y"][..],
            &["put", "-k", keyspace, "x", "y", "--if-absent"],
            &["delete", "-k", keyspace, "x", "--force"],
            &["import", rows, "-k", keyspace],
        ] {
            place.run(arguments).ended(2).complained("--redis-db");
        }
        place
            .fed(
                ["transaction", "-"],
                format!("use {keyspace}\nput x y\ncommit\n").as_bytes(),
            )
            .complained("--redis-db");
        place.done(["scan", "-k", keyspace]);
    }
    let delete = ["delete", "-k", "redis", "--prefix", "x"];
    place.run(delete).ended(2).complained("--redis-db");
    let refused = place.run(["delete", "-k", "redis", "x"]).ended(2);
    assert!(!refused.err.contains("there is no key"), "{refused:?}");
    place.done(["put", "--redis-db", "0", "b", "2"]);
    let served = Served::new(&place, &[]);
    asked(&served.redis, "GET a\r\n", "$1\r\n1\r\n");
    asked(&served.redis, "GET b\r\n", "$1\r\n2\r\n");
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    place.done(["check"]);
}
