//! Connections: authentication, settings, and what the server reports about each.

use crate::client::{Client, Fixture, any_port, options};
use alluvium_server::{Error, Exposure, Server, ServerOptions, TlsOptions};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn connections_that_do_not_say_who_they_are_end() {
    let fixture = Fixture::with(ServerOptions {
        password: Some("secret".to_owned()),
        login_timeout: Duration::from_millis(400),
        ..options()
    });
    let mut known = fixture.client();
    known.script("AUTH secret => OK");
    let mut item = std::net::TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
    let mut asks = fixture.client();
    asks.script("PING => -NOAUTH Authentication required.");
    assert_eq!(fixture.client().try_reply(), None, "it ends without a word");
    assert_eq!(asks.try_reply(), None);
    assert_eq!(item.read(&mut [0; 8]).unwrap(), 0);
    // A client that gives up its identity gets the full login timeout again.
    known.script("PING => PONG\nRESET => RESET");
    assert_eq!(known.try_reply(), None);
    let open = Fixture::with(ServerOptions {
        login_timeout: Duration::from_millis(1),
        ..options()
    });
    let mut client = open.client();
    client.script("PING => PONG");
    std::thread::sleep(Duration::from_millis(30));
    client.script("PING => PONG");
}

#[test]
fn connections_do_what_redis_says() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        PING x => "x"
        ECHO x => "x"
        PING a b => -ERR wrong number of arguments for 'ping' command
        CLIENT ID => :1
        CLIENT SETNAME me => OK
        CLIENT GETNAME => "me"
        CLIENT NO-EVICT ON => OK
        HELLO 4 => -NOPROTO unsupported protocol version
        HELLO x => -ERR Protocol version is not an integer or out of range
        AUTH x => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        CONFIG GET maxclients => ["maxclients" "10000"]
        CONFIG SET slowlog-log-slower-than 0 => OK
        SET a 1 => OK
        CONFIG SET slowlog-log-slower-than -1 => OK
        CONFIG SET nothing 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'nothing'
        CONFIG SET port 1 => -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config
        COMMAND GETKEYS MSET a 1 b 2 => ["a" "b"]
        OBJECT ENCODING a => "int"
        OBJECT ENCODING none => nil
        DEBUG SLEEP 0 => OK
        SLOWLOG RESET => OK
        SLOWLOG LEN => :0
        RESET => RESET
        CLIENT GETNAME => nil
        "#,
    );
    assert!(client.ask("CLIENT INFO").contains("resp=2"));
    assert!(client.ask("INFO server").contains("redis_version:7.0.15"));
    assert!(client.ask("INFO").contains("total_commands_processed:"));
    client.ask("SELECT 9");
    client.ask("MSET a 1 b 2 c 3");
    let keyspaces = client.ask("INFO keyspace");
    assert!(keyspaces.contains("db9:keys=3"), "{keyspaces}");
    client.ask("SELECT 0");
    assert!(
        client
            .ask("COMMAND INFO get")
            .starts_with("[[\"get\" :2 [readonly fast] :1 :1 :1")
    );
    assert!(client.ask("COMMAND DOCS get").contains("\"summary\""));
    assert!(client.ask("HELLO 3").starts_with("{\"server\" \"redis\""));
    client.script("GET none => nil\nSMEMBERS none => <>\nQUIT => OK");
    assert_eq!(client.try_reply(), None);
}

#[test]
fn slow_commands_are_kept() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("CONFIG SET slowlog-log-slower-than 0 => OK\nSET key value => OK");
    let log = client.ask("SLOWLOG GET 1");
    assert!(log.contains("[\"SET\" \"key\" \"value\"]"), "{log}");
}

#[test]
fn replies_can_be_switched_off() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send_bytes(b"CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nNOSUCH\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.reply(), "OK");
    assert_eq!(client.reply(), "\"1\"");
    client.send_bytes(b"CLIENT REPLY SKIP\r\nGET a\r\nPING\r\n");
    assert_eq!(client.reply(), "PONG");
}

#[test]
fn a_connection_can_be_ended_by_another() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let id = one.ask("CLIENT ID")[1..].to_owned();
    assert_eq!(two.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_eq!(one.try_reply(), None);
    two.script("PING => PONG");
}

#[test]
fn one_that_waits_does_not_hold_up_others() {
    let fixture = Fixture::new();
    let mut sleepers: Vec<Client> = (0..4).map(|_| fixture.client()).collect();
    let mut others: Vec<Client> = (0..4).map(|_| fixture.client()).collect();
    others[0].script("SET a 1 => OK");
    for sleeper in &mut sleepers {
        sleeper.send_bytes(b"DEBUG SLEEP 1.5\r\n");
    }
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    for _ in 0..20 {
        for other in &mut others {
            other.script("GET a => \"1\"");
        }
    }
    assert!(
        began.elapsed() < Duration::from_millis(1200),
        "{:?}",
        began.elapsed()
    );
    for sleeper in &mut sleepers {
        assert_eq!(sleeper.reply(), "OK");
    }
}

#[test]
fn connections_of_a_loop_that_changes_hands_are_all_served() {
    let fixture = Fixture::with(ServerOptions {
        loops: Some(1),
        ..options()
    });
    std::thread::scope(|scope| {
        for number in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                for step in 0..150 {
                    if (step + number) % 5 == 0 {
                        client.script("DEBUG SLEEP 0.004 => OK");
                    } else {
                        client.script("PING => PONG");
                    }
                }
            });
        }
    });
}

#[test]
fn a_password_keeps_strangers_out() {
    let fixture = Fixture::with(ServerOptions {
        password: Some("secret".to_owned()),
        ..options()
    });
    let mut client = fixture.client();
    client.script(
        r#"
        GET a => -NOAUTH Authentication required.
        PING => -NOAUTH Authentication required.
        AUTH wrong => -WRONGPASS invalid username-password pair or user is disabled.
        AUTH other secret => -WRONGPASS invalid username-password pair or user is disabled.
        AUTH secret => OK
        PING => PONG
        CONFIG SET requirepass other => OK
        RESET => RESET
        PING => -NOAUTH Authentication required.
        AUTH default other => OK
        "#,
    );
    let mut stranger = fixture.client();
    assert!(
        stranger
            .ask("HELLO 3")
            .starts_with("-NOAUTH HELLO must be called")
    );
    assert!(stranger.ask("HELLO 3 AUTH default other").starts_with('{'));
    let mut stranger = fixture.client();
    stranger.send_bytes(b"*11\r\n");
    assert_eq!(
        stranger.reply(),
        "-ERR Protocol error: unauthenticated multibulk length"
    );
    assert_eq!(stranger.try_reply(), None);
}

#[test]
fn addresses_that_others_can_reach_need_protection() {
    let place = tempfile::tempdir().unwrap();
    let db = alluvium::Db::open(place.path().join("store")).unwrap();
    let open = |options: ServerOptions| Server::start(&db, options);
    let outside = Some("0.0.0.0:0".parse().unwrap());
    let bare = ServerOptions {
        redis: outside,
        ..ServerOptions::default()
    };
    assert!(matches!(open(bare.clone()), Err(Error::Unprotected { .. })));
    let with_password = ServerOptions {
        password: Some("secret".to_owned()),
        ..bare.clone()
    };
    assert!(open(with_password).is_ok());
    let unprotected = ServerOptions {
        exposure: Exposure::Unprotected,
        ..bare
    };
    assert!(open(unprotected).is_ok());
    let memcached = ServerOptions {
        memcached: outside,
        ..ServerOptions::default()
    };
    assert!(matches!(open(memcached.clone()), Err(Error::Unprotected { .. })));
    let with_password = ServerOptions {
        password: Some("secret".to_owned()),
        ..memcached.clone()
    };
    assert!(open(with_password).is_ok());
    // Every client may use encryption.
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let tls = |client_authority| TlsOptions {
        certificate: issued.cert.pem().into_bytes(),
        key: issued.signing_key.serialize_pem().into_bytes(),
        client_authority,
    };
    let encrypted = |tls| ServerOptions {
        tls: Some(tls),
        ..memcached.clone()
    };
    assert!(matches!(
        open(encrypted(tls(None))),
        Err(Error::Unprotected { .. })
    ));
    let authority = Some(issued.cert.pem().into_bytes());
    assert!(open(encrypted(tls(authority))).is_ok());
}

#[test]
fn clients_of_memcached_give_the_password_first() {
    let fixture = Fixture::with(ServerOptions {
        password: Some("se cret".to_owned()),
        ..options()
    });
    let ask = |requests: &[u8]| {
        let mut socket = std::net::TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(requests).unwrap();
        socket.write_all(b"quit\r\n").unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply
    };
    assert_eq!(
        ask(b"get a\r\nstats\r\nms a 1\r\nx\r\nmn\r\n"),
        "CLIENT_ERROR unauthenticated\r\n".repeat(4)
    );
    assert_eq!(
        ask(
            b"set x 0 0 7\r\ndefault\r\nset x 0 0 15\r\ndefault se creT\r\nset x 0 0 13\r\nother se cret\r\n"
        ),
        "CLIENT_ERROR authentication failure\r\n".repeat(3)
    );
    assert_eq!(
        ask(b"set x 0 0 15\r\ndefault se cret\r\nset a 0 0 1\r\n1\r\nget a x\r\n"),
        "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
    assert_eq!(ask(&[b'a'; 20_000]), "");
}

/// Creates a certificate signed by a separate authority, and a client that presents it.
fn with_certificate(trusted: &rcgen::Certificate) -> (Vec<u8>, rustls::ClientConfig) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (authority.pem().into_bytes(), config)
}

#[test]
fn clients_without_a_certificate_of_the_authority_are_kept_out() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (authority, known) = with_certificate(&issued.cert);
    let (_, unknown) = with_certificate(&issued.cert);
    let fixture = Fixture::with(ServerOptions {
        tls: Some(TlsOptions {
            certificate: issued.cert.pem().into_bytes(),
            key: issued.signing_key.serialize_pem().into_bytes(),
            client_authority: Some(authority),
        }),
        ..options()
    });
    let ask = |config: rustls::ClientConfig| {
        let session =
            rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let socket = std::net::TcpStream::connect(fixture.server.redis_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut stream = rustls::StreamOwned::new(session, socket);
        let _ = stream.write_all(b"PING\r\n");
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).map(|()| reply)
    };
    assert_eq!(&ask(known).unwrap(), b"+PONG\r\n");
    assert!(ask(unknown).is_err());
}

#[test]
fn handshakes_that_do_not_come_to_their_end_are_ended() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let fixture = Fixture::with(ServerOptions {
        tls: Some(TlsOptions {
            certificate: issued.cert.pem().into_bytes(),
            key: issued.signing_key.serialize_pem().into_bytes(),
            client_authority: None,
        }),
        login_timeout: Duration::from_millis(100),
        ..options()
    });
    for begun in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut socket = std::net::TcpStream::connect(fixture.server.redis_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(begun).unwrap();
        let mut said = Vec::new();
        // The server's closing message is not a reply.
        socket.read_to_end(&mut said).unwrap();
        assert!(said.len() < 40, "{said:?}");
    }
}

#[test]
fn connections_can_be_encrypted() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let tls = TlsOptions {
        certificate: issued.cert.pem().into_bytes(),
        key: issued.signing_key.serialize_pem().into_bytes(),
        client_authority: None,
    };
    let fixture = Fixture::with(ServerOptions {
        tls: Some(tls),
        ..options()
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = std::net::TcpStream::connect(fixture.server.redis_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut stream = rustls::StreamOwned::new(session, socket);
    let value = "x".repeat(300_000);
    stream
        .write_all(format!("SET k {}\r\n", &value[..60_000]).as_bytes())
        .unwrap();
    stream
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$300000\r\n{value}\r\n").as_bytes())
        .unwrap();
    stream.write_all(b"GET l\r\n").unwrap();
    let expected = format!("+OK\r\n+OK\r\n$300000\r\n{value}\r\n");
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply == expected.as_bytes());
    // A client without encryption must get no reply.
    let mut plain = std::net::TcpStream::connect(fixture.server.redis_addr().unwrap()).unwrap();
    plain.write_all(b"PING\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    // The connection may end in the middle of the server's answer.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|part| part == b"PONG"));
    let bad = TlsOptions {
        certificate: b"nothing".to_vec(),
        key: b"nothing".to_vec(),
        client_authority: None,
    };
    let started = Server::start(
        &fixture.db,
        ServerOptions {
            redis: any_port(),
            tls: Some(bad),
            ..ServerOptions::default()
        },
    );
    assert!(matches!(started, Err(Error::Tls { .. })));
}

#[test]
fn a_panic_in_a_command_ends_its_connection_alone() {
    let fixture = Fixture::new();
    let mut other = fixture.client();
    other.script("SET a 1 => OK");
    // Use more iterations than the maximum number of threads.
    for _ in 0..300 {
        let mut client = fixture.client();
        client.send_bytes(b"DEBUG PANIC\r\n");
        assert_eq!(client.try_reply(), None);
    }
    other.script("GET a => \"1\"\nSET a 2 => OK");
    assert!(other.ask("INFO stats").contains("alluvium_panics:300"));
    fixture.server.stop();
    fixture.server.join().unwrap();
}

/// Connects with TLS, and returns the reply to a PING, or nothing if the certificate is not
/// the trusted one.
fn ping_trusting(address: std::net::SocketAddr, trusted: &rcgen::Certificate) -> Vec<u8> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut stream = rustls::StreamOwned::new(session, socket);
    let _ = stream.write_all(b"PING\r\n");
    let mut reply = vec![0; 7];
    match stream.read_exact(&mut reply) {
        Ok(()) => reply,
        Err(_) => Vec::new(),
    }
}

#[test]
fn certificates_are_replaced_while_the_server_runs() {
    let issue = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let options_of = |issued: &rcgen::CertifiedKey<rcgen::KeyPair>| TlsOptions {
        certificate: issued.cert.pem().into_bytes(),
        key: issued.signing_key.serialize_pem().into_bytes(),
        client_authority: None,
    };
    let (first, second) = (issue(), issue());
    let fixture = Fixture::with(ServerOptions {
        tls: Some(options_of(&first)),
        web: any_port(),
        ..options()
    });
    let redis = fixture.server.redis_addr().unwrap();
    assert_eq!(ping_trusting(redis, &first.cert), b"+PONG\r\n");
    assert_eq!(ping_trusting(redis, &second.cert), b"");
    let damaged = TlsOptions {
        key: b"nothing".to_vec(),
        ..options_of(&second)
    };
    assert!(fixture.server.reload_tls(&damaged).is_err());
    assert_eq!(
        ping_trusting(redis, &first.cert),
        b"+PONG\r\n",
        "a mistake changes nothing"
    );
    fixture.server.reload_tls(&options_of(&second)).unwrap();
    assert_eq!(ping_trusting(redis, &first.cert), b"");
    assert_eq!(ping_trusting(redis, &second.cert), b"+PONG\r\n");
    let plain = Fixture::with(options());
    assert!(plain.server.reload_tls(&options_of(&first)).is_err());
}
