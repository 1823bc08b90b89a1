//! Sends the same random commands to a real Redis and to this server, whose replies must be equal.
//!
//! `ALLUVIUM_REDIS_SERVER` names the Redis program, which is `redis-server` in PATH by default. If
//! there is none, the test prints a note and passes. `ALLUVIUM_REDIS_COMMANDS` sets the number of
//! commands, and `ALLUVIUM_REDIS_SEED` the seed. Replies without a defined order are sorted before
//! the comparison, and commands with random replies are excluded.

use crate::client::{Client, Fixture, sorted};
use crate::other::Other;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Starts a Redis without persistence.
pub(crate) fn start_redis() -> Option<Other> {
    let arguments = |command: &mut Command, port: u16| {
        let options = ["--save", "", "--appendonly", "no", "--port"];
        command.args(options).arg(port.to_string());
    };
    let program = ("ALLUVIUM_REDIS_SERVER", "redis-server");
    Other::start(program, arguments, ("INFO server\r\n", "process_id:"))
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Replaces the placeholders in a command shape.
pub(crate) fn fill(shape: &str, random: &mut fastrand::Rng) -> String {
    let kinds = ["s", "l", "h", "t", "z", "n"];
    let key = |own: &str, random: &mut fastrand::Rng| {
        // Usually use a key of the right type, occasionally one of another type.
        let kind = if random.u8(..20) == 0 {
            kinds[random.usize(..kinds.len())]
        } else {
            own
        };
        format!("{kind}{}", random.u8(..6))
    };
    let words: Vec<String> = shape
        .split(' ')
        .map(|word| match word {
            "S" => key("s", random),
            "L" => key("l", random),
            "H" => key("h", random),
            "T" => key("t", random),
            "Z" => key("z", random),
            "N" => key("n", random),
            // F stands for decimals small enough for a long double to represent precisely, X for
            // sets whose scores are all equal.
            "F" => format!("f{}", random.u8(..4)),
            "X" => format!("x{}", random.u8(..4)),
            other => other.to_owned(),
        })
        .collect();
    let words = words.into_iter().map(|word| match &word[..] {
        "$any" => format!("{}{}", kinds[random.usize(..kinds.len())], random.u8(..6)),
        "$value" => match random.u8(..8) {
            0 => random.i32(-100..100).to_string(),
            1 => "v".repeat(random.usize(1..100)),
            _ => format!("v{}", random.u8(..20)),
        },
        "$member" => format!("m{}", random.u8(..12)),
        "$int" => match random.u8(..30) {
            0 => "x".to_owned(),
            1 => i64::MAX.to_string(),
            _ => random.i32(-10..20).to_string(),
        },
        "$count" => random.i32(0..6).to_string(),
        "$near" => random.i32(-3..3).to_string(),
        "$score" => match random.u8(..30) {
            0 => "x".to_owned(),
            1 => "inf".to_owned(),
            2 => "-inf".to_owned(),
            3..10 => format!("{:.2}", random.f64() * 20.0 - 10.0),
            _ => random.i32(-5..10).to_string(),
        },
        // Redis adds in binary with 64 bits, this server in decimal. Their sums of small numbers
        // are equal.
        "$float" => format!("{}.{}", random.i32(-2..2), random.u8(..100)),
        "$bound" => match random.u8(..6) {
            0 => "-inf".to_owned(),
            1 => "+inf".to_owned(),
            2 => format!("({}", random.i32(-5..10)),
            _ => random.i32(-5..10).to_string(),
        },
        "$lex" => match random.u8(..6) {
            0 => "-".to_owned(),
            1 => "+".to_owned(),
            2 => format!("(m{}", random.u8(..12)),
            _ => format!("[m{}", random.u8(..12)),
        },
        "$end" => ["LEFT", "RIGHT"][random.usize(..2)].to_owned(),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) const SHAPES: &[&str] = &[
    "GET S",
    "SET S $value",
    "SET N $int",
    "SET S $value NX",
    "SET S $value XX GET",
    "SET S $value KEEPTTL",
    "SET S $value EX 1000",
    "SET S $value PX 0",
    "SET S $value XX NX",
    "MGET S N $any",
    "MSET S $value N $int",
    "MSET S $value N",
    "MSETNX S $value $any $value",
    "GETSET S $value",
    "GETDEL S",
    "GETEX S PERSIST",
    "GETEX S EX 500",
    "SETNX S $value",
    "SETEX S 1000 $value",
    "PSETEX S 100000 $value",
    "APPEND S $value",
    "STRLEN S",
    "GETRANGE S $int $int",
    "SUBSTR S $int $int",
    "SETRANGE S $count $value",
    "INCR N",
    "DECR N",
    "INCRBY N $int",
    "DECRBY N $int",
    "INCRBYFLOAT F $float",
    "SET F $float",
    "DEL $any",
    "DEL $any $any",
    "UNLINK $any",
    "EXISTS $any $any",
    "EXPIRE $any 1000",
    "EXPIRE $any 2000 GT",
    "EXPIRE $any 500 LT",
    "EXPIRE $any 700 NX",
    "EXPIRE $any -1",
    "EXPIREAT $any 99999999999",
    "PEXPIRE $any 1000000",
    "PEXPIRE $any -1",
    "PEXPIREAT $any 99999999999000",
    "PTTL $any",
    "PEXPIRETIME S",
    "TOUCH $any $any",
    "RANDOMKEY",
    "TTL $any",
    "EXPIRETIME S",
    "PERSIST $any",
    "TYPE $any",
    "RENAME $any $any",
    "RENAMENX $any $any",
    "COPY $any $any",
    "COPY $any $any REPLACE",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 MATCH s*",
    "KEYS *",
    "KEYS [st]?",
    "DBSIZE",
    "HSET H $member $value",
    "HSET H $member $value $member $int",
    "HSET H $member",
    "HGET H $member",
    "HMGET H $member $member",
    "HGETALL H",
    "HDEL H $member $member",
    "HEXISTS H $member",
    "HLEN H",
    "HKEYS H",
    "HVALS H",
    "HINCRBY H $member $int",
    "HINCRBYFLOAT H f $float",
    "HSETNX H $member $value",
    "HSCAN H 0 COUNT 1000",
    "HSTRLEN H $member",
    "HMSET H $member $value",
    "HRANDFIELD H 100",
    "HRANDFIELD H 100 WITHVALUES",
    "SADD T $member $member",
    "SADD T $int",
    "SREM T $member $member",
    "SRANDMEMBER T 100",
    "SPOP T 100",
    "SPOP T 0",
    "SMEMBERS T",
    "SISMEMBER T $member",
    "SMISMEMBER T $member $int",
    "SCARD T",
    "SUNION T T",
    "SINTER T T",
    "SDIFF T T $any",
    "SUNIONSTORE T T T",
    "SINTERSTORE T T T",
    "SDIFFSTORE T T T",
    "SMOVE T T $member",
    "SSCAN T 0 COUNT 1000",
    "SSCAN T 0 COUNT 1000 MATCH m1*",
    "ZADD Z $score $member",
    "ZADD Z $score $member $score $member",
    "ZADD Z NX $score $member",
    "ZADD Z XX CH $score $member",
    "ZADD Z GT CH $score $member",
    "ZADD Z LT $score $member",
    "ZADD Z INCR $score $member",
    "ZADD Z XX NX $score $member",
    "ZADD Z $score",
    "ZREM Z $member $member",
    "ZSCORE Z $member",
    "ZMSCORE Z $member $member",
    "ZINCRBY Z $score $member",
    "ZCARD Z",
    "ZCOUNT Z $bound $bound",
    "ZRANGE Z $int $int",
    "ZRANGE Z $int $int WITHSCORES",
    "ZRANGE Z $int $int REV",
    "ZRANGE Z $bound $bound BYSCORE",
    "ZRANGE Z $bound $bound BYSCORE REV LIMIT $count $int",
    "ZRANGE X $lex $lex BYLEX",
    "ZADD X 0 $member 0 $member",
    "ZREVRANGEBYLEX X $lex $lex LIMIT $count $int",
    "ZLEXCOUNT X $lex $lex",
    "ZREMRANGEBYLEX X $lex $lex",
    "ZRANGEBYLEX X $lex x",
    "ZRANGE Z $int $int LIMIT 0 1",
    "ZREVRANGE Z $int $int WITHSCORES",
    "ZRANGEBYSCORE Z $bound $bound WITHSCORES LIMIT $count $count",
    "ZREVRANGEBYSCORE Z $bound $bound",
    "ZRANK Z $member",
    "ZREVRANK Z $member",
    "ZPOPMIN Z",
    "ZPOPMAX Z $count",
    "ZREMRANGEBYSCORE Z $bound $bound",
    "ZREMRANGEBYRANK Z $int $int",
    "ZSCAN Z 0 COUNT 1000",
    "LPUSH L $value",
    "RPUSH L $value $value",
    "RPUSH L $member $member",
    "LPUSHX L $value",
    "RPUSHX L $value",
    "LPOP L",
    "RPOP L",
    "LPOP L $count",
    "RPOP L $int",
    "LLEN L",
    "LRANGE L $int $int",
    "LINDEX L $int",
    "LSET L $int $value",
    "LTRIM L $int $int",
    "LREM L $int $member",
    "LINSERT L BEFORE $member $value",
    "LINSERT L AFTER $member $value",
    "LPOS L $member",
    "LPOS L $member RANK -1 COUNT 0",
    "LMOVE L L $end $end",
    "RPOPLPUSH L L",
    "ECHO $value",
    "PING",
    "PING $value",
    "NOSUCH $value $value",
    "GET",
    "SELECT x",
    "SELECT 99",
    "OBJECT REFCOUNT L",
    "OBJECT REFCOUNT none",
    "CLIENT SETNAME $member",
    "CLIENT GETNAME",
    "OBJECT FREQ none",
    "EXEC",
    "DISCARD",
    "CLIENT NOSUCH $value",
    "CLIENT KILL",
    "CLIENT ID x",
    "CONFIG NOSUCH",
    "CONFIG GET",
    "CONFIG SET maxclients",
    "OBJECT NOSUCH S",
    "OBJECT ENCODING",
    "COMMAND NOSUCH",
    "COMMAND COUNT x",
    "SLOWLOG NOSUCH",
    "SLOWLOG LEN x",
];

/// Additional shapes: commands that would find differences too rarely at the default frequency, and
/// commands that create the data they need.
const MORE: &[(usize, &str)] = &[
    (5, "HSET H $member $value $member $value $member $value"),
    (2, "HRANDFIELD H 100"),
    (4, "HGET H $member"),
    (2, "HSETNX H $member $value"),
    (6, "RPUSH L $member $value $member $value"),
    (3, "LINDEX L $near"),
    (5, "LSET L $near $value"),
    (4, "LMOVE L L $end $end"),
    (4, "RPOPLPUSH L L"),
    (2, "LPOP L"),
    (2, "RPOP L"),
    (5, "SADD T $member $member $member $member"),
    (4, "SDIFF T T"),
    (2, "SDIFFSTORE T T T"),
    (2, "SUNIONSTORE T T T"),
    (2, "SRANDMEMBER T 100"),
    (2, "OBJECT REFCOUNT L"),
    (2, "PEXPIRETIME S"),
    (4, "SINTER T T"),
    (4, "SUNION T T"),
    (3, "SMOVE T T $member"),
    (5, "ZADD Z $score $member $score $member $score $member"),
    (4, "ZSCORE Z $member"),
    (4, "ZRANK Z $member"),
    (4, "ZREVRANK Z $member"),
    (3, "ZPOPMIN Z"),
    (3, "SET S $value"),
    (3, "GETDEL S"),
    (3, "GETEX S PERSIST"),
    (3, "GETSET S $value"),
    (2, "SET S $value PX 3"),
    (3, "INCRBYFLOAT F $float"),
    (4, "SET F $float"),
    (3, "HDEL H f"),
    (2, "HINCRBYFLOAT H f $float"),
    (2, "INCRBY N $count"),
    (2, "DECRBY N $count"),
    (3, "HINCRBY H n $count"),
    (2, "HEXISTS H $member"),
    (2, "HVALS H"),
    (2, "HKEYS H"),
    (2, "HGETALL H"),
    (2, "HSCAN H 0 COUNT 1000"),
    (2, "ZINCRBY Z $count $member"),
    (2, "SELECT 0"),
    (2, "MSETNX S $value S $value"),
    (2, "EXPIRETIME S"),
    (2, "ZPOPMAX Z"),
    (4, "ZRANGEBYLEX X $lex $lex"),
    (3, "ZADD X 0 $member 0 $member 0 $member"),
    (3, "LPOS L $member"),
    (3, "LINSERT L BEFORE $member $value"),
    (3, "RENAMENX $any $any"),
    (2, "RENAME $any $any"),
    (2, "COPY $any $any REPLACE"),
];

/// Commands that another client sends while this connection watches keys.
const OTHERS: &[&str] = &[
    "SET S $value",
    "DEL $any",
    "INCR N",
    "HSET H $member $value",
    "EXPIRE $any 1000",
];

/// Returns whether the order of a command's reply is undefined.
pub(crate) fn is_unordered(command: &str) -> bool {
    let name = command.split(' ').next().unwrap();
    [
        "HGETALL",
        "HKEYS",
        "HVALS",
        "SMEMBERS",
        "SUNION",
        "SINTER",
        "SDIFF",
        "KEYS",
        "SCAN",
        "HSCAN",
        "SSCAN",
        "ZSCAN",
        "HRANDFIELD",
        "SRANDMEMBER",
        "SPOP",
    ]
    .contains(&name)
}

/// Returns whether the reply to a command depends on time or chance.
pub(crate) fn is_of_its_moment(command: &str) -> bool {
    let name = command.split(' ').next().unwrap();
    ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "RANDOMKEY", "OBJECT"].contains(&name)
}

/// Converts a reply to the form that is compared, because the iteration order of large sorted sets
/// differs.
pub(crate) fn compared(command: &str, reply: String) -> Vec<String> {
    if is_unordered(command) && !reply.starts_with('-') {
        return sorted(&reply.replace(['[', ']', '<', '>', '{', '}'], " "));
    }
    // The two servers answer at slightly different times.
    let unit = match command.split(' ').next() {
        Some("TTL") => 100,
        Some("PTTL") => 100_000,
        Some("EXPIRETIME") => 10_000,
        Some("PEXPIRETIME") => 10_000_000,
        // Redis shares one object among all equal small integers.
        Some("OBJECT") if reply.starts_with(':') => return vec!["a number".to_owned()],
        // Compare only whether a key exists.
        Some("RANDOMKEY") => return vec![reply.starts_with("nil").to_string()],
        _ => return vec![reply],
    };
    match reply.strip_prefix(':').map(str::parse::<i64>) {
        Some(Ok(time)) if time > 0 => vec![((time + unit / 2) / unit).to_string()],
        _ => vec![reply],
    }
}

/// The set of commands to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commands {
    All,
    /// Only commands that a server in cache mode supports.
    OfCaches,
}

/// Returns whether a shape is a command that a cache supports.
fn is_of_caches(shape: &str) -> bool {
    const NAMES: &str = " GET SET MGET MSET MSETNX GETSET GETDEL GETEX SETNX SETEX PSETEX APPEND STRLEN GETRANGE SUBSTR \
         SETRANGE INCR DECR INCRBY DECRBY INCRBYFLOAT DEL UNLINK EXISTS TOUCH EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL \
         EXPIRETIME PEXPIRETIME PERSIST TYPE DBSIZE ECHO PING ";
    let name = shape.split(' ').next().unwrap();
    let others = [
        "SELECT 0",
        "SELECT x",
        "CLIENT SETNAME $member",
        "CLIENT GETNAME",
        "CONFIG GET",
    ];
    NAMES.contains(&format!(" {name} ")) || others.contains(&shape)
}

/// Returns the shapes to compare.
fn shapes_of(commands: Commands) -> Vec<&'static str> {
    let more = MORE
        .iter()
        .flat_map(|&(times, shape)| std::iter::repeat_n(shape, times));
    let mut shapes: Vec<&str> = SHAPES.iter().copied().chain(more).collect();
    if commands == Commands::OfCaches {
        shapes.retain(|shape| is_of_caches(shape));
    }
    shapes
}

fn compare(version: &str) {
    let fixture = Fixture::new();
    compare_with(version, fixture.server.redis_addr().unwrap(), Commands::All);
}

/// Adds a description to `different` if two replies differ. Records only the first ten differences.
fn note_difference(
    step: u64,
    history: &[String],
    expected: &[String],
    found: &[String],
    different: &mut Vec<String>,
) {
    if found != expected && different.len() < 10 {
        let (command, before) = history.split_last().expect("it was asked");
        let before = &before[before.len().saturating_sub(40)..];
        different.push(format!(
            "step {step}: {command}\n  theirs {expected:?}\n  ours {found:?}\n  after {before:?}"
        ));
    }
}

fn compare_with(version: &str, address: SocketAddr, commands: Commands) {
    let Some(redis) = start_redis() else {
        return;
    };
    let seed = number("ALLUVIUM_REDIS_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut theirs, mut ours) = (Client::connect(redis.address), Client::connect(address));
    for client in [&mut theirs, &mut ours] {
        client.ask(&format!("HELLO {version}"));
    }
    let (mut their_other, mut our_other) = (Client::connect(redis.address), Client::connect(address));
    let shapes = shapes_of(commands);
    let mut good: BTreeMap<String, u64> = BTreeMap::new();
    let mut history: Vec<String> = Vec::new();
    let mut in_multi = false;
    let mut is_watching = false;
    let mut different: Vec<String> = Vec::new();
    for step in 0..number("ALLUVIUM_REDIS_COMMANDS", 5_000) {
        let has_transactions = commands == Commands::All;
        let command = match random.u16(..400) {
            0..66 | 67..100 if !has_transactions => fill(shapes[random.usize(..shapes.len())], &mut random),
            0..5 => "MULTI".to_owned(),
            5..52 if in_multi => "EXEC".to_owned(),
            52..64 if in_multi => "DISCARD".to_owned(),
            66 if !in_multi && random.u8(..4) == 0 => ["FLUSHDB", "FLUSHALL"][random.usize(..2)].to_owned(),
            66 if !has_transactions => ["FLUSHDB", "FLUSHALL"][random.usize(..2)].to_owned(),
            60..66 => fill("WATCH $any $any", &mut random),
            66 => "UNWATCH".to_owned(),
            67..100 if is_watching => {
                let other = fill(OTHERS[random.usize(..OTHERS.len())], &mut random);
                assert_eq!(our_other.ask(&other), their_other.ask(&other), "{other}");
                history.push(format!("(another) {other}"));
                continue;
            }
            _ => fill(shapes[random.usize(..shapes.len())], &mut random),
        };
        // A transaction's replies are compared verbatim, so leave out commands with unordered
        // replies.
        if in_multi && (is_unordered(&command) || is_of_its_moment(&command)) {
            continue;
        }
        // Let keys with a short time to live expire on both servers before the next command.
        let is_brief = command.ends_with(" PX 3");
        if is_brief && in_multi {
            continue;
        }
        history.push(command.clone());
        let (expected, found) = (theirs.ask(&command), ours.ask(&command));
        match &command[..] {
            "MULTI" => in_multi = true,
            "EXEC" | "DISCARD" => (in_multi, is_watching) = (false, false),
            "UNWATCH" if !in_multi => is_watching = false,
            _ if command.starts_with("WATCH") && !in_multi => is_watching = true,
            _ => {}
        }
        if is_brief {
            std::thread::sleep(Duration::from_millis(6));
            // Redis counts expired keys until a client accesses them, so access the key on both
            // servers.
            let look = format!("EXISTS {}", command.split(' ').nth(1).unwrap());
            assert_eq!(ours.ask(&look), theirs.ask(&look), "{command}");
        }
        if !expected.starts_with('-') && !expected.starts_with("nil") {
            let name = command.split(' ').next().unwrap();
            *good.entry(name.to_owned()).or_default() += 1;
        }
        note_difference(
            step,
            &history,
            &compared(&command, expected),
            &compared(&command, found),
            &mut different,
        );
    }
    assert!(
        different.is_empty(),
        "RESP{version}, seed {seed}:\n{}",
        different.join("\n")
    );
    println!("RESP{version}: {} commands had equal replies", history.len());
    if std::env::var("ALLUVIUM_REDIS_COMMANDS").is_ok() {
        println!("replies that are neither errors nor nil: {good:?}");
    }
}

#[test]
pub(crate) fn random_commands_get_the_replies_of_redis() {
    compare("2");
}

#[test]
fn random_commands_to_a_cache_get_the_replies_of_redis() {
    for version in ["2", "3"] {
        let cache = crate::cached::start(64 << 20);
        compare_with(version, cache.redis_addr().unwrap(), Commands::OfCaches);
    }
}

#[test]
fn random_commands_get_the_replies_of_redis_in_version_three() {
    compare("3");
}
