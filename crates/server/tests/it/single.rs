//! Commands on replication, clusters and settings, as a single server answers them.

use crate::client::Fixture;

#[test]
fn a_single_server_answers_for_replicas_and_clusters_that_it_does_not_have() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        CLUSTER INFO => -ERR This instance has cluster support disabled
        CLUSTER KEYSLOT k => -ERR This instance has cluster support disabled
        CLUSTER => -ERR wrong number of arguments for 'cluster' command
        READONLY => -ERR This instance has cluster support disabled
        READWRITE => -ERR This instance has cluster support disabled
        ASKING => -ERR This instance has cluster support disabled
        REPLICAOF NO ONE => OK
        SLAVEOF no one => OK
        REPLICAOF localhost x => -ERR Invalid master port
        REPLICAOF localhost 6379 => -ERR this server cannot be a replica; REPLICAOF accepts NO ONE only
        FAILOVER => -ERR FAILOVER requires connected replicas.
        FAILOVER ABORT => -ERR No failover in progress.
        SET k 1 => OK
        BGREWRITEAOF => Background append only file rewriting started
        WAIT 1 0 => :0
        WAIT x 0 => -ERR value is not an integer or out of range
        WAIT 1 -1 => -ERR timeout is negative
        WAITAOF 1 0 0 => [:1 :0]
        WAITAOF 1 1 0 => [:1 :0]
        WAITAOF 2 0 0 => -ERR value is out of range, must be between 0 and 1
        WAITAOF 1 0 -1 => -ERR timeout is negative
        GET k => "1"
        "#,
    );
}

#[test]
fn settings_of_redis_keep_what_is_set_and_others_accept_what_is_so() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        CONFIG GET list-max-listpack-size => ["list-max-listpack-size" "-2"]
        CONFIG SET list-max-listpack-size -5 hz 20 => OK
        CONFIG GET list-max-listpack-size => ["list-max-listpack-size" "-5"]
        CONFIG SET hz 30 activedefrag maybe => -ERR CONFIG SET failed (possibly related to argument 'activedefrag') - argument must be 'yes' or 'no'
        CONFIG GET hz => ["hz" "20"]
        CONFIG SET hz many => -ERR CONFIG SET failed (possibly related to argument 'hz') - argument must be a memory value
        CONFIG SET maxmemory-policy noeviction appendonly yes databases 16 => OK
        CONFIG SET maxmemory-policy allkeys-lru => -ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - can't set immutable config
        CONFIG SET hz 40 port 1 => -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config
        CONFIG GET hz => ["hz" "20"]
        "#,
    );
    let mut client = fixture.client();
    client.send(&[b"CONFIG", b"SET", b"save", b""]);
    assert_eq!(client.reply(), "OK");
    client.send(&[b"CONFIG", b"SET", b"save", b"60 1"]);
    assert!(client.reply().contains("'save'"));
}
