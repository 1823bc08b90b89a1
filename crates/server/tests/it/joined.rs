//! Clients that join a transaction of another part of the process (BEGIN JOIN).

use crate::client::{Client, Fixture};
use crate::users::with_users;
use alluvium::{Durability, ErrorKind, JointTransaction};
use std::time::{Duration, Instant};

/// A transaction to which clients are let.
struct OpenJoint {
    transaction: JointTransaction,
    name: String,
}

fn begin(fixture: &Fixture) -> OpenJoint {
    let transaction = JointTransaction::new(fixture.db.begin());
    OpenJoint {
        name: transaction.publish(&fixture.db),
        transaction,
    }
}

impl OpenJoint {
    fn join(&self, client: &mut Client) {
        client.script(&format!("BEGIN JOIN {} => OK", self.name));
    }

    fn client(&self, fixture: &Fixture) -> Client {
        let mut client = fixture.client();
        self.join(&mut client);
        client
    }

    /// Commits, and returns whether there was no conflict.
    fn commits(&self) -> bool {
        match self.transaction.commit(Some(Durability::Process)) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                false
            }
        }
    }
}

/// What clients have written and read in all kinds of values.
const COLLECTIONS: &str = r#"
    HSET h f 1 g 2 => :2
    ZADD z 3 c 1 a 2 b => :3
    LPUSH l x y => :2
    SADD s m => :1
    APPEND text more => :4
    ZRANK z b => :1
    LRANGE l 0 -1 => ["y" "x"]
    DEL old => :1
"#;

const WRITTEN: &str = r#"
    HGETALL h => ["f" "1" "g" "2"]
    ZRANGE z 0 -1 => ["a" "b" "c"]
    ZRANK z c => :2
    LLEN l => :2
    SISMEMBER s m => :1
    GET text => "more"
    EXISTS old => :0
    TYPE h => hash
    HSET h f 5 => :0
    ZADD z 0 first => :1
    ZRANK z c => :3
    RPUSH l z => :3
"#;

const NOT_WRITTEN: &str = r#"
    EXISTS h z l s text => :0
    LLEN old => :1
    SET h string => OK
    SET z string => OK
    GET h => "string"
    DEL h z => :2
    ZADD z 9 only => :1
    ZRANK z only => :0
    HGETALL h => []
"#;

#[test]
pub(crate) fn two_clients_share_a_joint_transaction_which_takes_effect_as_a_whole() {
    for is_committed in [true, false] {
        let fixture = Fixture::new();
        let mut other = fixture.client();
        other.script("RPUSH old 1 => :1");
        let joint = begin(&fixture);
        let (mut one, mut two) = (joint.client(&fixture), joint.client(&fixture));
        let mut three = joint.client(&fixture);
        three.script("PING => PONG");
        one.script(COLLECTIONS);
        two.script("HGET h g => \"2\"\nZSCORE z a => \"1\"\nINCR count => :1\nEXISTS old => :0");
        one.script("INCR count => :2\nCOMMIT => OK");
        other.script("EXISTS h z l s text count => :0\nLLEN old => :1");
        // A client that has left may join again, and sees what it has written.
        joint.join(&mut one);
        one.script("GET count => \"2\"");
        if is_committed {
            assert!(joint.commits());
            other.script(WRITTEN);
            other.script("GET count => \"2\"");
        } else {
            joint.transaction.rollback();
            other.script(NOT_WRITTEN);
            other.script("EXISTS count => :0");
        }
        // COMMIT tells a client whether what it has written has taken effect.
        let late = three.ask("COMMIT");
        assert!(late == "OK" || late.starts_with("-ABORTED "), "{late}");
        assert_eq!(late == "OK", is_committed);
        for client in [&mut one, &mut two] {
            assert!(client.ask("GET count").starts_with("-ABORTED "));
            assert!(client.ask("SET count 9").starts_with("-ABORTED "));
            assert!(client.ask("COMMIT").starts_with("-ABORTED "));
            client.script("SET free 1 => OK");
        }
        let again = one.ask(&format!("BEGIN JOIN {}", joint.name));
        assert!(
            again.starts_with("-ABORTED there is no open transaction"),
            "{again}"
        );
        assert!(!again.contains("  "), "{again}");
    }
}

#[test]
pub(crate) fn a_rank_index_is_right_after_a_joint_commit_and_after_a_rollback() {
    let fixture = Fixture::new();
    let mut other = fixture.client();
    for from in (0..3_000).step_by(100) {
        let members: Vec<String> = (from..from + 100).map(|n| format!("{n} m{n}")).collect();
        other.script(&format!("ZADD z {} => :100", members.join(" ")));
    }
    other.script("ZRANK z m2000 => :2000");
    for (is_committed, rank) in [(false, 2000), (true, 1997)] {
        let joint = begin(&fixture);
        let mut one = joint.client(&fixture);
        one.script("ZREM z m0 m1 m2 => :3\nZRANK z m2000 => :1997");
        other.script("ZRANK z m2000 => :2000");
        match is_committed {
            true => assert!(joint.commits()),
            false => joint.transaction.rollback(),
        }
        other.script(&format!("ZRANK z m2000 => :{rank}\nZREVRANK z m2999 => :0"));
    }
    other.script("ZADD z 0 m0 => :1\nZRANK z m2000 => :1998\nZCARD z => :2998");
}

#[test]
fn a_client_that_disconnects_leaves_its_writes_to_the_transaction() {
    let fixture = Fixture::new();
    let joint = begin(&fixture);
    let mut gone = joint.client(&fixture);
    gone.script("SET k 1 => OK\nHSET h f v => :1");
    drop(gone);
    let mut other = joint.client(&fixture);
    other.script("GET k => \"1\"\nRESET => RESET\nGET k => nil");
    assert!(joint.commits());
    other.script("GET k => \"1\"\nHGET h f => \"v\"");
}

#[test]
fn nothing_is_written_after_a_refused_commit() {
    let fixture = Fixture::new();
    let joint = begin(&fixture);
    let (mut one, mut two) = (joint.client(&fixture), joint.client(&fixture));
    two.script("SET j 1 => OK\nCOMMIT => OK");
    one.script("SET k 1 => OK");
    assert!(one.ask("NONSENSE").starts_with("-ERR unknown command"));
    let reply = one.ask("COMMIT");
    assert!(
        reply.starts_with("-ABORTED ") && reply.contains("nothing is written"),
        "{reply}"
    );
    let error = joint.transaction.commit(Some(Durability::Process)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ended, "{error}");
    assert!(error.to_string().contains("has failed"), "{error}");
    two.script("EXISTS j k => :0");
}

#[test]
fn a_command_that_fails_ends_the_joint_transaction_unless_it_is_lenient() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    for (option, commits) in [("", false), (" LENIENT", true)] {
        let joint = begin(&fixture);
        one.script(&format!("BEGIN JOIN {}{option} => OK\nSET k 1 => OK", joint.name));
        assert!(one.ask("LPUSH k x").starts_with("-WRONGTYPE"));
        assert!(one.ask("ABORT").starts_with("-ERR ABORT after BEGIN JOIN"));
        let reply = one.ask("COMMIT");
        assert_eq!(reply.trim_end() == "OK", commits, "{reply}");
        let committed = joint.transaction.commit(Some(Durability::Process));
        assert_eq!(committed.is_ok(), commits, "{committed:?}");
        two.script(if commits { "GET k => \"1\"" } else { "GET k => nil" });
    }
}

#[test]
fn users_write_in_a_joint_transaction_only_what_they_may_write_at_its_end() {
    let (_, fixture) = with_users(
        "user default on nopass allkeys allcommands\nuser writer on >pw ~app:* +@all\n\
         user reader on >pw ~* +@read\n",
    );
    let mut admin = fixture.client();
    let joint = begin(&fixture);
    let mut reader = fixture.client();
    reader.script("AUTH reader pw => OK");
    assert!(
        reader
            .ask(&format!("BEGIN JOIN {}", joint.name))
            .starts_with("-NOPERM")
    );
    let mut writer = fixture.client();
    writer.script("AUTH writer pw => OK");
    joint.join(&mut writer);
    writer.script("SET app:a 1 => OK");
    assert!(writer.ask("SET other 1").starts_with("-NOPERM"));
    let reply = writer.ask("COMMIT");
    assert!(reply.starts_with("-ABORTED "), "{reply}");
    assert!(joint.transaction.commit(None).is_err());
    admin.script("EXISTS app:a other => :0");

    let joint = begin(&fixture);
    joint.join(&mut writer);
    writer.script("SET app:a 1 => OK");
    admin.script("ACL SETUSER writer resetkeys ~none:* => OK");
    let reply = writer.ask("COMMIT");
    assert!(
        reply.starts_with("-NOPERM ") && reply.contains("nothing is"),
        "{reply}"
    );
    assert!(joint.transaction.commit(None).is_err());
    admin.script("EXISTS app:a => :0");
}

/// Returns whether a joint transaction commits in which a client has run `within`, if another
/// client has run `early` before the client joined, and `late` after its commands.
#[track_caller]
fn commits_beside(early: &str, within: &str, late: &str) -> bool {
    let fixture = Fixture::new();
    let mut other = fixture.client();
    other.script("MSET k 1 j 1 => OK\nRPUSH list x => :1\nHSET h f 1 => :1");
    let joint = begin(&fixture);
    let run = |client: &mut Client, commands: &str| {
        for command in commands.split(", ").filter(|command| !command.is_empty()) {
            let reply = client.ask(command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
    };
    run(&mut other, early);
    let mut one = joint.client(&fixture);
    run(&mut one, within);
    run(&mut other, late);
    one.script("COMMIT => OK");
    let state = "MGET k j";
    other.script("SELECT 0 => OK");
    let before = (other.ask(state), other.ask("HGETALL h"), other.ask("DBSIZE"));
    let is_committed = joint.commits();
    let after = (other.ask(state), other.ask("HGETALL h"), other.ask("DBSIZE"));
    assert!(is_committed || before == after, "{before:?} {after:?}");
    is_committed
}

#[test]
pub(crate) fn a_joint_commit_conflicts_with_what_others_have_changed_since_the_transaction_began() {
    for other in [
        "SET k 2",
        "INCR k",
        "DEL k",
        "FLUSHALL",
        "FLUSHDB",
        "RENAME k l",
        "DEL k, RPUSH k x",
        "SWAPDB 0 1, SWAPDB 1 2",
        "SWAPDB 0 1",
        "BEGIN, SET k 9, COMMIT",
        "MULTI, INCR k, EXEC",
    ] {
        for within in ["SET k 5", "INCR k"] {
            assert!(!commits_beside(other, within, ""), "{other}, then {within}");
            assert!(!commits_beside("", within, other), "{within}, then {other}");
        }
    }
    for (within, other) in [
        ("HSET h a 1", "HSET h b 1"),
        ("LPUSH list y", "RPUSH list z"),
        ("ZADD new 1 a", "ZADD new 2 b"),
        ("GET j, SET l 5", "INCR j"),
        ("DBSIZE, SET l 5", "DEL j"),
    ] {
        assert!(!commits_beside(other, within, ""), "{other}, then {within}");
        assert!(!commits_beside("", within, other), "{within}, then {other}");
    }
    for (within, other) in [
        ("INCR k", "INCR j"),
        ("HSET h a 1", "RPUSH list z"),
        ("SET k 5", "SELECT 1, SET k 6"),
        ("GET k", "INCR k"),
        ("SET k 5", "SWAPDB 3 3"),
        ("SET k 5", "SWAPDB 3 3, GET k"),
    ] {
        assert!(commits_beside(other, within, ""), "{other}, then {within}");
        assert!(commits_beside("", within, other), "{within}, then {other}");
    }
}

#[test]
pub(crate) fn a_client_sees_databases_and_keys_as_they_were_when_the_joint_transaction_began() {
    let fixture = Fixture::new();
    let mut other = fixture.client();
    other.script("SET k zero => OK\nHSET h f zero => :1\nSELECT 1 => OK\nSET k one => OK");
    let joint = begin(&fixture);
    other.script("SWAPDB 0 1 => OK\nFLUSHALL => OK\nSELECT 0 => OK\nSET k new => OK");
    let mut one = joint.client(&fixture);
    one.script("GET k => \"zero\"\nHGETALL h => [\"f\" \"zero\"]\nSELECT 1 => OK\nGET k => \"one\"");
    one.script("DBSIZE => :1\nCOMMIT => OK");
    assert!(joint.commits(), "it has only read");
    other.script("GET k => \"new\"\nDBSIZE => :1");
}

#[test]
fn watched_keys_of_others_are_touched_by_a_joint_commit_only() {
    let fixture = Fixture::new();
    let mut other = fixture.client();
    for (is_committed, expected) in [(false, "[OK]"), (true, "nil array")] {
        for change in ["SET k 1", "HSET h f 1", "RPUSH l 1"] {
            other.script("FLUSHALL => OK\nWATCH k h l => OK\nMULTI => OK\nSET done 1 => QUEUED");
            let joint = begin(&fixture);
            let mut one = joint.client(&fixture);
            assert!(!one.ask(change).starts_with('-'));
            match is_committed {
                true => assert!(joint.commits()),
                false => joint.transaction.rollback(),
            }
            other.script(&format!("EXEC => {expected}"));
        }
    }
}

#[test]
fn expiry_times_count_from_the_time_when_a_client_joins() {
    let fixture = Fixture::new();
    let joint = begin(&fixture);
    let mut first = joint.client(&fixture);
    first.script("SET early 1 PX 60 => OK\nCOMMIT => OK");
    std::thread::sleep(Duration::from_millis(80));
    joint.join(&mut first);
    first.script("SET late 1 PX 600000 => OK");
    first.script("GET early => nil\nCOMMIT => OK");
    assert!(joint.commits());
    first.script("GET early => nil\nGET late => \"1\"");
}

/// Clients on one thread of the server: some write keys plainly, others in joint transactions that
/// another thread commits.
#[test]
fn joint_transactions_and_other_clients_never_wait_for_each_other_forever() {
    let fixture = Fixture::with(alluvium_server::ServerOptions {
        loops: Some(1),
        ..crate::client::options()
    });
    let rounds = 60;
    let until = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                for round in 0..rounds * 5 {
                    client.script(&format!("SET plain{writer} {round} => OK"));
                    client.ask("INCR shared");
                }
            });
        }
        for party in 0..2 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut committed = 0;
                for round in 0..rounds {
                    assert!(Instant::now() < until);
                    let joint = begin(fixture);
                    std::thread::scope(|scope| {
                        for client in 0..2 {
                            let joint = &joint;
                            scope.spawn(move || {
                                let mut one = joint.client(fixture);
                                one.ask(&format!("HINCRBY h{party} f{client} 1"));
                                if round % 3 == 0 {
                                    one.ask("INCR shared");
                                }
                                one.ask("COMMIT");
                            });
                        }
                    });
                    committed += u64::from(joint.commits());
                }
                let mut client = fixture.client();
                client.script(&format!(
                    "HGET h{party} f0 => \"{committed}\"\nHGET h{party} f1 => \"{committed}\""
                ));
            });
        }
    });
}
