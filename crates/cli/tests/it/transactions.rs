//! Transaction scripts, and the resources that open transactions hold.

use crate::serve::Served;
use crate::{Place, Said};
use alluvium::{Concurrency, Db, Options, TransactionOptions};
use alluvium_server::control::ManagementServer;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Creates a store with two keyspaces and one account.
fn bank() -> Place {
    let place = Place::new();
    place.done(["put", "-k", "accounts", "alice", "100"]);
    place.done(["put", "-k", "audit", "begun", "yes"]);
    place
}

fn script(place: &Place, text: &str, more: &[&str]) -> Said {
    let path = place.file("script.txt", text);
    place.run([&["transaction", path.to_str().unwrap()], more].concat())
}

fn scanned(place: &Place, keyspace: &str) -> String {
    place.done(["scan", "-k", keyspace]).text()
}

/// Returns the fenced block of a language after a heading of docs/cli.md.
fn block(heading: &str, language: &str) -> String {
    let page = include_str!("../../../../docs/cli.md");
    let (_, behind) = page.split_once(heading).expect("the heading");
    let (_, behind) = behind.split_once(&format!("```{language}\n")).expect("the block");
    behind.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_example_of_the_documentation_says_what_it_is_said_to_say() {
    let place = bank();
    let wanted = block("## A transaction", "console");
    let wanted = wanted.split_once('\n').expect("the command").1;
    let said = script(&place, &block("## A transaction", "text"), &[]).ended(0);
    assert_eq!(said.text(), wanted);
    assert_eq!(scanned(&place, "accounts"), "alice\t90\nbob\t30\n");
    assert_eq!(scanned(&place, "audit"), "begun\tyes\n");
}

#[test]
fn what_is_not_committed_is_rolled_back_which_is_said() {
    let place = bank();
    let said = script(&place, "accounts put bob 1\n", &[]).ended(9);
    assert!(said.text().contains("without a commit"), "{said:?}");
    said.complained("without `commit`: nothing was committed");
    let said = script(&place, "accounts put bob 2\nrollback\n", &[]).ended(0);
    assert!(said.text().contains("is rolled back"), "{said:?}");
    assert_eq!(said.err, "");
    assert_eq!(scanned(&place, "accounts"), "alice\t100\n");
}

#[test]
fn a_script_without_an_end_has_its_own_exit_code() {
    let place = bank();
    let fed = |text: &str, more: &[&str]| {
        let form = [&["transaction", "-", "-k", "accounts"], more].concat();
        place.fed(form, text.as_bytes())
    };
    // The whole script, and what arrives if the program that writes it ends early.
    let whole = "# a transfer\nuse accounts\nget alice\nput bob 1\ncommit\n";
    for (cut, _) in whole.match_indices('\n').filter(|(at, _)| *at + 1 < whole.len()) {
        for form in [&[][..], &["--json"], &["--locking"]] {
            fed(&whole[..=cut], form)
                .ended(9)
                .complained("without `commit`: nothing was committed");
        }
    }
    fed("", &[]).ended(9).complained("nothing was committed");
    assert_eq!(scanned(&place, "accounts"), "alice\t100\n");
    script(&place, "# nothing\n", &[]).ended(9);
    fed("put bob 1\ncommit\nput bob 2\n", &[])
        .ended(9)
        .complained("those before it stay committed");
    fed("put bob 3\nrollback\nput bob 4\n", &[])
        .ended(9)
        .complained("nothing was committed");
    for text in [
        "put bob 5\nrollback\n",
        "put bob 1\ncommit\nuse audit\n",
        "get bob\nrollback\n# the end\n",
    ] {
        assert_eq!(fed(text, &[]).ended(0).err, "", "{text}");
    }
    assert_eq!(scanned(&place, "accounts"), "alice\t100\nbob\t1\n");
}

/// Runs a script whose standard output is closed after the start.
fn with_closed_output(place: &Place, script: &str) -> Said {
    let mut child = place
        .command(["transaction", "-", "-k", "accounts"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("it is piped");
    // The program may end at its first output, and then the rest of the script has no reader.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends").into()
}

#[test]
fn a_script_whose_output_is_closed_does_not_look_committed() {
    let place = bank();
    with_closed_output(&place, "put bob 1\nput carol 1\ncommit\n")
        .ended(9)
        .complained("nothing was committed");
    assert_eq!(scanned(&place, "accounts"), "alice\t100\n");
    // The lines of a file are printed after the commit.
    let path = place.file("script.txt", "put bob 1\ncommit\n# the end\n");
    let mut child = place
        .command(["transaction", path.to_str().unwrap(), "-k", "accounts"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(scanned(&place, "accounts"), "alice\t100\nbob\t1\n");
}

#[test]
fn every_form_of_transaction_does_the_same_with_a_server_and_without() {
    let text = "use accounts\nput b 2\nput c 3\ndelete b\nget b\nget-for-update c\ndelete-range c d\n\
                put \"d e\" \\x00\\n\nscan\ncommit\nget alice\nput z 1\nrollback\n";
    let forms: [&[&str]; 4] = [
        &["--json"],
        &["--isolation", "snapshot", "--json", "--durability", "disk"],
        &["--locking", "--json", "--durability", "memory"],
        &["--isolation", "snapshot", "--locking", "--durability", "process"],
    ];
    for form in forms {
        let alone = bank();
        let wanted = script(&alone, text, form).ended(0);
        let place = bank();
        let served = Served::new(&place, &["--web", "off"]);
        let found = script(&place, text, form).ended(0);
        // The server has run transactions before, so the numbers differ.
        let without_numbers = |said: &Said| {
            let text = said.text();
            let lines = text.lines().filter(|line| !line.contains("transaction"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(without_numbers(&found), without_numbers(&wanted), "{form:?}");
        let left = "alice\t100\nd e\t\\x00\\n\n";
        assert_eq!(scanned(&place, "accounts"), left);
        assert_eq!(scanned(&alone, "accounts"), left);
        assert_eq!(served.ended(libc::SIGTERM), Some(0));
    }
}

#[test]
fn answers_in_json_hold_every_byte() {
    let place = bank();
    let text = "use accounts\nput \\xff 1\nget \\xff\nget none\nscan a b\ncommit\n";
    let said = script(&place, text, &["--json"]).ended(0).text();
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert_eq!(lines[1]["key_base64"], "/w==");
    assert_eq!(lines[1]["value_bytes"], 1);
    assert_eq!((&lines[2]["line"], &lines[2]["value"]), (&3.into(), &"1".into()));
    assert!(lines[3]["value"].is_null() && lines[3]["key"] == "none");
    assert_eq!(
        (&lines[4]["key"], &lines[4]["value"]),
        (&"alice".into(), &"100".into())
    );
    assert_eq!(lines[5]["keys"], 1);
    assert_eq!(lines[6]["operation"], "commit");
}

#[test]
fn a_bad_line_is_named_and_nothing_has_happened() {
    let place = bank();
    for (text, code, words) in [
        (
            "accounts put b 1\ncommit\nputt a b\n",
            2,
            "line 3: \"putt\" is not an operation",
        ),
        ("accounts put b 1\nput b\n", 2, "line 2: write `put KEY VALUE`"),
        (
            "accounts put b 1\nuse none\n",
            1,
            "line 2: there is no keyspace \"none\"",
        ),
        (
            "accounts put b 1\nnone put b 1\ncommit\n",
            1,
            "line 2: there is no keyspace \"none\"",
        ),
        (
            "accounts put b 1\nrollback-to a\n",
            1,
            "line 2: the transaction has no savepoint \"a\"",
        ),
        ("# nothing\ncommit\n", 2, "line 2: there is no open transaction"),
        (
            "accounts put b 1\naccounts delete-range \"\"\ncommit\n",
            2,
            "add --yes",
        ),
    ] {
        let said = script(&place, text, &[]).ended(code).complained(words);
        assert!(
            said.err.contains("nothing was done") || said.err.contains("nothing was committed"),
            "{said:?}"
        );
        assert_eq!(scanned(&place, "accounts"), "alice\t100\n", "{text}");
    }
    script(&place, "accounts delete-range \"\"\ncommit\n", &["--yes"]).ended(0);
    assert_eq!(scanned(&place, "accounts"), "");
    place
        .run(["transaction", "/none.txt"])
        .ended(3)
        .complained("/none.txt");
}

#[test]
fn lines_of_a_pipe_are_done_as_they_come() {
    let place = bank();
    let said = place.fed(
        ["transaction", "-", "-k", "accounts"],
        b"put b 1\ncommit\nput c 1\nwrong\n",
    );
    said.ended(2)
        .complained("line 4")
        .complained("before it stay committed");
    assert_eq!(scanned(&place, "accounts"), "alice\t100\nb\t1\n");
}

/// Runs a script that pauses inside its transaction, calls `meanwhile` during the pause, and
/// returns the result.
fn meets(place: &Place, form: &[&str], first: &str, meanwhile: impl FnOnce(), last: &str) -> Said {
    let mut child = place
        .command([&["transaction", "-", "-k", "accounts"], form].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    writeln!(stdin, "{first}").expect("it is read");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it says what it did");
    assert!(line.starts_with("1: "), "{line}");
    meanwhile();
    writeln!(stdin, "{last}").expect("it is read");
    drop(stdin);
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut out).expect("its output");
    let mut said: Said = child.wait_with_output().expect("it ends").into();
    said.out = out;
    said
}

#[test]
fn a_conflict_has_its_own_exit_code_and_leaves_nothing() {
    let place = bank();
    let _served = Served::new(&place, &["--web", "off"]);
    let other = || {
        place.done(["put", "-k", "accounts", "alice", "7"]);
    };
    meets(&place, &[], "get alice", other, "put bob 1\ncommit")
        .ended(8)
        .complained("line 3: ")
        .complained("nothing was committed");
    assert_eq!(scanned(&place, "accounts"), "alice\t7\n");
    // A snapshot transaction does not depend on keys that it has only read.
    let snapshot = ["--isolation", "snapshot"];
    meets(&place, &snapshot, "get alice", other, "put bob 1\ncommit").ended(0);
    assert_eq!(scanned(&place, "accounts"), "alice\t7\nbob\t1\n");
}

#[test]
fn what_is_open_is_listed_with_what_it_holds_back() {
    let place = bank();
    let served = Served::new(&place, &["--web", "off"]);
    let before = place.done(["transactions", "--json"]).json();
    assert_eq!(before["transactions_open"], 0);
    let look = || {
        for value in ["1", "2", "3"] {
            place.done(["put", "-k", "accounts", "carol", value]);
        }
        let said = place.done(["transactions", "--json"]).json();
        let one = &said["transactions"][0];
        assert_eq!(said["transactions_open"], 1, "{said}");
        assert_eq!(
            (&one["isolation"], &one["mechanism"]),
            (&"snapshot".into(), &"optimistic".into())
        );
        assert!(
            one["commits_held"].as_u64() >= Some(3) && one["age_ms"].is_u64(),
            "{said}"
        );
        assert!(one["memory_bytes"].as_u64() > Some(0), "{said}");
        assert!(said["commits_held"].as_u64() >= Some(3), "{said}");
        let text = place.done(["transactions"]).text();
        assert!(
            text.contains("commits replaced") && text.contains("1 open"),
            "{text}"
        );
    };
    meets(
        &place,
        &["--isolation", "snapshot"],
        "put bob 1",
        look,
        "rollback",
    )
    .ended(0);
    let after = place.done(["transactions", "--json"]).json();
    assert_eq!(after["transactions_open"], 0);
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
}

#[test]
fn records_of_a_server_are_not_changed_by_a_script() {
    let place = bank();
    let _served = Served::new(&place, &["--web", "off"]);
    for line in ["put a 1", "delete a", "delete-range a b"] {
        script(&place, &format!("redis {line}\ncommit\n"), &[])
            .ended(2)
            .complained("belongs to the running server");
    }
    script(&place, "redis get a\nredis scan\ncommit\n", &[]).ended(0);
}

#[test]
fn a_server_elsewhere_is_asked_through_its_page() {
    let place = bank();
    let served = Served::new(&place, &[]);
    let web = served.web.as_deref().expect("it has a page");
    let other = Place::new();
    let said = other.done(["transactions", "--server", web, "--json"]).json();
    assert_eq!(
        (&said["transactions_open"], &said["snapshots_kept"]),
        (&0.into(), &0.into())
    );
    let text = other.done(["transactions", "--server", web]).text();
    assert!(
        text.starts_with("0 open") && text.contains("0 kept snapshots"),
        "{text}"
    );
}

#[test]
fn records_of_a_server_are_read_by_a_script_but_not_locked() {
    let place = bank();
    let _served = Served::new(&place, &["--web", "off"]);
    for line in ["get a", "get-for-update a", "scan"] {
        script(&place, &format!("redis {line}\n"), &["--locking"])
            .ended(2)
            .complained("would wait for the locks");
        script(&place, &format!("redis {line}\nrollback\n"), &[]).ended(0);
    }
}

#[test]
fn a_client_that_is_gone_leaves_no_transaction() {
    let place = bank();
    let _served = Served::new(&place, &["--web", "off"]);
    let mut child = place
        .command(["transaction", "-", "-k", "accounts", "--locking"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    writeln!(stdin, "put alice 1").expect("it is read");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it says what it did");
    let open = place.done(["transactions", "--json"]).json();
    assert!(open["transactions"][0]["locks"].as_u64() > Some(0), "{open}");
    child.kill().expect("it is our child");
    child.wait().expect("it ends");
    // The write waits for the lock until the server notices that the client is gone.
    place.done(["put", "-k", "accounts", "alice", "2"]);
    assert_eq!(scanned(&place, "accounts"), "alice\t2\n");
}

#[test]
fn transactions_and_snapshots_of_a_program_are_listed() {
    let place = Place::new();
    let path = place.path("store");
    let db: Db = Options::new().memory(32 << 20).open(&path).unwrap();
    let accounts = db.keyspace("accounts").unwrap();
    accounts.put("alice", "1").unwrap();
    db.create_snapshot("monday").unwrap();
    let control = ManagementServer::start(&db, &path).unwrap();
    let options = TransactionOptions::new().concurrency(Concurrency::Locking);
    let locking = db.begin_with(&options);
    locking.put(&accounts, "alice", "2").unwrap();
    let reading = db.begin();
    accounts.put("bob", "1").unwrap();
    let said = place.done(["transactions", "--json"]).json();
    let list = said["transactions"].as_array().unwrap();
    assert_eq!(list.len(), 2, "{said}");
    assert_eq!(list[0]["number"], locking.number());
    assert!(list[0]["sequence"].is_null() && list[0]["locks"] == 1, "{said}");
    assert_eq!(list[1]["number"], reading.number());
    assert_eq!(list[1]["commits_held"], 1);
    assert_eq!(said["snapshots"][0]["name"], "monday");
    let text = place.done(["transactions"]).text();
    assert!(
        text.contains("serializable\tlocking") && text.contains("\"monday\""),
        "{text}"
    );
    drop(reading);
    locking.rollback();
    control.stop();
    db.close().unwrap();
}
