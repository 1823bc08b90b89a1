//! SORT, SORT_RO, BITFIELD and OBJECT IDLETIME must reply as Redis 7.0 does.

use crate::client::Fixture;

#[test]
pub(crate) fn elements_are_sorted_by_themselves_and_by_other_keys() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        RPUSH l 3 1 10 2 => :4
        SORT l => ["1" "2" "3" "10"]
        SORT l DESC => ["10" "3" "2" "1"]
        SORT l ALPHA => ["1" "10" "2" "3"]
        SORT l LIMIT 1 2 => ["2" "3"]
        SORT l LIMIT -3 1 => ["1"]
        SORT l LIMIT 9 9 => []
        SORT l LIMIT 2 -1 => ["3" "10"]
        MSET w1 30 w2 20 w3 10 => OK
        SORT l BY w* => ["10" "3" "2" "1"]
        SORT l BY w* DESC => ["1" "2" "3" "10"]
        HSET h1 f c g x => :2
        HSET h2 f b => :1
        HSET h3 f a => :1
        SORT l BY h*->f ALPHA => ["10" "3" "2" "1"]
        SORT l BY nosort => ["3" "1" "10" "2"]
        SORT l BY nosort DESC => ["2" "10" "1" "3"]
        SORT l BY nosort DESC LIMIT 1 2 => ["10" "1"]
        SORT l BY nosort DESC LIMIT 3 -1 => ["3"]
        SORT l GET # GET w* GET h*->g => ["1" "30" "x" "2" "20" nil "3" "10" nil "10" nil nil]
        SORT l GET fixed LIMIT 0 1 => [nil]
        SORT l GET h* LIMIT 0 1 => [nil]
        SORT l GET w*->f LIMIT 0 1 => [nil]
        SORT none => []
        SORT_RO l LIMIT 0 1 => ["1"]
        SORT_RO l STORE to => -ERR syntax error
        SORT l LIMIT 0 => -ERR syntax error
        SORT l BY => -ERR syntax error
        SORT l LIMIT x 1 => -ERR value is not an integer or out of range
        SADD s b a => :2
        SORT s => -ERR One or more scores can't be converted into double
        SORT s ALPHA DESC => ["b" "a"]
        SET wa x => OK
        SORT s BY w* => -ERR One or more scores can't be converted into double
        ZADD z 3 c 1 a 2 b => :3
        SORT z BY nosort => ["a" "b" "c"]
        SORT z BY nosort DESC LIMIT 0 2 => ["c" "b"]
        SORT z ALPHA DESC => ["c" "b" "a"]
        SET text x => OK
        SORT text => -WRONGTYPE Operation against a key holding the wrong kind of value
        SORT h1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
pub(crate) fn what_was_sorted_is_stored_as_a_list() {
    let fixture = Fixture::new();
    let (mut client, mut watcher) = (fixture.client(), fixture.client());
    client.script(
        r#"
        RPUSH l 3 1 2 => :3
        SET w3 x => OK
        SORT l STORE to => :3
        LRANGE to 0 -1 => ["1" "2" "3"]
        SORT l GET w* GET # STORE l => :6
        LRANGE l 0 -1 => ["" "1" "" "2" "x" "3"]
        SADD s b c a => :3
        SORT s BY nosort STORE to => :3
        LRANGE to 0 -1 => ["a" "b" "c"]
        EXPIRE to 1000 => :1
        SORT s ALPHA STORE to => :3
        TTL to => :-1
        COMMAND GETKEYS SORT a BY w_* GET v_* STORE b => ["a" "b"]
        "#,
    );
    watcher.script("WATCH to => OK\nMULTI => OK\nPING => QUEUED");
    client.script("SORT none STORE to => :0\nEXISTS to => :0");
    watcher.script("EXEC => nil array");
    client.script("MULTI => OK\nRPUSH q 2 1 => QUEUED\nSET w2 0 => QUEUED\nSORT q BY w* STORE q2 => QUEUED\nLRANGE q2 0 -1 => QUEUED");
    client.script(r#"EXEC => [:2 OK :2 ["1" "2"]]"#);
}

#[test]
fn a_long_list_is_sorted_and_stored_in_steps() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for first in (0..20_000).step_by(1000) {
        let numbers: Vec<String> = (first..first + 1000)
            .map(|number| format!("{}", (number * 7919) % 20_000))
            .collect();
        client.ask(&format!("RPUSH l {}", numbers.join(" ")));
    }
    let all: Vec<String> = (0..20_000).map(|number| format!("\"{number}\"")).collect();
    assert_eq!(client.ask("SORT l"), format!("[{}]", all.join(" ")));
    client.script("SORT l STORE l => :20000\nLINDEX l 0 => \"0\"\nLINDEX l 19999 => \"19999\"");
}

#[test]
pub(crate) fn integers_within_strings_are_read_and_changed() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        BITFIELD b SET u8 0 255 GET i8 0 GET u4 4 => [:0 :-1 :15]
        BITFIELD b INCRBY u8 0 2 => [:1]
        BITFIELD b OVERFLOW SAT INCRBY u8 0 300 OVERFLOW FAIL INCRBY u8 0 1 => [:255 nil]
        BITFIELD b SET i8 #1 -128 INCRBY i8 #1 -1 GET i8 8 => [:0 :127 :127]
        BITFIELD b OVERFLOW SAT SET u4 0 -1 GET u4 0 => [:15 :15]
        GET b => "\xff\x7f"
        BITFIELD b GET i64 0 GET u63 100 => [:-36310271995674624 :0]
        BITFIELD_RO b GET u8 0 => [:255]
        BITFIELD_RO b SET u8 0 1 => -ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD b GET u64 0 => -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD b GET u8 -1 => -ERR bit offset is not an integer or out of range
        BITFIELD b GET u8 9223372036854775807 => -ERR bit offset is not an integer or out of range
        BITFIELD b GET i64 #9223372036854775807 => -ERR bit offset is not an integer or out of range
        BITFIELD b OVERFLOW x => -ERR Invalid OVERFLOW type specified
        BITFIELD b GET u8 => -ERR syntax error
        BITFIELD b => []
        BITFIELD none GET u8 0 => [:0]
        EXISTS none => :0
        RPUSH l x => :1
        BITFIELD l GET u8 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
        BITFIELD l SET u8 0 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET e x EX 100 => OK
        BITFIELD e SET u8 8 121 => [:0]
        GET e => "xy"
        TTL e => :100
        "#,
    );
}

#[test]
fn a_key_is_idle_until_it_is_used() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let mut other = fixture.client();
    client.script(
        "OBJECT IDLETIME none => nil
         OBJECT FREQ none => nil
         MSET a 1 b 1 => OK
         OBJECT IDLETIME a => :0",
    );
    other.script("CLIENT NO-TOUCH ON => OK");
    let idle = |client: &mut crate::client::Client, key: &str| -> u64 {
        let reply = client.ask(&format!("OBJECT IDLETIME {key}"));
        reply[1..].parse().unwrap()
    };
    // Commands that only inspect the key do not count as accesses.
    let mut turns = 0;
    while idle(&mut client, "a") == 0 {
        client.ask("TTL a");
        client.ask("TYPE a");
        client.ask("EXISTS a");
        other.ask("GET a");
        client.ask("GET b");
        std::thread::sleep(std::time::Duration::from_millis(20));
        turns += 1;
        assert!(turns < 1000, "it is idle some time");
    }
    client.ask("GET a");
    client.ask("DEBUG SLEEP 1.2");
    assert!(idle(&mut client, "a") >= 1);
    other.ask("TOUCH a");
    let after = idle(&mut client, "a");
    client.ask("DEBUG SLEEP 1.2");
    assert!(idle(&mut client, "a") > after);
    assert!(
        client
            .ask("OBJECT FREQ a")
            .starts_with("-ERR An LFU maxmemory policy is not selected")
    );
}
