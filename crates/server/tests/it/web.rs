//! HTTP responses of the web page.

use crate::client::{Client, Fixture, any_port, options};
use alluvium::{Db, Options};
use alluvium_server::{Error, Exposure, Server, ServerLimits, ServerOptions, TlsOptions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let answer = self.is(200);
        assert_eq!(answer.headers["content-type"], "application/json");
        serde_json::from_slice(&answer.body).unwrap()
    }
}

pub(crate) fn with_page() -> ServerOptions {
    ServerOptions {
        web: any_port(),
        ..options()
    }
}

fn request(address: SocketAddr, head: &str) -> Answer {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_lowercase(), value.to_owned())
    };
    Answer {
        status,
        headers: lines.map(header).collect(),
        body: all[end + 4..].to_vec(),
    }
}

fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    request(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"),
    )
}

pub(crate) fn get(fixture: &Fixture, path: &str) -> Answer {
    get_with(fixture.server.web_addr().unwrap(), path, "")
}

fn list(value: &Value, name: &str) -> Vec<String> {
    let keys = value["keys"].as_array().unwrap();
    keys.iter()
        .map(|key| key[name].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_is_whole_and_runs_nothing_but_its_own() {
    let fixture = Fixture::with(with_page());
    let page = get(&fixture, "/").is(200);
    let policy = &page.headers["content-security-policy"];
    for word in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(word), "{policy}");
    }
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert_eq!(page.headers["cross-origin-resource-policy"], "same-origin");
    // This server must have every file that the page and its scripts mention, and none may come
    // from another site.
    let mut found = BTreeSet::new();
    let mut left = vec!["/".to_owned()];
    while let Some(path) = left.pop() {
        if !found.insert(path.clone()) {
            continue;
        }
        let text = get(&fixture, &path).is(200).text();
        assert!(!text.contains("https://"), "{path} needs another site");
        for part in text.split(['"', '\'']) {
            let name = part.strip_prefix("./").or(part.strip_prefix('/')).unwrap_or("");
            if name.ends_with(".js") || name.ends_with(".css") || name.ends_with(".svg") {
                left.push(format!("/{name}"));
            }
        }
    }
    assert!(found.len() >= 8, "{found:?}");
    get(&fixture, "/nothing").is(404);
    let address = fixture.server.web_addr().unwrap();
    let post = format!(
        "POST /api/stats HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    request(address, &post).is(405);
}

#[test]
fn strangers_names_and_other_sites_are_refused() {
    let fixture = Fixture::with(ServerOptions {
        web_names: vec!["rivers.example".to_owned()],
        ..with_page()
    });
    let address = fixture.server.web_addr().unwrap();
    let named = |host: &str| {
        request(
            address,
            &format!("GET /api/stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    };
    named("evil.example").is(421);
    named("127.0.0.1.evil.example:7070").is(421);
    named("rivers.example:7070").is(200);
    named("localhost").is(200);
    request(
        address,
        "GET http://evil.example/api/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .is(421);
    request(address, "GET /api/stats HTTP/1.0\r\n\r\n").is(421);
    get_with(address, "/api/stats", "Sec-Fetch-Site: cross-site\r\n").is(403);
    get_with(address, "/", "Sec-Fetch-Site: cross-site\r\n").is(200);
    get_with(address, "/api/stats", "Sec-Fetch-Site: same-origin\r\n").is(200);
}

#[test]
fn without_the_password_nothing_is_told() {
    let fixture = Fixture::with(ServerOptions {
        password: Some("secret".to_owned()),
        ..with_page()
    });
    let address = fixture.server.web_addr().unwrap();
    for path in [
        "/",
        "/app.js",
        "/api/stats",
        "/api/keys?keyspace=redis",
        "/metrics",
        "/nothing",
    ] {
        let answer = get(&fixture, path).is(401);
        assert!(answer.headers["www-authenticate"].starts_with("Basic"));
        assert!(!answer.text().contains("alluvium_"), "{path}");
    }
    // The credentials are `anybody:wrong`, then `anybody:secret`, in base64.
    get_with(
        address,
        "/api/stats",
        "Authorization: Basic YW55Ym9keTp3cm9uZw==\r\n",
    )
    .is(401);
    let right = "Authorization: Basic YW55Ym9keTpzZWNyZXQ=\r\n";
    get_with(address, "/api/stats", right).is(200);
    // A password set with CONFIG SET must apply to the page, too.
    let mut client = fixture.client();
    client.ask("AUTH secret");
    assert_eq!(client.ask("CONFIG SET requirepass other"), "OK");
    get_with(address, "/api/stats", right).is(401);
}

#[test]
fn a_page_that_strangers_could_read_is_not_served() {
    let place = tempfile::tempdir().unwrap();
    let db = Db::open(place.path().join("store")).unwrap();
    let open = |password: Option<&str>, tls, exposure| {
        let options = ServerOptions {
            web: Some("0.0.0.0:0".parse().unwrap()),
            password: password.map(str::to_owned),
            tls,
            exposure,
            ..ServerOptions::default()
        };
        Server::start(&db, options)
    };
    let refused = |server: Result<Server, Error>| matches!(server, Err(Error::Unprotected { .. }));
    assert!(refused(open(None, None, Exposure::Protected)));
    // Encryption alone does not restrict access.
    let tls = TlsOptions {
        certificate: Vec::new(),
        key: Vec::new(),
        client_authority: None,
    };
    assert!(refused(open(None, Some(tls), Exposure::Protected)));
    assert!(open(Some("secret"), None, Exposure::Protected).is_ok());
    assert!(open(None, None, Exposure::Unprotected).is_ok());
}

#[test]
fn keys_are_found_page_by_page_whatever_their_bytes_are() {
    let fixture = Fixture::with(with_page());
    let rivers = fixture.db.keyspace("rivers & lakes").unwrap();
    for number in 0..25u32 {
        rivers.put(format!("r/{number:02}"), format!("{number}")).unwrap();
    }
    rivers.put([0xff, 0, b'%'], "bytes").unwrap();
    rivers.put("", [0xfe; 300]).unwrap();
    let space = "/api/keys?keyspace=rivers+%26%20lakes";
    let spaces = get(&fixture, "/api/keyspaces").json();
    let known = spaces["keyspaces"].as_array().unwrap().iter();
    let ours = known
        .clone()
        .find(|space| space["name"] == "rivers & lakes")
        .unwrap();
    assert_eq!(ours["approximate_keys"], 27);
    // In both directions, the pages together must contain every key.
    for (reverse, first) in [("", "r/00"), ("&reverse", "r/24")] {
        let mut all: Vec<String> = Vec::new();
        let mut after = String::new();
        loop {
            let page = get(&fixture, &format!("{space}&prefix=r/&limit=10{reverse}{after}")).json();
            all.extend(list(&page, "key"));
            match page["next"]["key"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!((all.len(), all[0].as_str()), (25, first));
        assert!(all.windows(2).all(|two| (two[0] < two[1]) == reverse.is_empty()));
    }
    let page = get(&fixture, &format!("{space}&from=r/05&to=r/07")).json();
    assert_eq!(list(&page, "value"), ["5", "6"]);
    let page = get(&fixture, &format!("{space}&prefix=%ff%00")).json();
    assert_eq!(page["keys"][0]["key_base64"], "/wAl");
    assert_eq!(page["keys"][0]["value"], "bytes");
    let page = get(&fixture, &format!("{space}&limit=1")).json();
    let first = &page["keys"][0];
    assert_eq!((&first["bytes"], &first["is_cut"]), (&300.into(), &true.into()));
    let path = |rest: &str| format!("/api/value{rest}keyspace=rivers%20%26%20lakes&key=");
    assert_eq!(get(&fixture, &path("/raw?")).is(200).body, [0xfe; 300]);
    let piece = get(&fixture, &format!("{}&offset=298", path("?"))).json();
    assert_eq!(
        (&piece["value_base64"], &piece["offset"]),
        (&"/v4=".into(), &298.into())
    );
    get(&fixture, &format!("{}none", path("?"))).is(404);
    for wrong in [
        "/api/keys",
        "/api/keys?keyspace=redis&limit=x",
        "/api/keys?keyspace=memcached&database=0",
        "/api/keys?keyspace=redis&database=16",
        "/api/keys?keyspace=%f",
        "/api/value?keyspace=redis",
    ] {
        get(&fixture, wrong).is(400);
    }
    get(&fixture, "/api/keys?keyspace=none").is(404);
}

fn types_of_redis(fixture: &Fixture) {
    let page = get(fixture, "/api/keys?keyspace=redis&database=0").json();
    assert_eq!(
        list(&page, "key"),
        ["hash", "list", "set", "soon", "text", "zset"]
    );
    assert_eq!(
        list(&page, "type"),
        ["hash", "list", "set", "string", "string", "zset"]
    );
    assert!(page["keys"][3]["expires_ms"].as_u64().unwrap() > 0);
    assert_eq!(
        (&page["keys"][4]["value"], &page["keys"][1]["count"]),
        (&"hello".into(), &2.into())
    );
    let of = |key: &str| {
        get(
            fixture,
            &format!("/api/value?keyspace=redis&database=0&key={key}"),
        )
        .json()
    };
    assert_eq!(of("text")["value"], "hello");
    assert_eq!(of("list")["elements"][1]["value"], "b");
    assert_eq!(of("set")["elements"][0]["member"], "m");
    assert_eq!(
        of("hash")["elements"][0],
        serde_json::json!({ "field": "f", "value": "v" })
    );
    assert_eq!(
        of("zset")["elements"],
        serde_json::json!([{ "member": "low", "score": "-inf" }, { "member": "high", "score": "1.5" }])
    );
    get(fixture, "/api/value/raw?keyspace=redis&database=0&key=list").is(400);
}

#[test]
fn the_types_of_redis_and_items_of_memcached_are_shown_as_what_they_are() {
    let fixture = Fixture::with(with_page());
    let mut client = fixture.client();
    client.script(
        "SET text hello => OK
         SET soon x EX 3000 => OK
         SET gone x PX 1 => OK
         RPUSH list a b => :2
         SADD set m => :1
         HSET hash f v => :1
         ZADD zset -inf low 1.5 high => :2
         SELECT 3 => OK
         SET elsewhere 1 => OK
         SELECT 0 => OK",
    );
    while client.ask("EXISTS gone") == ":1" {
        std::thread::yield_now();
    }
    types_of_redis(&fixture);
    let page = get(&fixture, "/api/keys?keyspace=redis&database=3").json();
    assert_eq!(list(&page, "key"), ["elsewhere"]);
    let mut memcached = Client::connect(fixture.server.memcached_addr().unwrap());
    memcached.send_bytes(b"set item 7 0 5\r\nhello\r\nget item\r\n");
    for line in ["STORED", "VALUE item 7 5", "hello", "END"] {
        let mut bytes = vec![0; line.len() + 2];
        memcached.read_exact(&mut bytes);
        assert_eq!(bytes, format!("{line}\r\n").as_bytes());
    }
    let page = get(&fixture, "/api/keys?keyspace=memcached").json();
    let item = &page["keys"][0];
    assert_eq!(
        (&item["key"], &item["value"], &item["flags"]),
        (&"item".into(), &"hello".into(), &7.into())
    );
    let spaces = get(&fixture, "/api/keyspaces").json();
    let redis = spaces["keyspaces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|space| space["name"] == "redis");
    let databases = redis.unwrap()["databases"].as_array().unwrap();
    assert_eq!(databases.len(), 2, "{databases:?}");
}

#[test]
fn the_tree_is_shown_with_every_record_in_it() {
    let fixture = Fixture::with(with_page());
    let keyspace = fixture.db.keyspace("rivers").unwrap();
    for number in 0..5000u32 {
        keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    fixture.db.checkpoint().unwrap();
    fn records(node: &Value) -> u64 {
        let pivots = node["pivots"].as_array().unwrap().iter();
        let layers = |pivot: &Value, name: &str| {
            let layers = pivot[name].as_array().unwrap().iter();
            layers
                .map(|layer| layer["records"].as_u64().unwrap())
                .sum::<u64>()
        };
        pivots
            .map(|pivot| {
                let below = if pivot["child"].is_null() {
                    0
                } else {
                    records(&pivot["child"])
                };
                layers(pivot, "own") + layers(pivot, "pending") + below
            })
            .sum()
    }
    let tree = get(&fixture, "/api/tree").json();
    assert!(records(&tree["root"]) >= 5000, "{tree}");
    assert!(tree["pages"].is_null(), "no keyspace is in pages");
    assert_eq!(tree["root"]["low"]["key"], "");
    let stats = get(&fixture, "/api/stats").json();
    assert_eq!(stats["process_id"], std::process::id());
    assert!(stats["figures"]["operations.puts"].as_f64().unwrap() >= 5000.0);
}

#[test]
fn history_is_noted_while_nobody_looks_and_handed_out_once() {
    let fixture = Fixture::with(with_page());
    let mut next = 0;
    while next < 2 {
        next = get(&fixture, "/api/history").json()["next"].as_u64().unwrap();
    }
    let history = get(&fixture, "/api/history").json();
    let (columns, rows) = (
        history["columns"].as_array().unwrap(),
        history["rows"].as_array().unwrap(),
    );
    assert!(columns.iter().any(|name| name == "writes_per_s"));
    for row in rows {
        assert_eq!(row["row"].as_array().unwrap().len(), columns.len());
    }
    let later = history["next"].as_u64().unwrap();
    let rest = get(&fixture, &format!("/api/history?after={later}")).json();
    let new = rest["next"].as_u64().unwrap() - later;
    assert_eq!(rest["rows"].as_array().unwrap().len() as u64, new);
}

#[test]
fn what_transactions_hold_back_is_said_on_every_way() {
    let fixture = Fixture::with(with_page());
    let rivers = fixture.db.keyspace("rivers").unwrap();
    let open = fixture.db.begin();
    open.put(&rivers, "Elbe", "1094 km").unwrap();
    for length in ["1", "2"] {
        rivers.put("Oder", length).unwrap();
    }
    let said = get(&fixture, "/api/transactions").json();
    let one = &said["transactions"][0];
    assert_eq!(one["number"], open.number());
    assert_eq!(
        (&one["isolation"], &one["mechanism"]),
        (&"serializable".into(), &"optimistic".into())
    );
    assert_eq!(one["commits_held"], 2);
    assert!(one["memory_bytes"].as_u64() > Some(0), "{said}");
    let metrics = get(&fixture, "/metrics").is(200).text().to_owned();
    assert!(metrics.contains("alluvium_transactions_open 1\n"), "{metrics}");
    assert!(
        metrics.contains("alluvium_transactions_ended_total{how=\"rolled_back\"}"),
        "{metrics}"
    );
    let info = fixture.client().ask("INFO stats");
    let info = format!("{info:?}");
    assert!(info.contains("alluvium_transactions_open:1"), "{info}");
    assert!(info.contains("alluvium_held_commits:"), "{info}");
    drop(open);
    let said = get(&fixture, "/api/transactions").json();
    assert_eq!(said["transactions_open"], 0);
}

#[test]
fn prometheus_can_read_the_metrics() {
    let fixture = Fixture::with(with_page());
    let mut client = fixture.client();
    for number in 0..2000 {
        client.ask(&format!("SET key{number} value"));
    }
    let answer = get(&fixture, "/metrics").is(200);
    assert!(answer.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    let (mut helped, mut kinds, mut names) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let mut buckets: Vec<(String, u64)> = Vec::new();
    for line in answer.text().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.') && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                let family = name.strip_suffix(end)?;
                (kinds.get(family)? == "histogram").then_some(family)
            });
            let family = family.unwrap_or(name);
            assert!(helped.contains(family) && kinds.contains_key(family), "{line}");
            assert!(names.insert(series.to_owned()), "{line} twice");
            if series.contains("_bucket{operation=\"commit\"") {
                buckets.push((series.to_owned(), value.parse().unwrap()));
            }
        }
    }
    assert!(buckets.len() > 20 && buckets.windows(2).all(|two| two[0].1 <= two[1].1));
    let (last, timed) = buckets.last().unwrap();
    assert!(last.contains("+Inf") && *timed > 0, "{last} {timed}");
    let text = answer.text();
    assert!(text.contains("alluvium_memory_bytes{owner=\"pages\"}"));
    assert!(text.contains("alluvium_device_written_bytes_total{purpose=\"log\"}"));
    assert!(text.contains("alluvium_forecast{quantity=\"write_amplification\",of=\"predicted\"}"));
}

#[test]
fn what_the_store_should_cost_stands_beside_what_it_does_cost() {
    let fixture = Fixture::with(with_page());
    let mut client = fixture.client();
    for number in 0..4000 {
        client.ask(&format!("SET key{number} value"));
        client.ask(&format!("GET key{}", number * 2));
    }
    let forecast = get(&fixture, "/api/forecast").json();
    assert_eq!(forecast["keyspace"], "redis");
    let rows = forecast["now"].as_array().unwrap();
    assert_eq!(rows.len(), alluvium::CostQuantity::ALL.len());
    for row in rows {
        let of = |name: &str| row[name].as_f64().unwrap();
        assert!(
            of("p10") <= of("predicted") && of("predicted") <= of("p90"),
            "{row}"
        );
    }
    let info = format!("{:?}", client.ask("INFO forecast"));
    assert!(info.contains("alluvium_forecast_reads_hit:p10="), "{info}");
    let all = format!("{:?}", client.ask("INFO"));
    assert!(
        !all.contains("alluvium_forecast"),
        "it takes the models' time: {all}"
    );
}

#[test]
fn requests_and_connections_have_limits() {
    let fixture = Fixture::with(ServerOptions {
        limits: ServerLimits::default(),
        ..with_page()
    });
    let address = fixture.server.web_addr().unwrap();
    let long = format!("X-Long: {}\r\n", "x".repeat(1 << 20));
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\n{long}\r\n");
    // The server may refuse the request before all of it has been sent.
    let _ = socket.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    // Connected clients occupy all slots. Another one is refused, but is served once a slot is
    // free.
    let mut held: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    for socket in &mut held {
        let get = format!("GET /api/clients HTTP/1.1\r\nHost: {address}\r\n\r\n");
        socket.write_all(get.as_bytes()).unwrap();
        socket.read_exact(&mut [0; 12]).unwrap();
    }
    get(&fixture, "/api/clients").is(503);
    held.pop();
    while get(&fixture, "/api/clients").status == 503 {
        std::thread::yield_now();
    }
    // Open connections must not delay the end of the server.
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_page_alone_can_be_served() {
    let place = tempfile::tempdir().unwrap();
    let db = Options::new()
        .memory(64 << 20)
        .open(place.path().join("store"))
        .unwrap();
    let options = ServerOptions {
        web: any_port(),
        ..ServerOptions::default()
    };
    let server = Server::start(&db, options).unwrap();
    get_with(server.web_addr().unwrap(), "/api/stats", "").is(200);
    server.stop();
    server.join().unwrap();
}
