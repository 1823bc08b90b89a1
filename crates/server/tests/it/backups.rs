//! BGSAVE and SAVE create backups that can be opened, and settings change at run time.

use crate::client::{Client, Fixture, any_port, options};
use alluvium::{Db, Options};
use alluvium_device::file::{FileDirectory, remove_directory};
use alluvium_device::{Directory, FileOptions};
use alluvium_server::{Error, LogLevel, Server, ServerOptions};
use std::path::Path;
use std::time::Duration;

fn field(client: &mut Client, name: &str) -> String {
    let info = client.ask("INFO persistence");
    let line = info
        .split("\\r\\n")
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} is not in {info}"))
        .to_owned()
}

/// Waits until no backup is in progress.
fn settled(client: &mut Client) {
    while field(client, "rdb_bgsave_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the value of a key in the backup.
fn backed_up(directory: &Path, key: &str) -> String {
    let copy = Options::new()
        .memory(32 << 20)
        .open(directory.join("alluvium-backup"))
        .unwrap();
    let server = Server::start(
        &copy,
        ServerOptions {
            redis: any_port(),
            loops: Some(1),
            ..ServerOptions::default()
        },
    )
    .unwrap();
    let value = Client::connect(server.redis_addr().unwrap()).ask(&format!("GET {key}"));
    drop(server);
    copy.close().unwrap();
    value
}

#[test]
fn a_backup_takes_the_place_of_the_one_before_when_it_is_whole() {
    let fixture = Fixture::new();
    let directory = fixture.place.path().join("backups");
    let mut client = fixture.client();
    client.ask("SET a 1");
    for command in ["BGSAVE", "SAVE"] {
        let refused = client.ask(command);
        assert!(
            refused.starts_with("-ERR")
                && refused.contains("CONFIG SET dir")
                && refused.contains("--backup-dir"),
            "{refused}"
        );
    }
    let set = format!("CONFIG SET dir {}", directory.display());
    assert!(
        client.ask(&set).starts_with("-ERR CONFIG SET failed"),
        "it is not there yet"
    );
    assert!(client.ask("CONFIG SET dir relative").contains("relative path"));
    assert_eq!(client.ask("CONFIG GET dir"), "[\"dir\" \"\"]");
    FileDirectory::create(&directory).unwrap();
    assert_eq!(client.ask(&set), "OK");
    assert_eq!(
        client.ask("CONFIG GET dir"),
        format!("[\"dir\" \"{}\"]", directory.display())
    );
    assert_ne!(field(&mut client, "rdb_changes_since_last_save"), "0");
    assert_eq!(client.ask("BGSAVE"), "Background saving started");
    settled(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(field(&mut client, "rdb_changes_since_last_save"), "0");
    assert_eq!(field(&mut client, "rdb_saves"), "1");
    assert_eq!(backed_up(&directory, "a"), "\"1\"");
    // SAVE makes a second backup, although the remains of an unfinished one occupy its directory.
    client.ask("SET a 2");
    let new = directory.join("alluvium-backup.new");
    let half = FileDirectory::create(&new).unwrap();
    half.create("tier-0.data", FileOptions::DIRECT).unwrap();
    assert_eq!(client.ask("SAVE"), "OK");
    assert_eq!(backed_up(&directory, "a"), "\"2\"");
    assert!(!new.exists());
    // A failed backup must leave the previous one intact.
    client.ask("SET a 3");
    FileDirectory::create(new.join("in the way")).unwrap();
    assert!(client.ask("SAVE").starts_with("-ERR the backup failed"));
    assert_eq!(client.ask("BGSAVE SCHEDULE"), "Background saving started");
    settled(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "err");
    assert!(!field(&mut client, "alluvium_last_backup_error").is_empty());
    assert_eq!(backed_up(&directory, "a"), "\"2\"");
    remove_directory(&new.join("in the way")).unwrap();
    assert_eq!(client.ask("SAVE"), "OK");
    assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(backed_up(&directory, "a"), "\"3\"");
    assert!(client.ask("LASTSAVE").starts_with(":"));
    client.ask("CONFIG SET dir ");
    assert!(client.ask("SAVE").contains("--backup-dir"));
}

#[test]
fn a_server_is_started_with_a_directory_for_backups_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let given = ServerOptions {
        backup_directory: Some(place.path().to_owned()),
        ..options()
    };
    let fixture = Fixture::with(given);
    assert_eq!(fixture.client().ask("SAVE"), "OK");
    assert!(place.path().join("alluvium-backup/superblock").exists());
    let db = Db::open(place.path().join("other")).unwrap();
    let missing = ServerOptions {
        backup_directory: Some(place.path().join("none")),
        ..options()
    };
    let refused = Server::start(&db, missing).unwrap_err();
    assert!(matches!(refused, Error::BackupDirectory { .. }) && refused.to_string().contains("none"));
}

#[test]
fn settings_change_at_once_and_all_or_none() {
    let level = LogLevel::warning();
    let fixture = Fixture::with(ServerOptions {
        log_level: Some(level.clone()),
        ..options()
    });
    let mut client = fixture.client();
    client.script(
        r#"
        CONFIG GET loglevel => ["loglevel" "warning"]
        CONFIG SET loglevel debug => OK
        CONFIG GET loglevel => ["loglevel" "debug"]
        CONFIG SET loglevel loud => -ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument must be one of the following: debug, verbose, notice, warning
        CONFIG GET appendfsync => ["appendfsync" "everysec"]
        CONFIG SET appendfsync always => OK
        CONFIG GET appendfsync => ["appendfsync" "always"]
        SET a 1 => OK
        CONFIG SET appendfsync no => -ERR CONFIG SET failed (possibly related to argument 'appendfsync') - argument must be one of the following: always, everysec
        CONFIG SET maxclients 77 slowlog-max-len 5 appendfsync everysec => OK
        CONFIG GET maxclients => ["maxclients" "77"]
        CONFIG SET maxclients 88 slowlog-max-len x => -ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - ERR value is not an integer or out of range
        CONFIG GET maxclients => ["maxclients" "77"]
        CONFIG GET slowlog-max-len => ["slowlog-max-len" "5"]
        CONFIG GET appendfsync => ["appendfsync" "everysec"]
        "#,
    );
    assert!(level.admits(tracing::Level::DEBUG));
    let refused = client.ask("CONFIG REWRITE");
    assert!(
        refused.contains("--durability") && refused.contains("until it stops"),
        "{refused}"
    );
    // From now on, each write is synced before it is acknowledged.
    client.ask("CONFIG SET appendfsync always");
    let syncs = |db: &Db| db.stats().device.total().syncs;
    let before = syncs(&fixture.db);
    for number in 0..5 {
        client.ask(&format!("SET k {number}"));
    }
    assert!(syncs(&fixture.db) >= before + 5);
}
