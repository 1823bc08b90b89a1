//! Scripts in Lua: EVAL, EVALSHA and SCRIPT.

use crate::client::{Client, Fixture};
use crate::differential::start_redis;
use std::time::{Duration, Instant};

/// Runs a script with keys and arguments, and returns the reply.
fn eval(client: &mut Client, body: &str, keys: &[&str], arguments: &[&str]) -> String {
    send_eval(client, "EVAL", body, keys, arguments);
    client.reply()
}

fn send_eval(client: &mut Client, command: &str, body: &str, keys: &[&str], arguments: &[&str]) {
    let count = keys.len().to_string();
    let mut words = vec![command.as_bytes(), body.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().chain(arguments).map(|word| word.as_bytes()));
    client.send(&words);
}

/// Scripts whose replies are compared with those of Redis. Each may set keys for the next.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 'text'",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {1, 2, {3, 'x', {ok = 'fine'}}, nil, 5}",
    "return {err = 'MY error'}",
    "return {ok = 'status'}",
    "return {double = 1.5}",
    "return {map = {a = 1}}",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('word')",
    "return redis.error_reply('-MINUS x')",
    "return redis.status_reply('STATUS')",
    "return redis.call('SET', 'k', 'v')",
    "return redis.call('GET', 'k')",
    "return redis.call('GET', 'none')",
    "return type(redis.call('GET', 'none'))",
    "return redis.call('SET', 'n', 10.5)",
    "return redis.call('GET', 'n')",
    "redis.call('SET', 'n', 3.3) return redis.call('GET', 'n')",
    "redis.call('SET', 'n', 100000000000000000000) return redis.call('GET', 'n')",
    "redis.call('SET', 'n', 12) return redis.call('INCR', 'n')",
    "redis.call('RPUSH', 'l', 1, 2, 3) return redis.call('LRANGE', 'l', 0, -1)",
    "return #redis.call('LRANGE', 'l', 0, -1)",
    "return redis.call('LPOP', 'l', 2)",
    "redis.call('HSET', 'h', 'a', 1) return redis.call('HGETALL', 'h')",
    "redis.call('ZADD', 'z', 1.5, 'a') return redis.call('ZSCORE', 'z', 'a')",
    "return redis.pcall('INCR', 'k')",
    "return redis.pcall('INCR', 'k').err",
    "local r = redis.pcall('NOSUCH') return r.err",
    "local r = redis.pcall('GET') return r.err",
    "local r = redis.pcall('SUBSCRIBE', 'x') return r.err",
    "local ok, r = pcall(redis.call, 'INCR', 'k') return {tostring(ok), r}",
    "local ok, r = pcall(redis.call) return r",
    "local ok, r = pcall(redis.call, {}) return r",
    "local ok, r = pcall(error, {err = 'MY x'}) return r",
    "local ok, r = pcall(error, {x = 1}) return r.x",
    "return {type(KEYS), type(ARGV), #KEYS, #ARGV}",
    "local t = {} for i = 1, 100 do t[i] = i end return t",
    "return redis.call('PING')",
    "return redis.call('ECHO', 'x')",
    "redis.call('SELECT', 1) redis.call('SET', 'other', 1) return redis.call('DBSIZE')",
    "return redis.call('EXISTS', 'other')",
    "return redis.sha1hex('')",
    "return {redis.LOG_DEBUG, redis.LOG_WARNING, redis.REPL_ALL}",
    "return tostring(redis.replicate_commands())",
    "redis.setresp(3) return redis.call('HGETALL', 'h')",
    "redis.setresp(3) return redis.call('GET', 'none')",
    "redis.setresp(3) return redis.call('ZSCORE', 'z', 'a')",
    "redis.setresp(3) return true",
    "redis.setresp(3) local h = redis.call('HGETALL', 'h') return h.map.a",
    "return {bit.band(12, 10), bit.bor(12, 10), bit.bxor(12, 10), bit.bnot(0), bit.tobit(4294967295)}",
    "return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2), bit.rol(1, 33), bit.ror(1, 1)}",
    "return {bit.bswap(1), bit.tohex(255), bit.tohex(-1, -4), bit.band(-1, 255, 15)}",
    "return cjson.encode({1, 2, 3})",
    "return cjson.encode({a = 1})",
    "return cjson.encode({})",
    "return cjson.encode({1, nil, 3})",
    "return cjson.encode('a\"b/\\\\c\\n\\0d\\127')",
    "return {cjson.encode(1.5), cjson.encode(1e100), cjson.encode(0.1), cjson.encode(-3), cjson.encode(2^53)}",
    "return {cjson.encode(true), cjson.encode(cjson.null), cjson.encode(nil)}",
    "return cjson.encode({[1] = 1, [2] = 2, x = 3}) ~= nil",
    "return select(2, pcall(cjson.encode, {[1] = 1, [100] = 2}))",
    "return select(2, pcall(cjson.encode, {[1] = print}))",
    "return select(2, pcall(cjson.encode, 0/0))",
    "return cjson.decode('[1, 2.5, \"x\", true, false, null]')[2]",
    "return cjson.decode('{\"a\": {\"b\": [1, {\"c\": \"d\"}]}}').a.b[2].c",
    "return cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\n\"')",
    "return tostring(cjson.decode('[null]')[1] == cjson.null)",
    "return cjson.decode(' 12 ')",
    "return {pcall(cjson.decode, '[1,')}",
    "return {pcall(cjson.decode, 'nope')}",
    "return {pcall(cjson.decode, '{\"a\" 1}')}",
    "return {pcall(cjson.decode, '[1] x')}",
    "return cmsgpack.pack(1, -1, 300, -300, 70000, 2^40, -2^40, 1.5, 0.1)",
    "return cmsgpack.pack('', 'x', string.rep('y', 40), string.rep('z', 300))",
    "return cmsgpack.pack({1, 2, 3}, {}, {a = 1}, nil, true, false)",
    "return cmsgpack.pack({1, {2, {3, {4, {5, {6}}}}}})",
    "return {cmsgpack.unpack(cmsgpack.pack(1, -1, 300, -70000, 'x', {1, {a = 'b'}}))}",
    "local t = cmsgpack.unpack(cmsgpack.pack({a = {1, 2}})) return t.a[2]",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}",
    "return tostring(cmsgpack.unpack(cmsgpack.pack(0.5)))",
    "return tostring((pcall(cmsgpack.unpack, '\\220')))",
    "return struct.pack('>I2hbB<i4', 258, -2, -1, 200, 70000)",
    "return struct.pack('<d>f', 1.5, 0.25)",
    "return struct.pack('Bc0sx', 3, 'abc', 'zero')",
    "return {struct.unpack('>I2hbB', struct.pack('>I2hbB', 258, -2, -1, 200))}",
    "return {struct.unpack('Bc0s', struct.pack('Bc0s', 3, 'abc', 'zero'))}",
    "return {struct.size('>I2i8d'), struct.size('!4bi4'), struct.size('llH')}",
    "return {struct.unpack('<I4', '\\1\\0\\0\\0\\2\\0\\0\\0', 5)}",
    "return tostring((pcall(struct.unpack, '>I8', 'x')))",
    "x = 1",
    "return undefined_name",
    "string.format = 1",
    "redis.call = 1",
    "return tostring(pcall(rawset, string, 'x', 1))",
    "return {type(string), type(table.concat), type(math.floor), type(redis.call)}",
    "return {type(tonumber('12')), tostring(1e15), tostring(0.1), 10 / 3}",
    "return string.format('%5.2f|%d|%s|%q', 1.234, 42, 'x', 'y')",
    "local s = 0 for word in string.gmatch('a bb ccc', '%a+') do s = s + #word end return s",
    "return table.concat({1, 2, 3}, '-')",
    "return loadstring('return 1 + 1')()",
    "local t = setmetatable({}, {__index = function(_, k) return k .. '!' end}) return t.x",
    "return {unpack({1, 2, 3}, 2)}",
    "local co = coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) end) return {co(), co()}",
    "return redis.call('TYPE', 'h')",
    "return redis.call('TYPE', 'h').ok",
    "return redis.call('SETEX', 'k', 100, 'v')",
    "return redis.call('TTL', 'k')",
    "return redis.call('MGET', 'k', 'none', 'n')",
    "return redis.call('SORT', 'l', 'ALPHA')",
    "return redis.call('KEYS', 'k*')",
    "return redis.call('DBSIZE')",
    "redis.call('FLUSHALL') return redis.call('DBSIZE')",
    "return 1 +",
    "#!lua flags=no-writes\nreturn redis.call('GET', 'k')",
    "#!lua flags=no-writes\nreturn redis.pcall('SET', 'k', 1).err",
    "#!lua flags=nonsense\nreturn 1",
    "#!python\nreturn 1",
];

#[test]
fn scripts_reply_as_in_redis() {
    let Some(redis) = start_redis() else {
        return;
    };
    let fixture = Fixture::new();
    for version in ["2", "3"] {
        let (mut theirs, mut ours) = (Client::connect(redis.address), fixture.client());
        for client in [&mut theirs, &mut ours] {
            let _ = client.ask(&format!("HELLO {version}"));
            let _ = client.ask("FLUSHALL");
        }
        let mut differences = Vec::new();
        for script in SCRIPTS {
            let replies = [&mut theirs, &mut ours].map(|client| eval(client, script, &[], &[]));
            // Texts of errors name the interpreter's own functions and lines.
            let same = replies[0] == replies[1]
                || replies.iter().all(|reply| reply.starts_with("-ERR"))
                || replies
                    .iter()
                    .all(|reply| reply.starts_with("[:0") || reply.starts_with("[nil"));
            if !same {
                differences.push(format!(
                    "{script}\n  Redis {}\n  here  {}",
                    replies[0], replies[1]
                ));
            }
        }
        assert!(
            differences.is_empty(),
            "RESP{version}:\n{}",
            differences.join("\n")
        );
    }
}

#[test]
fn a_script_sees_its_arguments_and_is_found_by_its_digest() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert_eq!(
        eval(
            &mut client,
            "return {KEYS[1], KEYS[2], ARGV[1]}",
            &["a", "b"],
            &["x"]
        ),
        "[\"a\" \"b\" \"x\"]"
    );
    client.send(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]);
    let digest = client.reply().trim_matches('"').to_owned();
    client.script(&format!(
        r#"
        SCRIPT EXISTS {digest} 0000 => [:1 :0]
        EVALSHA {digest} 0 x => "x"
        EVALSHA_RO {digest} 0 y => "y"
        EVALSHA 0000 0 => -NOSCRIPT No matching script. Please use EVAL.
        EVAL return x => -ERR value is not an integer or out of range
        EVALSHA {digest} 2 x => -ERR Number of keys can't be greater than number of args
        EVALSHA {digest} -1 x => -ERR Number of keys can't be negative
        EVAL return => -ERR wrong number of arguments for 'eval' command
        COMMAND GETKEYS EVAL x 2 a b c => ["a" "b"]
        SCRIPT FLUSH => OK
        SCRIPT EXISTS {digest} => [:0]
        SCRIPT FLUSH NOW => -ERR SCRIPT FLUSH only support SYNC|ASYNC option
        SCRIPT KILL => -NOTBUSY No scripts in execution right now.
        FUNCTION FLUSH => OK
        FUNCTION LIST => []
        FCALL f 0 => -ERR Function not found
        "#
    ));
    client.send(&[b"SCRIPT", b"LOAD", b"return +"]);
    assert!(client.reply().starts_with("-ERR Error compiling script"));
    let text = eval(&mut client, "local x = nil\nreturn x.y", &[], &[]);
    assert!(text.starts_with("-ERR user_script:2: attempt to index"), "{text}");
    assert!(text.ends_with("on @user_script:2."), "{text}");
    let text = eval(
        &mut client,
        "redis.call('SET', 's', 1) return redis.call('LPUSH', 's', 1)",
        &[],
        &[],
    );
    assert!(text.starts_with("-WRONGTYPE Operation against"), "{text}");
}

#[test]
fn the_writes_of_a_script_become_visible_together_and_stay_after_an_error() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let reply = eval(&mut client, "redis.call('SET', 'a', 1) error('no')", &[], &[]);
    assert!(reply.starts_with("-ERR user_script:1: no"), "{reply}");
    assert_eq!(client.ask("GET a"), "\"1\"");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                for _ in 0..100 {
                    // Some scripts declare both keys, some none.
                    let keys: &[&str] = if number % 2 == 0 { &["one", "two"] } else { &[] };
                    let body = "local n = redis.call('INCR', 'one') redis.call('SET', 'two', n) return n";
                    assert!(eval(&mut client, body, keys, &[]).starts_with(':'));
                }
            });
        }
        let fixture = &fixture;
        scope.spawn(move || {
            let mut client = fixture.client();
            for _ in 0..200 {
                client.send_bytes(b"MULTI\r\nGET one\r\nGET two\r\nEXEC\r\n");
                let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
                let pair = replies[3].trim_matches(['[', ']']);
                let (one, two) = pair.split_once(' ').unwrap();
                assert_eq!(one, two);
            }
        });
    });
    assert_eq!(client.ask("MGET one two"), "[\"400\" \"400\"]");
}

#[test]
fn scripts_run_within_transactions() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let body = "redis.call('INCR', 'n') redis.call('RPUSH', 'l', ARGV[1]) return redis.call('LLEN', 'l')";
    client.script("MULTI => OK\nSET n 5 => QUEUED");
    assert_eq!(eval(&mut client, body, &[], &["x"]), "QUEUED");
    assert_eq!(
        eval(&mut client, "return redis.call('GET', 'n')", &[], &[]),
        "QUEUED"
    );
    client.script("EXEC => [OK :1 \"6\"]");
    client.script("BEGIN => OK");
    assert_eq!(eval(&mut client, body, &["n"], &["y"]), ":2");
    assert_eq!(
        eval(&mut client, "return redis.call('GET', 'n')", &[], &[]),
        "\"7\""
    );
    fixture.client().script("GET n => \"6\"");
    client.script("COMMIT => OK\nGET n => \"7\"\nLRANGE l 0 -1 => [\"x\" \"y\"]\nBEGIN => OK");
    assert_eq!(eval(&mut client, body, &[], &["z"]), ":3");
    fixture.client().script("SET n 100 => OK");
    assert!(client.ask("COMMIT").starts_with("-CONFLICT"));
    client.script("GET n => \"100\"\nLLEN l => :2\nBEGIN => OK");
    assert!(eval(&mut client, "redis.call('SET', 'n', 1) error('no')", &[], &[]).starts_with("-ERR"));
    assert!(client.ask("COMMIT").starts_with("-ABORTED"));
    client.script("GET n => \"100\"");
}

#[test]
fn scripts_wake_those_who_wait_and_send_messages_at_their_end() {
    let fixture = Fixture::new();
    let (mut one, mut two, mut client) = (fixture.client(), fixture.client(), fixture.client());
    let _ = two.ask("SUBSCRIBE news");
    one.send(&[b"BLPOP", b"q", b"0"]);
    while !client.ask("INFO clients").contains("blocked_clients:1") {}
    let body =
        "redis.call('RPUSH', 'q', 'a') redis.call('PUBLISH', 'news', 'm') return redis.call('LLEN', 'q')";
    assert_eq!(eval(&mut client, body, &["q"], &[]), ":1");
    assert_eq!(one.reply(), "[\"q\" \"a\"]");
    assert_eq!(two.reply(), "[\"message\" \"news\" \"m\"]");
}

#[test]
fn a_script_that_only_reads_and_a_user_without_permission_write_nothing() {
    let fixture = Fixture::new();
    let (mut admin, mut client) = (fixture.client(), fixture.client());
    let write = "return redis.call('SET', KEYS[1], 1)";
    send_eval(&mut client, "EVAL_RO", write, &["a"], &[]);
    assert!(
        client
            .reply()
            .starts_with("-ERR Write commands are not allowed from read-only scripts.")
    );
    send_eval(
        &mut client,
        "EVAL_RO",
        "return redis.call('GET', KEYS[1])",
        &["a"],
        &[],
    );
    assert_eq!(client.reply(), "nil");
    admin.script("ACL SETUSER u on >p ~a* +@all -set => OK");
    assert_eq!(client.ask("AUTH u p"), "OK");
    let reply = eval(&mut client, write, &["a"], &[]);
    assert!(
        reply.starts_with("-NOPERM The user executing the script can't run"),
        "{reply}"
    );
    let reply = eval(&mut client, "return redis.call('GET', 'b')", &[], &[]);
    assert!(
        reply.starts_with("-NOPERM The user executing the script can't access"),
        "{reply}"
    );
    assert!(eval(&mut client, "return 1", &["b"], &[]).starts_with("-NOPERM"));
    assert_eq!(admin.ask("EXISTS a"), ":0");
}

#[test]
fn a_script_without_end_is_ended_and_has_written_nothing() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("CONFIG SET busy-reply-threshold 60000 => OK");
    for body in [
        "redis.call('SET', 'a', 1) while true do end",
        "redis.call('SET', 'a', 1) while true do pcall(function() while true do end end) end",
        "redis.call('SET', 'a', 1) local co = coroutine.wrap(function() while true do end end) co()",
        "redis.call('SET', 'a', 1) while true do redis.pcall('GET', 'b') end",
    ] {
        send_eval(&mut one, "EVAL", body, &["a"], &[]);
        let limit = Instant::now() + Duration::from_secs(30);
        while two.ask("SCRIPT KILL") != "OK" {
            assert!(Instant::now() < limit);
        }
        let reply = one.reply();
        assert!(reply.contains("killed by user"), "{reply}");
        two.script("EXISTS a => :0");
    }
    two.script("CONFIG SET lua-time-limit 50 => OK");
    let reply = eval(&mut one, "redis.call('SET', 'a', 1) while true do end", &[], &[]);
    assert!(reply.contains("busy-reply-threshold"), "{reply}");
    one.script("MULTI => OK\nSET b 1 => QUEUED");
    let _ = eval(&mut one, "redis.call('SET', 'a', 1) while true do end", &[], &[]);
    assert!(one.ask("EXEC").starts_with("-EXECABORT"));
    one.script("BEGIN LENIENT => OK\nSET b 1 => OK");
    let _ = eval(&mut one, "redis.call('SET', 'a', 1) while true do end", &[], &[]);
    assert!(one.ask("COMMIT").starts_with("-ABORTED"));
    two.script("EXISTS a b => :0");
    assert_eq!(eval(&mut one, "return 1", &[], &[]), ":1");
}

#[test]
fn a_server_that_stops_ends_scripts() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("CONFIG SET busy-reply-threshold 0 => OK");
    send_eval(
        &mut one,
        "EVAL",
        "redis.call('SET', 'a', 1) while true do end",
        &["a"],
        &[],
    );
    let body = "local n = 0 for i = 1, 1000 do n = n + i end return n";
    assert_eq!(eval(&mut two, body, &[], &[]), ":500500");
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert!(one.try_reply().is_none_or(|reply| reply.starts_with('-')));
}

#[test]
fn hostile_scripts_stay_within_their_memory_and_reach_nothing_else() {
    let fixture = Fixture::bounded(16 << 20);
    let mut client = fixture.client();
    for body in [
        "local t = {} while true do t[#t + 1] = string.rep('x', 10000) end",
        "return string.rep('x', 1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local function f() return 1 + f() end return f()",
        "local t = {} t[1] = t return t",
        "return assert(loadstring(string.rep('(', 100000)))",
        "return cjson.decode(string.rep('[', 100000))",
        "local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)",
        "return cmsgpack.unpack(string.rep('\\145', 10000))",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "return struct.pack('i99', 1)",
        "return struct.unpack('c99999999', 'x')",
        "return string.dump(function() end)",
        "return loadstring('\\27Lua')()",
        "return io.open('/etc/passwd')",
        "return os.execute('id')",
        "return require('os')",
        "return dofile('/etc/passwd')",
        "return debug.getinfo(1)",
        "return package.path",
        "return setfenv(1, {})",
        "return newproxy(true)",
        "getmetatable('').__index = nil",
        "setmetatable(_G, {})",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "return redis.call('EVAL', 'return 1', 0)",
        "return redis.call('MULTI')",
        "return redis.call('SHUTDOWN')",
    ] {
        let reply = eval(&mut client, body, &[], &[]);
        assert!(reply.starts_with('-'), "{body}: {reply}");
    }
    assert_eq!(
        eval(&mut client, "return string.format('%d', 5)", &[], &[]),
        "\"5\""
    );
}
