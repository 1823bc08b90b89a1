//! Collections that are too large for one page of a reply, for moving elements in place, and for
//! counting by iteration.

use crate::client::{Client, Fixture, options, request, sorted};
use crate::differential::start_redis;
use alluvium::Options;
use alluvium::simulation::SimulationOperations as _;
use alluvium_server::{Server, ServerLimits, ServerOptions};

/// Sends a command to all clients, whose replies must be equal.
fn ask_all(clients: &mut [Client], command: &str) -> String {
    let replies: Vec<String> = clients.iter_mut().map(|client| client.ask(command)).collect();
    if let [first, second] = &replies[..] {
        let is_unordered = ["HGETALL", "SMEMBERS", "SUNION", "SINTER", "SDIFF", "KEYS"]
            .contains(&command.split(' ').next().unwrap());
        if is_unordered {
            assert_eq!(sorted(first), sorted(second), "{command}");
        } else {
            let short = |reply: &str| reply.chars().take(300).collect::<String>();
            assert!(
                first == second,
                "{command}\n  theirs {}\n  ours {}",
                short(first),
                short(second)
            );
        }
    }
    replies.into_iter().next_back().unwrap()
}

fn send_all(clients: &mut [Client], commands: &[String]) {
    for client in clients {
        let bytes: Vec<u8> = commands
            .iter()
            .flat_map(|command| {
                let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                request(&words)
            })
            .collect();
        client.send_bytes(&bytes);
        for command in commands {
            let reply = client.reply();
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
    }
}

/// Adds members and elements that are long enough for a few hundred to exceed a page.
fn fill(clients: &mut [Client], random: &mut fastrand::Rng) {
    let mut commands = Vec::new();
    for index in 0..3_000 {
        let (one, other) = (random.u32(..900), random.u32(..900));
        commands.push(format!(
            "ZADD z {one} member{index} {other} member{}",
            index + 3_000
        ));
        commands.push(format!("ZADD x 0 {:06}", random.u32(..900_000)));
        let element = format!("{}{}", "e".repeat(random.usize(300..700)), random.u32(..400));
        commands.push(format!("RPUSH l {element} short{}", random.u32(..100)));
        commands.push(format!("SADD t member{}", random.u32(..4_000)));
        commands.push(format!(
            "SADD u member{} {}",
            random.u32(..4_000),
            "m".repeat(index % 90 + 1)
        ));
        commands.push(format!("HSET h field{index} {}", "v".repeat(100 + index % 50)));
    }
    send_all(clients, &commands);
}

const SHAPES: &[&str] = &[
    "ZADD z $score $member",
    "ZADD z $score $member $score $member $score $member",
    "ZINCRBY z $score $member",
    "ZREM z $member $member",
    "ZRANK z $member",
    "ZREVRANK z $member",
    "ZCOUNT z $score $score",
    "ZCOUNT z (100 $score",
    "ZRANGE z $rank $rank",
    "ZRANGE z 1500 1510 WITHSCORES",
    "ZREVRANGE z 1200 1205",
    "ZRANGEBYSCORE z $score $score",
    "ZRANGEBYSCORE z -inf +inf LIMIT $rank 7",
    "ZREVRANGEBYSCORE z +inf 20 WITHSCORES LIMIT $rank 3",
    "ZREMRANGEBYRANK z $rank 1510",
    "ZREMRANGEBYSCORE z 450 452",
    "ZPOPMIN z 5",
    "ZPOPMAX z 5",
    "ZCARD z",
    "ZLEXCOUNT x [$lex [$lex",
    "ZLEXCOUNT x ($lex +",
    "ZRANGEBYLEX x [$lex +",
    "ZREVRANGEBYLEX x [$lex - LIMIT 5 5",
    "ZREMRANGEBYLEX x [$lex [01",
    "LINSERT l BEFORE $short new",
    "LINSERT l AFTER $short new",
    "LREM l 1 $short",
    "LREM l -2 $short",
    "LREM l 0 $short",
    "LPOS l $short RANK -1 COUNT 3",
    "LPOS l $short RANK 2 MAXLEN 4000",
    "LINDEX l $rank",
    "LRANGE l $rank 2000",
    "LRANGE l -30 -1",
    "LLEN l",
    "LPOP l 3",
    "RPOP l 3",
    "LSET l $rank set",
    "HGETALL h",
    "HLEN h",
    "SMEMBERS t",
    "SUNION t u",
    "SINTER t u",
    "SDIFF u t",
    "SUNIONSTORE w t u",
    "SINTERSTORE w t u",
    "SDIFFSTORE w u t",
    "SCARD w",
    "COPY l m REPLACE",
    "COPY z y REPLACE",
    "ZRANGE y 1000 1003 WITHSCORES",
    "ZCOUNT y 100 400",
    "RENAME y z2",
    "ZCOUNT z2 100 400",
    "RPUSH m x",
    "LRANGE m 3000 3010",
    "COPY h g REPLACE",
    "HGETALL g",
    "SDIFF w t",
];

fn shape(shape: &str, random: &mut fastrand::Rng) -> String {
    let words = shape.split(' ').map(|word| match word {
        "$score" => random.u32(..900).to_string(),
        "$member" => format!("member{}", random.u32(..6_000)),
        "$rank" => random.i32(-4_500..4_500).to_string(),
        "$short" => format!("short{}", random.u32(..100)),
        word => word.replace("$lex", &format!("{:06}", random.u32(..900_000))),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn large_collections_do_what_redis_does_also_when_the_server_is_started_anew() {
    let redis = start_redis();
    let Fixture {
        mut server,
        mut db,
        place,
    } = Fixture::new();
    let mut random = fastrand::Rng::with_seed(11);
    let mut clients: Vec<Client> = redis.iter().map(|redis| Client::connect(redis.address)).collect();
    clients.push(Client::connect(server.redis_addr().unwrap()));
    fill(&mut clients, &mut random);
    for step in 0..400 {
        let command = match step % 100 {
            50 => "ZREMRANGEBYRANK z 1 -2".to_owned(),
            51..=70 => {
                let pairs: Vec<String> = (0..500)
                    .map(|_| format!("{} member{}", random.u32(..900), random.u32(..6_000)))
                    .collect();
                format!("ZADD z {}", pairs.join(" "))
            }
            _ => shape(SHAPES[random.usize(..SHAPES.len())], &mut random),
        };
        ask_all(&mut clients, &command);
        if step % 90 == 89 {
            clients.pop();
            server.stop();
            server.join().unwrap();
            drop(server);
            // Every other time, close the store as if the process had been killed.
            if step % 180 == 89 {
                db.abandon();
            }
            drop(db);
            let store = place.path().join("store");
            db = Options::new().memory(64 << 20).open(store).unwrap();
            server = Server::start(&db, options()).unwrap();
            clients.push(Client::connect(server.redis_addr().unwrap()));
        }
    }
    for command in [
        "ZRANGE z 0 -1 WITHSCORES",
        "LRANGE l 0 -1",
        "HGETALL h",
        "LRANGE m 0 -1",
        "KEYS *",
    ] {
        ask_all(&mut clients, command);
    }
}

/// Creates a list, a hash, a set and a sorted set of several megabytes each, on a server with an
/// output limit of 1 MiB.
fn limited() -> (Fixture, Client) {
    let limits = ServerLimits {
        output: 1 << 20,
        ..ServerLimits::default()
    };
    let fixture = Fixture::with(ServerOptions { limits, ..options() });
    let mut clients = [fixture.client()];
    let mut commands = Vec::new();
    for index in 0..4_000 {
        let long = format!("{index:04}{}", "x".repeat(800));
        commands.push(format!("RPUSH l {long}"));
        commands.push(format!("HSET h {index} {long}"));
        commands.push(format!("SADD s {long}"));
        commands.push(format!("ZADD z {index} {long}"));
        commands.push(format!("SET key{long} v"));
    }
    send_all(&mut clients, &commands);
    let [client] = clients;
    (fixture, client)
}

#[test]
fn replies_that_exceed_the_limit_are_sent_in_parts_and_others_follow_in_order() {
    let (fixture, mut client) = limited();
    for (command, parts) in [
        ("LRANGE l 0 -1", 4_000),
        ("HGETALL h", 8_000),
        ("HVALS h", 4_000),
        ("SMEMBERS s", 4_000),
        ("SUNION s", 4_000),
        ("ZRANGE z 0 -1", 4_000),
        ("ZREVRANGE z 0 -1 WITHSCORES", 8_000),
        ("ZRANGEBYSCORE z 1 +inf", 3_999),
        ("SRANDMEMBER s 4000", 4_000),
        ("KEYS key*", 4_000),
    ] {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let pipeline = [
            request(&[b"INCR", b"n"]),
            request(&words),
            request(&[b"INCR", b"n"]),
            request(&[b"LINDEX", b"l", b"0"]),
        ];
        client.send_bytes(&pipeline.concat());
        let first = client.reply();
        assert_eq!(client.reply().split(' ').count(), parts, "{command}");
        let second: i64 = client.reply()[1..].parse().unwrap();
        assert_eq!(first, format!(":{}", second - 1));
        assert!(client.reply().starts_with("\"0000"));
    }
    // Writes during a reply must not affect it.
    let mut other = fixture.client();
    client.send(&[b"LRANGE", b"l", b"0", b"-1"]);
    other.script("PING => PONG");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(other.ask("DEL l"), ":1");
    assert_eq!(other.ask("RPUSH l new"), ":1");
    assert_eq!(client.reply().split(' ').count(), 4_000);
    client.script("LRANGE l 0 -1 => [\"new\"]");
}

#[test]
fn replies_that_are_needed_whole_are_refused_beyond_the_limit() {
    let (fixture, mut client) = limited();
    for command in [
        "LRANGE l 0 -1",
        "HGETALL h",
        "SMEMBERS s",
        "ZRANGE z 0 -1",
        "KEYS *",
        "SUNION s s",
    ] {
        client.script("MULTI => OK");
        assert_eq!(client.ask(command), "QUEUED");
        let reply = client.ask("EXEC");
        assert!(
            reply.contains("ERR the reply exceeds 1048576 bytes"),
            "{command}: {reply}"
        );
        assert!(reply.contains("SCAN"), "{reply}");
    }
    // A command that removes elements must remove none if its reply would exceed the limit.
    for command in ["LPOP l 4000", "SPOP s 4000", "ZPOPMIN z 4000"] {
        let reply = client.ask(command);
        assert!(
            reply.contains("ERR the reply exceeds 1048576 bytes"),
            "{command}: {reply}"
        );
    }
    client.script("LLEN l => :4000\nSCARD s => :4000\nZCARD z => :4000\nRPOP l 3000000 => -ERR the reply exceeds 1048576 bytes, the output limit of a client; request less at a time, with SCAN, HSCAN, SSCAN, ZSCAN or ranges");
    drop(fixture);
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_reply_leaves_nothing() {
    let (fixture, _client) = limited();
    for _ in 0..20 {
        let mut client = fixture.client();
        client.send(&[b"LRANGE", b"l", b"0", b"-1"]);
        let mut some = [0; 1000];
        client.read_exact(&mut some);
    }
    let mut waits = 0;
    while fixture.server.connections() > 1 || fixture.db.stats().snapshots > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waits += 1;
        assert!(waits < 1_000);
    }
}

#[test]
fn what_is_copied_in_several_commits_is_there_whole() {
    let (fixture, mut client) = limited();
    client.script("LINSERT l BEFORE none x => :-1");
    let pivot = client.ask("LINDEX l 2000");
    let pivot = pivot.trim_matches('"').to_owned();
    client.send(&[b"LINSERT", b"l", b"BEFORE", pivot.as_bytes(), b"new"]);
    assert_eq!(client.reply(), ":4001");
    client.script("LINDEX l 2000 => \"new\"\nCOPY l m => :1\nLLEN m => :4001\nLINDEX m 2000 => \"new\"");
    client.script("LREM m 1 new => :1\nLLEN m => :4000\nSUNIONSTORE t s => :4000\nCOPY z y => :1\nZREMRANGEBYRANK y 500 3499 => :3000\nZCARD y => :1000\nZCOUNT y 0 3600 => :601");
    let middle = client.ask("LINDEX m 2000");
    assert_eq!(middle.trim_matches('"'), pivot);
    client.script("EXPIRE m 1000 => :1\nLREM m 1 none => :0");
    client.send(&[b"LINSERT", b"m", b"BEFORE", pivot.as_bytes(), b"new"]);
    assert_eq!(client.reply(), ":4001");
    let ttl: i64 = client.ask("TTL m")[1..].parse().unwrap();
    assert!((990..=1000).contains(&ttl), "{ttl}");
    // No mark of an unfinished operation may be left.
    let data = fixture.db.keyspace("redis").unwrap();
    assert!(data.iter().all(|pair| pair.unwrap().0[..2] != [0, b'g']));
    client.script("DEL l m t y s z h => :7");
    assert!(data.iter().all(|pair| pair.unwrap().0[..2] != [0, b'e']));
}

#[test]
fn every_element_is_drawn_about_as_often_as_every_other() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let words: Vec<String> = (0..200).map(|index| format!("{index}")).collect();
    client.ask(&format!("SADD s {}", words.join(" ")));
    let pairs: Vec<String> = (0..200).map(|index| format!("{index} v")).collect();
    client.ask(&format!("HSET h {}", pairs.join(" ")));
    for command in ["SRANDMEMBER s -20000", "HRANDFIELD h -20000"] {
        let mut counts = [0; 200];
        for word in sorted(&client.ask(command)) {
            counts[word.trim_matches('"').parse::<usize>().unwrap()] += 1;
        }
        // Each count is expected to be 100; a deviation of 60 is six standard deviations.
        assert!(
            counts.iter().all(|count| (40..=160).contains(count)),
            "{counts:?}"
        );
    }
    for command in [
        "SRANDMEMBER s 150",
        "SRANDMEMBER s 1000",
        "HRANDFIELD h 20",
        "HRANDFIELD h 1000 WITHVALUES",
    ] {
        let drawn = sorted(&client.ask(command));
        let mut fields: Vec<&String> = drawn.iter().filter(|word| *word != "\"v\"").collect();
        let many = fields.len();
        fields.dedup();
        assert_eq!(fields.len(), many, "{command}");
    }
    assert_eq!(sorted(&client.ask("SPOP s 150")).len(), 150);
    client.script("SCARD s => :50");
}
