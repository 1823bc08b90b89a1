//! `serve`: the store for Redis and memcached clients, and a web page.

use crate::Exit;
use crate::clients::ClientLimits;
use crate::context::{self, Context};
use crate::exit::failure;
use crate::remote::Note;
use crate::screen::{self, Output};
use crate::stop;
use alluvium::Durability;
use alluvium_server::{Exposure, Server, ServerOptions, Tls};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium serve                                    # Redis on port 6379, memcached on 11211, a page at http://127.0.0.1:7070
  alluvium serve --redis 127.0.0.1:7000 --memcached off --memory 2G --durability disk
  ALLUVIUM_PASSWORD=secret alluvium serve --redis 0.0.0.0:6379

Ctrl-C or SIGTERM ends it: what has been received is answered, and the store is closed.";

/// How often it is looked whether a signal has come.
const LOOK: Duration = Duration::from_millis(50);

/// Serve the store to clients that speak the Redis or the memcached protocol, with a web page that shows it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Where the Redis protocol is spoken; `off` for nowhere, port 0 for any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379", value_parser = address)]
    pub redis: Listen,
    /// Where the memcached protocol is spoken; `off` for nowhere, port 0 for any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:11211", value_parser = address)]
    pub memcached: Listen,
    /// Where the web page is; `off` for nowhere, port 0 for any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070", value_parser = address)]
    pub web: Listen,
    /// A name by which browsers may ask for the web page, besides IP addresses and localhost. May be given more than once.
    #[arg(long, value_name = "HOST")]
    pub web_name: Vec<String>,
    /// When a write is acknowledged.
    #[arg(long, value_enum, default_value_t = Word::Process)]
    pub durability: Word,
    /// The password: what Redis clients say to AUTH, memcached clients as the first `set`, whose value is `default TEXT`,
    /// and browsers. Other users of this machine see it in the list of processes: prefer --password-file or the variable.
    #[arg(long, env = "ALLUVIUM_PASSWORD", hide_env_values = true, value_name = "TEXT")]
    pub password: Option<String>,
    /// A file whose first line is the password.
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    pub password_file: Option<PathBuf>,
    /// A certificate for TLS, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Certificates, as PEM: clients must show one that one of these has signed.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_client_ca: Option<PathBuf>,
    /// Listen where others can connect, although neither a password nor certificates of clients are asked for.
    #[arg(long)]
    pub unprotected: bool,
    /// What clients may take.
    #[command(flatten)]
    pub limits: ClientLimits,
}

/// The password of a file: its first line, which must not be empty.
fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(failure(
            Exit::Usage,
            format!(
                "--password-file {}: its first line is empty, write the password there",
                path.display()
            ),
        )),
    }
}

/// Says in flags what the server refuses.
fn in_flags(error: alluvium_server::Error) -> anyhow::Error {
    match error {
        alluvium_server::Error::Unprotected { address } => failure(
            Exit::Usage,
            format!(
                "{address} can be reached from other machines, and nothing keeps them out: set --password-file, or --tls-client-ca \
                 with --tls-certificate and --tls-key (TLS alone lets every client in), or say --unprotected if that is meant"
            ),
        ),
        other => other.into(),
    }
}

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

fn address(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen(None));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found
        .map(|address| Listen(Some(address)))
        .ok_or_else(|| "this is no address: write a host and a port, as in 127.0.0.1:6379, or off".to_owned())
}

/// Durability as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Word {
    /// At once.
    Memory,
    /// When it survives the death of the process; the loss of power costs at most a second.
    Process,
    /// When it survives the loss of power.
    Disk,
}

impl From<Word> for Durability {
    fn from(word: Word) -> Durability {
        match word {
            Word::Memory => Durability::Memory,
            Word::Process => Durability::Process,
            Word::Disk => Durability::Disk,
        }
    }
}

impl Serve {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let options = self.options(context)?;
        context.check()?;
        stop::listen()?;
        let db = context
            .options()
            .durability(self.durability.into())
            .open(&context.path)
            .with_context(|| format!("opening the store in {}", context.path.display()))?;
        let server = Server::start(&db, options).map_err(in_flags)?;
        let _note = self.announce(context, &server)?;
        let is_over = AtomicBool::new(false);
        let served = thread::scope(|scope| {
            scope.spawn(|| {
                while !stop::asked() && !is_over.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                }
                server.stop();
            });
            let served = server.join();
            is_over.store(true, Ordering::Relaxed);
            served
        });
        drop(server);
        let closed = context::close(db);
        served?;
        closed?;
        screen::note("closed in order");
        Ok(Exit::Done)
    }

    fn options(&self, context: &Context) -> Result<ServerOptions> {
        if self.redis.0.is_none() && self.memcached.0.is_none() && self.web.0.is_none() {
            return Err(failure(
                Exit::Usage,
                "--redis, --memcached and --web are all off: no client could connect",
            ));
        }
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(Tls {
                certificate: read(certificate)?,
                key: read(key)?,
                client_authority: self.tls_client_ca.as_deref().map(read).transpose()?,
            }),
            _ => None,
        };
        let password = match &self.password_file {
            Some(path) => Some(first_line(path)?),
            None => self.password.clone(),
        };
        Ok(ServerOptions {
            redis: self.redis.0,
            memcached: self.memcached.0,
            web: self.web.0,
            web_names: self.web_name.clone(),
            password,
            tls,
            exposure: if self.unprotected {
                Exposure::Unprotected
            } else {
                Exposure::Protected
            },
            ..self.limits.options(context.memory)?
        })
    }

    /// Says where it can be reached, now that it can. Other commands find it by a note beside the store, which is there before anybody is told.
    fn announce(&self, context: &Context, server: &Server) -> Result<Option<Note>> {
        let (redis, memcached) = (server.redis_addr(), server.memcached_addr());
        let scheme = if self.tls_certificate.is_some() {
            "https"
        } else {
            "http"
        };
        let web = server.web_addr().map(|address| format!("{scheme}://{address}"));
        let note = web.as_ref().and_then(|url| Note::write(&context.path, url));
        let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        if context.is_json() {
            let mut out = Output::new();
            out.json(&json!({ "redis": text(redis), "memcached": text(memcached), "web": web }))?;
            out.flush()?;
        }
        let shown = |name: &str, address: Option<SocketAddr>| Some(format!("{name} on {}", address?));
        let places: Vec<String> = [shown("Redis", redis), shown("memcached", memcached), web]
            .into_iter()
            .flatten()
            .collect();
        screen::note(&format!(
            "{}, the store in {}; Ctrl-C ends it",
            places.join(", "),
            context.path.display()
        ));
        Ok(note)
    }
}
