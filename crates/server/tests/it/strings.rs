//! Strings, and batches of commands executed together.

use crate::client::{Fixture, request};

#[test]
pub(crate) fn strings_do_what_redis_says() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        PING => PONG
        SET a 1 => OK
        GET a => "1"
        GET none => nil
        INCR a => :2
        INCRBY a 40 => :42
        DECR a => :41
        DECRBY a 1 => :40
        INCRBYFLOAT a 0.5 => "40.5"
        INCR a => -ERR value is not an integer or out of range
        APPEND a xyz => :7
        STRLEN a => :7
        GETRANGE a 2 -2 => ".5xy"
        SETRANGE a 9 z => :10
        GET a => "40.5xyz\x00\x00z"
        SETRANGE a -1 z => -ERR offset is out of range
        SET a 2 NX => nil
        SET b 2 XX => nil
        SET b 2 NX => OK
        SET b 3 GET => "2"
        SET b 4 NX GET => "3"
        SET b 4 XX NX => -ERR syntax error
        SET b 4 EX 0 => -ERR invalid expire time in 'set' command
        SET b 4 EX x => -ERR value is not an integer or out of range
        GETSET b 5 => "3"
        GETDEL b => "5"
        GETDEL b => nil
        SETNX b 1 => :1
        SETNX b 2 => :0
        MSET a 1 b 2 c 3 => OK
        MSET a 1 b => -ERR wrong number of arguments for 'mset' command
        MSETNX c 1 d 2 => :0
        MSETNX d 1 e 2 => :1
        MGET a b c d none => ["1" "2" "3" "1" nil]
        SET big 9223372036854775807 => OK
        INCR big => -ERR increment or decrement would overflow
        DECRBY a -9223372036854775808 => -ERR decrement would overflow
        GET => -ERR wrong number of arguments for 'get' command
        NOSUCH a b => -ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'
        "#,
    );
}

#[test]
pub(crate) fn other_types_are_refused_where_a_string_is_wanted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.ask("RPUSH list a");
    for command in [
        "GET list",
        "APPEND list a",
        "INCR list",
        "GETSET list a",
        "STRLEN list",
        "GETRANGE list 0 1",
        "SETRANGE list 0 a",
        "GETDEL list",
        "GETEX list",
        "INCRBYFLOAT list 1",
        "SET list a GET",
    ] {
        let expected = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(client.ask(command), expected, "{command}");
    }
    client.script(
        "MGET list => [nil]
         SETNX list a => :0
         LLEN list => :1
         SET list a => OK
         GET list => \"a\"
         RPUSH list a => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
pub(crate) fn pipelined_commands_see_what_those_before_them_did() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let mut bytes = Vec::new();
    for index in 0..2000 {
        let key = format!("key-{}", index % 7);
        bytes.extend(request(&[b"INCR", key.as_bytes()]));
        bytes.extend(request(&[b"GET", key.as_bytes()]));
        bytes.extend(request(&[b"RPUSH", b"list", key.as_bytes()]));
        bytes.extend(request(&[b"LINDEX", b"list", b"-1"]));
    }
    client.send_bytes(&bytes);
    for index in 0..2000 {
        let count = index / 7 + 1;
        assert_eq!(client.reply(), format!(":{count}"));
        assert_eq!(client.reply(), format!("\"{count}\""));
        assert_eq!(client.reply(), format!(":{}", index + 1));
        assert_eq!(client.reply(), format!("\"key-{}\"", index % 7));
    }
}

#[test]
pub(crate) fn a_failing_command_does_not_touch_its_neighbours() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send_bytes(b"SET a x\r\nINCR a\r\nSET b 1\r\nNOSUCH\r\nGET a b\r\nGET a\r\nINCR b\r\n");
    assert_eq!(client.reply(), "OK");
    assert!(client.reply().starts_with("-ERR value is not an integer"));
    assert_eq!(client.reply(), "OK");
    assert!(client.reply().starts_with("-ERR unknown command"));
    assert!(client.reply().starts_with("-ERR wrong number"));
    assert_eq!(client.reply(), "\"x\"");
    assert_eq!(client.reply(), ":2");
}

#[test]
pub(crate) fn counters_of_many_connections_lose_nothing() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = fixture.client();
                for _ in 0..100 {
                    client.send_bytes(&b"INCR n\r\nRPUSH l x\r\nSADD s a b\r\nHINCRBY h f 2\r\n".repeat(5));
                    for _ in 0..20 {
                        assert!(client.reply().starts_with(':'));
                    }
                }
            });
        }
    });
    fixture.client().script(
        "GET n => \"4000\"
         LLEN l => :4000
         SCARD s => :2
         HGET h f => \"8000\"",
    );
}
