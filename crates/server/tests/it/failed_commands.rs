//! Commands that fail between BEGIN and COMMIT.

use crate::client::Fixture;
use crate::interactive::wait_until;

/// The reply of COMMIT after a command has failed.
const FAILED: &str = "-ABORTED a command of the transaction has failed, so nothing is written; after BEGIN \
                      LENIENT, COMMIT writes the changes of the other commands";

#[test]
fn a_transaction_with_a_failed_command_is_not_committed() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.script("RPUSH list x => :1\nSET text abc => OK\nSET n 1 => OK\nZADD z 1 a => :1");
    for failure in [
        "GET list",
        "HSET list a 1",
        "LSET list 7 a",
        "INCR text",
        "INCRBY n x",
        "SET n 5 EX 0",
        "SET n 5 NONSENSE",
        "ZADD z x a",
        "ZINCRBY z nan a",
        "RENAME none n",
        "SETRANGE text 999999999999 x",
        "SCAN x",
        "SELECT 99",
        "BEGIN",
        "MULTI",
        "WATCH n",
        "EXEC",
        "DISCARD",
        "HELLO 9",
        "AUTH nosuch wrong",
        "CONFIG SET nonsense 1",
        "CLIENT PAUSE x",
    ] {
        for begin in ["BEGIN", "BEGIN SNAPSHOT"] {
            client.script(&format!("{begin} => OK\nSET written 1 => OK"));
            let reply = client.ask(failure);
            assert!(reply.starts_with('-'), "{failure}: {reply}");
            // Commands are still executed and see what the transaction has written.
            client.script("GET written => \"1\"\nSET later 1 => OK\nGET later => \"1\"");
            let reply = client.ask("COMMIT");
            assert_eq!(reply, FAILED, "{failure}");
            client.script("COMMIT => -ERR COMMIT without BEGIN\nMGET written later => [nil nil]");
        }
        client.script("BEGIN => OK\nSET written 1 => OK");
        client.ask(failure);
        client.script("ABORT => OK\nGET written => nil");
        client.script("BEGIN LENIENT => OK\nSET written 1 => OK");
        client.ask(failure);
        client.script("SET later 1 => OK\nCOMMIT => OK\nDEL written later => :2");
    }
    other.script("LRANGE list 0 -1 => [\"x\"]\nMGET text n => [\"abc\" \"1\"]");
}

#[test]
fn a_failure_counts_without_a_reply_and_ends_with_its_transaction() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("RPUSH list x => :1\nBEGIN => OK\nSET k 1 => OK");
    client.send_bytes(b"CLIENT REPLY OFF\r\nINCR list\r\nSELECT 99\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.reply(), "OK");
    client.script(&format!(
        "COMMIT => {FAILED}\nBEGIN => OK\nSET k 2 => OK\nCOMMIT => OK"
    ));
    client.script(
        "BEGIN => OK\nINCR list => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    client.script("RESET => RESET\nBEGIN => OK\nSET k 3 => OK\nCOMMIT => OK\nGET k => \"3\"");
    // Failures before BEGIN and errors as elements of a reply do not count.
    client.script("INCR list => -WRONGTYPE Operation against a key holding the wrong kind of value");
    client.script("BEGIN => OK\nSET k -ERR => OK\nGET k => \"-ERR\"\nINCRBY n -5 => :-5\nCOMMIT => OK");
    // In RESP3, too.
    assert!(client.ask("HELLO 3").contains("proto"));
    client.script("BEGIN => OK\nSET k 4 => OK");
    assert!(client.ask("INCR list").starts_with("-WRONGTYPE"));
    assert!(client.ask("HELLO 2").contains("proto"));
    client.script(&format!("COMMIT => {FAILED}\nGET k => \"-ERR\""));
    // A pipeline that does not wait for replies.
    client.send_bytes(b"BEGIN\r\nSET k 5\r\nINCR list\r\nSET k 6\r\nCOMMIT\r\nGET k\r\n");
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!((&*replies[4], &*replies[5]), (FAILED, "\"-ERR\""));
    client.script("BEGIN => OK\nSET k 7 => OK\nINCR list => -WRONGTYPE Operation against a key holding the wrong kind of value\nQUIT => OK");
    wait_until("the transaction is rolled back", || {
        fixture.db.transactions().is_empty()
    });
    fixture.client().script("GET k => \"-ERR\"");
}
