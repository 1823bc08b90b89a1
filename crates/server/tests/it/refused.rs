//! Transactions with a refused command. Access rules refuse it before or after it was sent, or
//! memory runs out.

use crate::client::{Fixture, options};
use crate::users::{user, with_users};
use alluvium_server::{ServerLimits, ServerOptions};

#[test]
fn commit_and_exec_ask_again_whether_the_user_may() {
    let (_, fixture) = with_users("user u on >pw ~u:* ~v:* +@all\nuser w on >pw ~u:* +@all\n");
    let mut admin = fixture.client();
    let mut u = user(&fixture, "u");
    let changed =
        "the user's rules were changed since the command ran in the transaction, and nothing is written";
    // Covers a single-key command, commands with several keys, and keys that are read only to
    // produce a write.
    for (ask, take, denied) in [
        ("SET u:1 1", "-set", "permissions to run the 'set' command"),
        (
            "MSET u:1 1 v:1 2",
            "resetkeys ~u:*",
            "permissions to access one of the keys of 'mset'",
        ),
        (
            "COPY v:0 u:1",
            "resetkeys ~u:* %W~v:*",
            "permissions to access one of the keys of 'copy'",
        ),
        (
            "SORT v:0 BY nosort GET # STORE u:1",
            "resetkeys ~u:*",
            "permissions to access one of the keys of 'sort'",
        ),
    ] {
        admin.script("ACL SETUSER u resetkeys ~u:* ~v:* +@all => OK\nFLUSHALL => OK\nRPUSH v:0 x => :1");
        u.script("BEGIN => OK\nSET u:0 0 => OK\nGET v:1 => nil");
        assert!(!u.ask(ask).starts_with('-'), "{ask}");
        admin.script(&format!("ACL SETUSER u {take} => OK"));
        u.script(&format!(
            "COMMIT => -NOPERM this user no longer has {denied}: {changed}
             COMMIT => -ERR COMMIT without BEGIN"
        ));
        admin.script("EXISTS u:0 u:1 v:1 => :0");
        assert!(admin.ask("ACL LOG 1").contains("username\" \"u\""));
    }
    // Permitted writes are committed, and reads that were permitted at the time stay valid.
    admin.script("ACL SETUSER u resetkeys ~u:* ~v:* +@all => OK");
    u.script("BEGIN => OK\nGET v:1 => nil\nSET u:1 1 => OK");
    admin.script("ACL SETUSER u resetkeys ~u:* -get +hget => OK");
    u.script("COMMIT => OK\nDEL u:1 => :1");
    // Revoke the permission for COMMIT.
    u.script("BEGIN => OK\nSET u:1 1 => OK");
    admin.script("ACL SETUSER u -commit => OK");
    u.script(
        "COMMIT => -NOPERM this user has no permissions to run the 'commit' command
         ABORT => -ERR ABORT without BEGIN
         EXISTS u:1 => :0",
    );
    // Another user on the same connection must not commit a write that the first user may no longer
    // make.
    admin.script("ACL SETUSER u +commit => OK");
    u.script("BEGIN => OK\nSET u:1 1 => OK\nAUTH w pw => OK\nSET u:2 2 => OK");
    admin.script("ACL SETUSER u -set => OK");
    u.script(&format!(
        "COMMIT => -NOPERM this user no longer has permissions to run the 'set' command: {changed}
         EXISTS u:1 u:2 => :0"
    ));
    // As in Redis, EXEC skips commands that are no longer permitted. If EXEC itself is not
    // permitted, the whole transaction is refused.
    u.script("MULTI => OK\nSET u:1 1 => QUEUED\nGET u:1 => QUEUED");
    admin.script("ACL SETUSER w -set => OK");
    let left_out = u.ask("EXEC");
    assert!(left_out.starts_with("[-NOPERM ACLs rules changed"), "{left_out}");
    assert!(left_out.ends_with("nil]"), "{left_out}");
    u.script("MULTI => OK\nDEL u:1 => QUEUED");
    admin.script("ACL SETUSER w -exec => OK");
    u.script(
        "EXEC => -EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command
         PING => PONG",
    );
}

#[test]
fn a_transaction_that_writes_too_much_is_told_and_commits_nothing() {
    let limits = ServerLimits {
        transaction: 10_000,
        ..ServerLimits::default()
    };
    let fixture = Fixture::with(ServerOptions { limits, ..options() });
    let (mut client, value) = (fixture.client(), "x".repeat(4000));
    client.script(&format!("BEGIN => OK\nSET a {value} => OK"));
    let reply = client.ask(&format!("MSET b {value} c {value}"));
    assert!(
        reply.starts_with("-ERR the bytes of the writes of the transaction would exceed 10000"),
        "{reply}"
    );
    client.script(
        "EXISTS a b c => :1
         SET a 1 => OK
         COMMIT => -ABORTED a command of the transaction was refused, so nothing is written
         MGET a b c => [nil nil nil]",
    );
}

#[test]
fn users_need_the_right_to_begin_and_to_each_command() {
    let fixture = Fixture::new();
    let (mut admin, mut user) = (fixture.client(), fixture.client());
    admin.script("ACL SETUSER eve on nopass +get +set +select ~a => OK");
    user.script("AUTH eve x => OK");
    assert!(user.ask("BEGIN").starts_with("-NOPERM "));
    admin.script("ACL SETUSER eve +@transaction => OK");
    user.script("BEGIN => OK\nSET a 1 => OK");
    assert!(user.ask("SET b 1").starts_with("-NOPERM "));
    assert!(user.ask("INCR a").starts_with("-NOPERM "));
    user.script("COMMIT => -ABORTED a command of the transaction was refused, so nothing is written");
    user.script("BEGIN => OK\nSET a 1 => OK\nCOMMIT => OK\nGET a => \"1\"");
    let classes = admin.ask("ACL CAT transaction");
    for name in ["begin", "commit", "abort"] {
        assert!(classes.contains(&format!("\"{name}\"")), "{classes}");
    }
    assert!(admin.ask("COMMAND DOCS begin").contains("transactions"));
}
