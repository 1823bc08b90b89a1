//! Users and their permitted commands and keys, in all protocols, as in Redis.

use crate::client::{Client, Fixture, any_port, options};
use crate::other::Other;
use alluvium_server::{Error, Server, ServerOptions, UserFile};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A user file in memory.
#[derive(Debug, Default)]
pub(crate) struct Text(Mutex<String>);

impl UserFile for Text {
    fn place(&self) -> String {
        "users.acl".to_owned()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.0.lock().unwrap().clone().into_bytes())
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        *self.0.lock().unwrap() = String::from_utf8(text.to_vec()).unwrap();
        Ok(())
    }
}

fn file(text: &str) -> Arc<Text> {
    Arc::new(Text(Mutex::new(text.to_owned())))
}

pub(crate) fn with_users(text: &str) -> (Arc<Text>, Fixture) {
    let file = file(text);
    let options = ServerOptions {
        users: Some(file.clone()),
        web: any_port(),
        ..options()
    };
    (file, Fixture::with(options))
}

pub(crate) fn user(fixture: &Fixture, name: &str) -> Client {
    let mut client = fixture.client();
    client.script(&format!("AUTH {name} pw => OK"));
    client
}

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";

#[test]
fn users_may_use_their_commands_and_keys() {
    let (_, fixture) = with_users(
        "user reader on >pw %R~app:* +@read -@dangerous +ping\n\
         user writer on >pw %W~app:* ~tmp:* +@write +@transaction +get\n\n\
         user select on >pw allkeys +select|0 +config|get +get\n\
         user both on >pw +ping (~a:* +get) (%W~b:* +set)\n\
         user sleeper off >pw allkeys allcommands\n",
    );
    let mut default = fixture.client();
    default.script("SET app:1 one => OK\nACL WHOAMI => \"default\"");
    let mut reader = user(&fixture, "reader");
    reader.script(&format!(
        "ACL WHOAMI => -NOPERM this user has no permissions to run the 'acl|whoami' command
         PING => PONG
         GET app:1 => \"one\"
         GET other => {NO_KEY}
         MGET app:1 other => {NO_KEY}
         EXISTS app:1 => :1
         SET app:1 two => -NOPERM this user has no permissions to run the 'set' command
         KEYS * => -NOPERM this user has no permissions to run the 'keys' command
         RANGE a z => {NO_KEY}
         SNAPSHOT GET s other => {NO_KEY}
         OBJECT ENCODING app:1 => \"embstr\"
         OBJECT ENCODING other => {NO_KEY}
         WATCH app:1 => -NOPERM this user has no permissions to run the 'watch' command
         NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with:"
    ));
    let mut writer = user(&fixture, "writer");
    writer.script(&format!(
        "SET app:1 two => OK
         SET app:1 three GET => {NO_KEY}
         GET app:1 => {NO_KEY}
         INCR app:n => {NO_KEY}
         INCR tmp:n => :1
         RENAME app:1 tmp:1 => {NO_KEY}
         RENAME tmp:n app:n => OK
         COPY tmp:n app:n => :0
         COPY app:n tmp:n => {NO_KEY}
         DELRANGE a z => {NO_KEY}
         WATCH app:1 => OK
         WATCH none => {NO_KEY}"
    ));
    let mut select = user(&fixture, "select");
    select.script(
        "SELECT 0 => OK
         SELECT 1 => -NOPERM this user has no permissions to run the 'select' command
         CONFIG GET maxclients => [\"maxclients\" \"10000\"]
         CONFIG SET maxclients 1 => -NOPERM this user has no permissions to run the 'config|set' command
         GET app:1 => \"two\"",
    );
    let mut both = user(&fixture, "both");
    both.script(&format!(
        "GET a:1 => nil
         SET a:1 x => {NO_KEY}
         SET b:1 x => OK
         GET b:1 => {NO_KEY}
         DEL b:1 => -NOPERM this user has no permissions to run the 'del' command"
    ));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    fixture.client().script(&format!("AUTH sleeper pw => {wrong}"));
    fixture.client().script(&format!("AUTH nobody pw => {wrong}"));
    let mut third = fixture.client();
    assert!(third.ask("HELLO 3 AUTH reader pw").starts_with("{\"server\""));
    third.script(&format!(
        "GET other => {NO_KEY}\nRESET => RESET\nACL WHOAMI => \"default\""
    ));
    // RESET makes `default` the connection's user again.
    third.script("GET other => nil");
}

#[test]
fn neighbours_in_a_pipeline_are_judged_one_by_one() {
    let (_, fixture) = with_users("user one on >pw ~a* +get +set +@transaction\n");
    let mut client = user(&fixture, "one");
    client.send_bytes(b"SET a1 1\r\nSET b1 1\r\nGET a1\r\nGET b1\r\nDEL a1\r\nGET a1\r\nSET a2 2\r\n");
    for expected in ["OK", NO_KEY, "\"1\"", NO_KEY] {
        assert_eq!(client.reply(), expected);
    }
    assert_eq!(
        client.reply(),
        "-NOPERM this user has no permissions to run the 'del' command"
    );
    assert_eq!((client.reply(), client.reply()), ("\"1\"".into(), "OK".into()));
    client.script(&format!(
        "MULTI => OK
         SET a1 3 => QUEUED
         SET b1 3 => {NO_KEY}
         EXEC => -EXECABORT Transaction discarded because of previous errors.
         GET a1 => \"1\"
         MULTI => OK
         SET a1 4 => QUEUED
         GET a1 => QUEUED"
    ));
    let mut default = fixture.client();
    default.script("GET b1 => nil\nACL SETUSER one -get => OK");
    client.script(
        "EXEC => [OK -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
         is no longer allowed for the following reason: no permission to execute the command or subcommand]",
    );
    default.script("GET a1 => \"4\"");
    let log = default.ask("ACL LOG 1");
    assert!(
        log.contains("\"multi\" \"object\" \"get\" \"username\" \"one\""),
        "{log}"
    );
}

#[test]
fn connections_of_users_that_are_deleted_or_turned_off_end() {
    let (_, fixture) = with_users(
        "user one on >pw allkeys allcommands\nuser two on >pw allkeys allcommands\nuser three on >pw allkeys allcommands\n",
    );
    let mut admin = fixture.client();
    let (mut one, mut two, mut three) = (
        user(&fixture, "one"),
        user(&fixture, "two"),
        user(&fixture, "three"),
    );
    admin.script("ACL DELUSER one nobody => :1\nACL SETUSER two off => OK");
    assert_eq!((one.try_reply(), two.try_reply()), (None, None));
    // A user that disables itself can enable itself again. A user that deletes itself still gets a
    // reply.
    three.script("ACL SETUSER three off => OK\nACL SETUSER three on => OK");
    three.script("ACL DELUSER three => :1");
    assert_eq!(three.try_reply(), None);
    admin.script(
        "ACL USERS => [\"default\" \"two\"]
         ACL DELUSER default => -ERR The 'default' user cannot be removed
         PING => PONG",
    );
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_its_lines() {
    let db = Fixture::new();
    for (text, why) in [
        (
            "user one on\nuse two on\n",
            "users.acl:2: should start with user keyword followed by the username",
        ),
        ("user\n", "users.acl:1: should start with user"),
        (
            "user one +nosuch\n",
            "users.acl:1: Error in applying operation '+nosuch': Unknown command or category",
        ),
        ("user one +@nosuch\n", "'+@nosuch'"),
        (
            "\n\nuser one ~* ~a\n",
            "users.acl:3: '~a': Adding a pattern after the * pattern",
        ),
        (
            "user one #12\n",
            "users.acl:1: The password hash must be exactly 64",
        ),
        ("user one on\nuser one off\n", "users.acl:2: Duplicate user 'one'"),
        ("user one (+get\n", "users.acl:1: Unmatched parenthesis"),
        ("# comments are none\n", "users.acl:1"),
    ] {
        let options = ServerOptions {
            users: Some(file(text)),
            ..options()
        };
        let error = Server::start(&db.db, options).unwrap_err();
        assert!(matches!(error, Error::Users { .. }));
        assert!(error.to_string().contains(why), "{error}");
    }
    let other = ServerOptions {
        users: Some(file("user default on >a allkeys allcommands\n")),
        password: Some("b".to_owned()),
        ..options()
    };
    let error = Server::start(&db.db, other).unwrap_err().to_string();
    assert!(error.contains("--password"), "{error}");
    // The file and the option set the same password.
    let same = ServerOptions {
        users: Some(file("user default on >a >b allkeys +get\n")),
        password: Some("b".to_owned()),
        ..options()
    };
    Server::start(&db.db, same).unwrap();
}

#[test]
fn users_are_loaded_and_saved() {
    let (file, fixture) = with_users("user one on >pw allkeys +get\nuser two on >pw ~a +@all -@dangerous\n");
    let mut admin = fixture.client();
    let (mut one, mut two) = (user(&fixture, "one"), user(&fixture, "two"));
    admin.script("ACL SETUSER three on nopass %RW~b (%R~c +get) => OK\nACL SAVE => OK");
    let saved = file.0.lock().unwrap().clone();
    let pw = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    assert!(
        saved.contains(&format!("user one on #{pw} ~* resetchannels -@all +get\n")),
        "{saved}"
    );
    assert!(saved.contains("user default on nopass ~* &* +@all\n"), "{saved}");
    assert!(
        saved.contains("user three on nopass ~b resetchannels -@all (%R~c resetchannels -@all +get)\n"),
        "{saved}"
    );
    // Loading the saved file must yield the same rules.
    let before = admin.ask("ACL LIST");
    admin.script("ACL LOAD => OK");
    assert_eq!(admin.ask("ACL LIST"), before);
    one.script("GET a => nil");
    // A file with an error must change nothing.
    *file.0.lock().unwrap() = "user one on allkeys +nosuch\n".to_owned();
    assert!(admin.ask("ACL LOAD").contains("users.acl:1"));
    assert_eq!(admin.ask("ACL LIST"), before);
    // Users missing from the file are removed, and the others get their new rules.
    *file.0.lock().unwrap() = "user one on >pw ~a +get\n".to_owned();
    admin.script("ACL LOAD => OK\nACL USERS => [\"default\" \"one\"]");
    one.script(&format!("GET a => nil\nGET b => {NO_KEY}"));
    assert_eq!(two.try_reply(), None);
    Fixture::new().client().script(
        "ACL LOAD => -ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command, and to start the server with --users FILE in order to store them.\nACL WHOAMI => \"default\"",
    );
}

#[test]
fn a_password_of_default_protects_and_rules_of_default_do() {
    let fixture = Fixture::with(ServerOptions {
        password: Some("secret".to_owned()),
        ..options()
    });
    let mut client = fixture.client();
    client.script(
        "GET a => -NOAUTH Authentication required.
         AUTH default secret => OK
         CONFIG SET requirepass other => OK
         CONFIG GET requirepass => [\"requirepass\" \"other\"]",
    );
    fixture
        .client()
        .script("AUTH other => OK\nACL SETUSER default on nopass resetkeys ~open:* -@all +get => OK");
    fixture
        .client()
        .script(&format!("GET open:1 => nil\nGET shut => {NO_KEY}"));
    let (_, fixture) = with_users("user default off\nuser one on >pw allkeys allcommands\n");
    fixture
        .client()
        .script("GET a => -NOAUTH Authentication required.");
    let mut one = user(&fixture, "one");
    one.script("GET a => nil");
    assert!(one.ask("CLIENT LIST").contains("user=one"));
}

struct Items(TcpStream);

impl Items {
    #[track_caller]
    fn say(&mut self, request: &str, expected: &str) {
        self.0.write_all(request.as_bytes()).unwrap();
        let (mut reply, mut some) = (Vec::new(), [0; 1024]);
        while reply.len() < expected.len() {
            match self.0.read(&mut some) {
                Ok(count) if count > 0 => reply.extend_from_slice(&some[..count]),
                _ => break,
            }
        }
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{request}");
    }
}

#[test]
fn items_of_memcached_are_for_those_who_may_use_them() {
    let (_, fixture) = with_users(
        "user default off\nuser reader on >pw %R~a* +@read\nuser writer on >pw ~* +@write\nuser admin on >pw ~* +@all\n",
    );
    let client = |name: &str| {
        let socket = TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Items(socket);
        let credentials = format!("{name} pw");
        client.say(
            &format!("set x 0 0 {}\r\n{credentials}\r\n", credentials.len()),
            "STORED\r\n",
        );
        client
    };
    let no_command = "CLIENT_ERROR this user has no permissions to run this command\r\n";
    let no_key = "CLIENT_ERROR this user has no permissions to access this key in this way\r\n";
    let (mut reader, mut writer, mut admin) = (client("reader"), client("writer"), client("admin"));
    writer.say("set a 0 0 1\r\n5\r\nset b 0 0 1\r\n5\r\n", "STORED\r\nSTORED\r\n");
    reader.say(
        "get a\r\nget b\r\nmg b v\r\n",
        &format!("VALUE a 0 1\r\n5\r\nEND\r\n{no_key}{no_key}"),
    );
    reader.say(
        "set a 0 0 1\r\n6\r\nget a\r\n",
        &format!("{no_command}VALUE a 0 1\r\n5\r\nEND\r\n"),
    );
    reader.say(
        "gat 9 a\r\nincr a 1\r\nms a 1\r\n7\r\nmd a\r\n",
        &no_command.repeat(4),
    );
    reader.say(
        "mg YQ== b v\r\nmg Yg== b v\r\n",
        &format!("VA 1 b\r\n5\r\n{no_key}"),
    );
    reader.say(
        "flush_all\r\nstats\r\nmn\r\n",
        &format!("{no_command}{no_command}MN\r\n"),
    );
    writer.say(
        "get a\r\nincr a 1\r\nappend a 0 0 1\r\n0\r\n",
        &format!("{no_command}{no_command}STORED\r\n"),
    );
    admin.say("incr a 1\r\nflush_all\r\nget a\r\n", "51\r\nOK\r\nEND\r\n");
    let mut redis = user(&fixture, "admin");
    let log = redis.ask("ACL LOG");
    assert!(
        log.contains("\"object\" \"memcached|flush\" \"username\" \"reader\""),
        "{log}"
    );
    redis.script("ACL DELUSER writer => :1");
    assert_eq!(writer.0.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn the_page_shows_what_its_user_may_see() {
    let (_, fixture) = with_users(
        "user default off\nuser keys on >pw %R~* +page|keys\nuser some on >pw %R~a* +@all\nuser monitor on >pw +page|stats\n",
    );
    let address = fixture.server.web_addr().unwrap();
    let status = |pair: &str, path: &str| {
        use base64::Engine as _;
        let code = base64::engine::general_purpose::STANDARD.encode(pair);
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Basic {code}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut all = String::new();
        socket.read_to_string(&mut all).unwrap();
        all[9..12].to_owned()
    };
    for (pair, path, expected) in [
        ("keys:pw", "/api/keys?keyspace=redis", "200"),
        ("keys:pw", "/metrics", "403"),
        ("some:pw", "/api/keys?keyspace=redis", "403"),
        ("some:pw", "/api/value?keyspace=redis&key=a", "403"),
        ("some:pw", "/metrics", "200"),
        ("monitor:pw", "/metrics", "200"),
        ("monitor:pw", "/api/stats", "200"),
        ("monitor:pw", "/", "200"),
        ("monitor:pw", "/api/keys?keyspace=redis", "403"),
        ("nobody:pw", "/", "401"),
    ] {
        assert_eq!(status(pair, path), expected, "{pair} {path}");
    }
}

/// Commands to which Redis and this server must reply alike.
const SAME: &str = "
    ACL WHOAMI
    ACL LIST
    ACL GETUSER default
    ACL GETUSER nobody
    ACL SETUSER one
    ACL LIST
    ACL GETUSER one
    ACL SETUSER one on >pw >pw2 ~a:* %R~b:* %W~c:* &news +@read +set -get +select|1 +client|id
    ACL LIST
    ACL GETUSER one
    ACL SETUSER one <pw !96d9632f363564cc3032521409cf22a852f2032eec099ed5967c0d000cec607a
    ACL SETUSER one <none
    ACL SETUSER one !12
    ACL SETUSER one #12
    ACL SETUSER one +nosuch
    ACL SETUSER one +@nosuch
    ACL SETUSER one -@nosuch
    ACL SETUSER one -client|nosuch
    ACL SETUSER one +client|nosuch
    ACL SETUSER one +config|get|maxclients
    ACL SETUSER one +select|
    ACL SETUSER one nonsense
    ACL SETUSER one %X~a
    ACL SETUSER one %~a
    ACL SETUSER one %RR~a
    ACL SETUSER one %R
    ACL SETUSER one %
    ACL SETUSER one (+get ~k %R~r
    ACL SETUSER one (+get ~k %R~r) (+@set allkeys)
    ACL GETUSER one
    ACL SETUSER one clearselectors allkeys
    ACL SETUSER one ~x
    ACL SETUSER one allchannels
    ACL SETUSER one &x
    ACL LIST
    ACL SETUSER one resetkeys resetchannels nocommands +@all -get
    ACL LIST
    ACL SETUSER one +get
    ACL SETUSER one reset
    ACL GETUSER one
    ACL SETUSER two +@all -client|kill
    ACL GETUSER two
    ACL SETUSER two -@all +client -client|id +acl|whoami
    ACL GETUSER two
    ACL SETUSER three on nopass ~a +get
    ACL DRYRUN three get a
    ACL DRYRUN three get b
    ACL DRYRUN three set a 1
    ACL DRYRUN three set a
    ACL DRYRUN three nosuch
    ACL DRYRUN nobody get a
    ACL DRYRUN two client kill 1
    ACL USERS
    ACL DELUSER one two nobody
    ACL DELUSER default
    ACL GENPASS 0
    ACL GENPASS 4097
    ACL GENPASS x
    ACL CAT nosuch
    ACL CAT
    ACL NOSUCH
    ACL WHOAMI x
    ACL LOG RESET
    ACL LOG
    ACL LOG x
    AUTH three anything
    ACL WHOAMI
    GET a
    GET b
    SET a 1
    AUTH default x
    ACL WHOAMI
    ACL DELUSER three
    AUTH three x
";

/// Starts a Redis without persistence.
fn redis() -> Option<Other> {
    let arguments = |command: &mut Command, port: u16| {
        command
            .args(["--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string());
    };
    let program = ("ALLUVIUM_REDIS_SERVER", "redis-server");
    Other::start(program, arguments, ("INFO server\r\n", "process_id:"))
}

#[test]
fn rules_mean_and_are_told_what_redis_says() {
    let Some(redis) = redis() else {
        return;
    };
    let fixture = Fixture::new();
    let (mut theirs, mut ours) = (Client::connect(redis.address), fixture.client());
    for command in SAME.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Redis lists single commands in the order of a hash table.
        let words = |client: &mut Client| {
            let reply = client.ask(command);
            let mut words: Vec<String> = reply.split([' ', '"']).map(str::to_owned).collect();
            // This server does not load payloads, so it does not list their flag.
            words.retain(|word| !word.is_empty() && word != "sanitize-payload");
            words.sort();
            words
        };
        assert_eq!(words(&mut ours), words(&mut theirs), "{command}");
    }
}

#[test]
fn commands_are_of_the_classes_and_do_with_keys_what_redis_says() {
    let Some(redis) = redis() else {
        return;
    };
    let fixture = Fixture::new();
    let (mut theirs, mut ours) = (Client::connect(redis.address), fixture.client());
    // On both servers, every common command must have the same categories and access keys in the
    // same way.
    let names = |text: &str| -> Vec<String> {
        let words = text.trim_matches(['[', ']']).split(' ');
        words.map(|word| word.trim_matches('"').to_owned()).collect()
    };
    let all = |client: &mut Client| {
        let mut classes = std::collections::BTreeMap::<String, Vec<String>>::new();
        for class in names(&client.ask("ACL CAT")) {
            for name in names(&client.ask(&format!("ACL CAT {class}"))) {
                classes.entry(name).or_default().push(class.clone());
            }
        }
        classes
    };
    let (theirs_in, ours_in) = (all(&mut theirs), all(&mut ours));
    let both: Vec<_> = ours_in
        .iter()
        .filter(|(name, _)| theirs_in.contains_key(*name))
        .collect();
    assert!(both.len() > 150, "{}", both.len());
    for (name, classes) in both {
        assert_eq!(classes, &theirs_in[name], "{name}");
    }
    for name in [
        "get", "set", "keys", "watch", "acl", "config", "info", "dbsize", "zadd",
    ] {
        let classes = |reply: &str| -> Vec<String> {
            // The subcommands' categories come after those of the command.
            let own = reply.split("[@").nth(1).unwrap_or_default();
            let words = own.split(']').next().unwrap_or_default().split(' ');
            words.map(str::to_owned).collect()
        };
        let command = format!("COMMAND INFO {name}");
        let (our, their) = (classes(&ours.ask(&command)), classes(&theirs.ask(&command)));
        assert!(!our[0].is_empty() && our == their, "{name}: {our:?}, {their:?}");
    }
    for client in [&mut ours, &mut theirs] {
        client.script("ACL SETUSER keys allcommands %R~r* %W~w* ~b* => OK");
    }
    for line in ours_in.keys().filter(|name| !name.contains('|')) {
        for keys in ["r r", "w w", "r w", "w r", "b b", "b x", "w b", "x x"] {
            for rest in ["", " 1", " 1 2", " 1 GET"] {
                let command = format!("ACL DRYRUN keys {line} {keys}{rest}");
                let (our, their) = (ours.ask(&command), theirs.ask(&command));
                let is_told = our == "OK" || our.contains("access the");
                if is_told && (their == "OK" || their.contains("access the")) {
                    assert_eq!(our, their, "{command}");
                }
            }
        }
    }
}
