//! `serve`: runs a server that gives Redis and memcached clients access to the store, and serves a
//! web page.
//!
//! *Scope*: the options of a server, its start, and its shutdown by a signal.
//!
//! *Must not depend on*: protocols.

pub mod clients;
mod panics;
mod reload;
mod users;

use crate::context::CommandContext;
use crate::jobs::stop;
use crate::remote::password;
use crate::store::files_service::files_services;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::log::{self, LogFormat};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::{self, ByteSize};
use crate::verbs::mount::MountArguments;
use alluvium::{Db, Durability};
use alluvium_server::{
    CacheEvictionPolicy, CacheMemory, CacheServer, DatagramOptions, Exposure, KeyLayout, LogLevel, Server,
    ServerOptions, TlsOptions,
};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use clients::ClientLimits;
use reload::ServerReload;
use sd_notify::NotifyState;
use serde_json::json;
use users::AclFile;

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium serve                                    # Redis on port 6379, memcached on 11211, a page at http://127.0.0.1:7070
  alluvium serve --redis 127.0.0.1:7000 --memcached off --memory 2G --durability disk
  ALLUVIUM_PASSWORD=secret alluvium serve --redis 0.0.0.0:6379
  alluvium serve --hashed                           # a new store with hashed keys
  alluvium serve --cache 4G                         # a cache in memory: no store, nothing on disk

Ctrl-C or SIGTERM stops the server: it answers the requests that it has received, and closes the store. SIGHUP makes it read the \
users, the certificates and the log level again.";

/// How often to check whether a signal has arrived.
const LOOK: Duration = Duration::from_millis(50);

/// Serve the store to clients that speak the Redis or the memcached protocol, with a web page that
/// shows it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeCommand {
    /// A file of settings, which flags override: see `alluvium config`.
    #[arg(long, env = "ALLUVIUM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address for the Redis protocol; `off` for none, port 0 for any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379", value_parser = address)]
    pub redis: ListenAddress,
    /// The address for the memcached protocol; `off` for none, port 0 for any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:11211", value_parser = address)]
    pub memcached: ListenAddress,
    /// The address of the web page; `off` for none, port 0 for any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070", value_parser = address)]
    pub web: ListenAddress,
    /// A host name by which browsers may open the web page, besides IP addresses and localhost. May
    /// be repeated.
    #[arg(long, value_name = "HOST")]
    pub web_name: Vec<String>,
    /// Serve a cache of this size in memory instead of a store: memcached's text and meta commands,
    /// and Redis' strings. The cache uses no file, and evicts items when it is full.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    #[arg(conflicts_with_all = ["durability", "hashed", "users", "backup_dir", "web", "web_name", "copy_hot"])]
    pub cache: Option<ByteSize>,
    /// The items that the cache evicts first.
    #[arg(long, value_enum, default_value_t = EvictionArg::S3Fifo, requires = "cache")]
    pub cache_eviction: EvictionArg,
    /// The average size of a key and its value in the cache, which determines the size of the
    /// index.
    #[arg(long, value_name = "SIZE", default_value = "96", value_parser = sizes::parse, requires = "cache")]
    pub cache_item: ByteSize,
    /// The first address for the cache's datagram protocol, which uses one port per processor.
    /// Other machines are served only with --datagram-key-file or --unprotected.
    #[arg(long, value_name = "ADDR", requires = "cache", value_parser = address)]
    pub datagrams: Option<ListenAddress>,
    /// A file whose first line is the key shared with datagram clients.
    #[arg(long, value_name = "FILE", requires = "datagrams")]
    pub datagram_key_file: Option<PathBuf>,
    /// Create a store with hashed keys: a lookup needs one read and about a byte of memory per key,
    /// but keys have no order, so RANGE, REVRANGE and DELRANGE are refused. Elements of collections
    /// stay in order. An existing store keeps its layout: a hashed one needs no flag, and one with
    /// ordered keys is refused with it.
    #[arg(long)]
    pub hashed: bool,
    /// The space on the first tier for copies of pages that are read repeatedly from slower tiers.
    /// Copies are dropped when other data needs the space [default: 0, no copies].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub copy_hot: Option<ByteSize>,
    /// When a write is acknowledged.
    #[arg(long, value_enum, default_value_t = DurabilityArg::Process)]
    pub durability: DurabilityArg,
    /// The password of the user `default`. Redis clients send it with AUTH, memcached clients as
    /// the first `set`, whose value is `default TEXT`, and browsers ask for it. Other users of this
    /// machine see it in the list of processes: prefer --password-file, or the environment variable
    /// ALLUVIUM_PASSWORD, which is used if neither flag is given.
    #[arg(long, value_name = "TEXT", value_parser = password::not_empty)]
    pub password: Option<String>,
    /// A file whose first line is the password. It overrides ALLUVIUM_PASSWORD.
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    pub password_file: Option<PathBuf>,
    /// A file of users in the syntax of Redis' ACL files, with a line `user NAME on >PASSWORD
    /// ~PATTERN +@read …` for each. ACL SETUSER changes users while the server runs; ACL LOAD and
    /// ACL SAVE read and write the file.
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// The path of a Unix socket for the Redis protocol, in addition to --redis. The server creates
    /// the socket, and removes it at the end.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The path of a Unix socket for the memcached protocol, in addition to --memcached.
    #[arg(long, value_name = "PATH")]
    pub memcached_socket: Option<PathBuf>,
    /// The mode of both sockets in octal digits, which decides who may connect.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub socket_mode: u32,
    /// The TLS certificate of the server, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// A PEM file of certificates; clients must present a certificate signed by one of these.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_client_ca: Option<PathBuf>,
    /// The directory for the backups of BGSAVE and SAVE; CONFIG SET dir changes it.
    #[arg(long, value_name = "PATH")]
    pub backup_dir: Option<PathBuf>,
    /// A directory in which the server shows the files of the store to all programs: see `alluvium
    /// mount`.
    #[arg(long, value_name = "DIR", conflicts_with = "cache")]
    pub mount: Option<PathBuf>,
    #[command(flatten)]
    pub mounted: MountArguments,
    /// The least severe events that are logged: debug, verbose, notice or warning. `CONFIG SET
    /// loglevel` changes it.
    #[arg(long, value_name = "LEVEL", default_value = reload::DEFAULT_LEVEL, value_parser = log_level)]
    pub log_level: String,
    /// The form of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Allow addresses that other machines can reach without a password or client certificates.
    #[arg(long)]
    pub unprotected: bool,
    /// Limits of clients.
    #[command(flatten)]
    pub limits: ClientLimits,
}

/// Rephrases a server error in terms of command line options.
fn in_flags(serve: &ServeCommand, error: alluvium_server::Error) -> anyhow::Error {
    match error {
        alluvium_server::Error::Unprotected { address } => failure(
            CommandExit::Usage,
            format!(
                "{}{address} can be reached from other machines without authentication: set --password-file, or --users with a password for the user default, or --tls-client-ca \
                 with --tls-certificate and --tls-key (TLS alone authenticates no client), or allow it with --unprotected",
                serve.flag_of(address)
            ),
        ),
        alluvium_server::Error::Users { why } => failure(CommandExit::Usage, format!("--users: {why}")),
        alluvium_server::Error::Socket { path, cause } => {
            let flag = match serve.socket.as_ref() == Some(&path) {
                true => "--socket",
                false => "--memcached-socket",
            };
            failure(CommandExit::Failed, format!("{flag} {}: {cause}", path.display()))
        }
        alluvium_server::Error::Cache { why } => failure(CommandExit::Usage, format!("--cache: {why}")),
        alluvium_server::Error::SnapshotInOrder { name } => failure(
            CommandExit::Usage,
            format!(
                "--hashed: the snapshot {name:?} of this store has ordered keys, and could not be read any more. Leave --hashed out, or drop the snapshot (`SNAPSHOT DROP {name}`)"
            ),
        ),
        alluvium_server::Error::InOrder {
            keyspace: "memcached",
        } => failure(
            CommandExit::Usage,
            "--hashed: this store has ordered memcached items, which cannot be converted to hashed ones. Leave --hashed out, or remove the items with `flush_all` first",
        ),
        alluvium_server::Error::InOrder { keyspace } => failure(
            CommandExit::Usage,
            format!(
                "--hashed: this store has ordered keys in the keyspace {keyspace:?}, which cannot be converted to hashed ones. Leave --hashed out, or serve a new store \
                 with --hashed and copy each database N: `alluvium export N.redis --redis-db N` from this store, `alluvium import N.redis --redis-db N` into the new one while it is served"
            ),
        ),
        alluvium_server::Error::BackupDirectory { why } => {
            failure(CommandExit::Usage, format!("--backup-dir: {why}"))
        }
        other => other.into(),
    }
}

/// Rephrases an error of the datagram ports in terms of command line options.
fn in_flags_of_datagrams(error: alluvium_server::Error) -> anyhow::Error {
    match error {
        alluvium_server::Error::Unprotected { address } => failure(
            CommandExit::Usage,
            format!(
                "--datagrams {address} can be reached from other machines without authentication: set --datagram-key-file, or allow it with --unprotected"
            ),
        ),
        alluvium_server::Error::Cache { why } => failure(CommandExit::Usage, format!("--datagrams: {why}")),
        other => other.into(),
    }
}

/// An address to listen on, or `None` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub Option<SocketAddr>);

fn address(text: &str) -> Result<ListenAddress, String> {
    if text == "off" {
        return Ok(ListenAddress(None));
    }
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found
        .map(|address| ListenAddress(Some(address)))
        .ok_or_else(|| "write an address and a port, as in 127.0.0.1:6379, or off".to_owned())
}

fn log_level(text: &str) -> Result<String, String> {
    match LogLevel::warning().set_by_name(text) {
        true => Ok(text.to_owned()),
        false => Err("write debug, verbose, notice or warning".to_owned()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "write up to three octal digits, as in 600 or 660".to_owned())
}

/// The values of --durability.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// Immediately.
    Memory,
    /// When it survives the end of the process; a power failure loses at most the last second.
    Process,
    /// When it survives a power failure.
    Disk,
}

impl From<DurabilityArg> for Durability {
    fn from(word: DurabilityArg) -> Durability {
        match word {
            DurabilityArg::Memory => Durability::Memory,
            DurabilityArg::Process => Durability::Process,
            DurabilityArg::Disk => Durability::Disk,
        }
    }
}

/// The values of --cache-eviction.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EvictionArg {
    /// The oldest items.
    Fifo,
    /// The least recently used items.
    Lru,
    /// Approximately the least recently used items, with less copying.
    ApproximateLru,
    /// Items that were requested only once, then the rest.
    S3Fifo,
}

impl From<EvictionArg> for CacheEvictionPolicy {
    fn from(word: EvictionArg) -> CacheEvictionPolicy {
        match word {
            EvictionArg::Fifo => CacheEvictionPolicy::Fifo,
            EvictionArg::Lru => CacheEvictionPolicy::Lru,
            EvictionArg::ApproximateLru => CacheEvictionPolicy::ApproximateLru,
            EvictionArg::S3Fifo => CacheEvictionPolicy::S3Fifo,
        }
    }
}

/// Creates the management socket, through which other commands manage the store while it is being
/// served. If this fails, the server continues without it.
fn manage(server: &Server, db: &Db, directory: &Path) {
    if let Err(error) = server.manage_with_services(directory, files_services(db)) {
        screen::note(&format!(
            "other commands cannot use {} while it is served: the server cannot create its socket there ({error})",
            directory.display()
        ));
    }
}

impl ServeCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        panics::are_brief();
        log::set_format(self.log_format);
        // The parser has accepted the name.
        let _ = log::level().set_by_name(&self.log_level);
        let reloading = ServerReload::new(self)?;
        let options = self.options(context)?;
        if let Some(bytes) = self.cache {
            return self.run_cache(context, bytes, options);
        }
        context.check()?;
        let hangup = stop::listen_as_server()?;
        let db = context
            .options()
            .durability(self.durability.into())
            .copy_hot(self.copy_hot.map_or(0, |ByteSize(bytes)| bytes))
            .open(&context.path)
            .with_context(|| format!("opening the store in {}", context.path.display()))?;
        let server = Server::start(&db, options).map_err(|error| in_flags(self, error))?;
        manage(&server, &db, &context.path);
        let mount = self.mount.as_ref();
        let mount = mount.map(|directory| self.mounted.mount(&db, directory, None));
        let mount = mount.transpose().inspect_err(|_| server.stop())?;
        let scheme = if self.tls_certificate.is_some() {
            "https"
        } else {
            "http"
        };
        let web = server.web_addr().map(|address| format!("{scheme}://{address}"));
        let place = format!("the store in {}", context.path.display());
        self.announce(
            context,
            (server.redis_addr(), server.memcached_addr()),
            web,
            &place,
        )?;
        let is_over = AtomicBool::new(false);
        let served = thread::scope(|scope| {
            scope.spawn(|| {
                let mut reloading = reloading;
                while !stop::asked() && !is_over.load(Ordering::Relaxed) {
                    if hangup.swap(false, Ordering::Relaxed) {
                        reloading.reload(self, &server);
                    }
                    thread::sleep(LOOK);
                }
                reload::notify_service_manager(&[NotifyState::Stopping]);
                server.stop();
            });
            let served = server.join();
            is_over.store(true, Ordering::Relaxed);
            served
        });
        // Requests of the kernel use the store, so the mount ends before the store is closed.
        let unmounted = mount.map(|mut mount| mount.unmount().context("unmounting"));
        drop(server);
        let closed = db.close().context("closing the store");
        served?;
        closed?;
        unmounted.transpose()?;
        screen::note("stopped and closed");
        Ok(CommandExit::Done)
    }

    /// Runs a server in cache mode until a signal arrives.
    fn run_cache(
        &self,
        context: &CommandContext,
        bytes: ByteSize,
        options: ServerOptions,
    ) -> Result<CommandExit> {
        self.check_cache(context)?;
        // Read the key before handling signals: it may come from a pipe that never delivers it, and
        // Ctrl-C must still end the process.
        let datagrams = match self.datagrams {
            Some(ListenAddress(Some(address))) => Some(self.datagram_options(address)?),
            _ => None,
        };
        let memory = CacheMemory {
            item_bytes: usize::try_from(self.cache_item.0).unwrap_or(usize::MAX),
            policy: self.cache_eviction.into(),
            ..CacheMemory::new(bytes.0)
        };
        let options = ServerOptions {
            web: None,
            log_level: None,
            ..options
        };
        let _ignored = stop::listen_as_server()?;
        let server = CacheServer::start(memory, options).map_err(|error| in_flags(self, error))?;
        let mut place = format!("a cache of {} in memory", sizes::human(bytes.0));
        if let Some(datagrams) = datagrams {
            let first = server
                .serve_datagrams(&datagrams)
                .map_err(in_flags_of_datagrams)?;
            place = format!("datagrams from {first} on, {place}");
        }
        self.announce(
            context,
            (server.redis_addr(), server.memcached_addr()),
            None,
            &place,
        )?;
        while !stop::asked() {
            thread::sleep(LOOK);
        }
        server.stop();
        server.join();
        screen::note("stopped and closed");
        Ok(CommandExit::Done)
    }

    /// Rejects options that do not apply to a cache, and a cache that no client could reach.
    fn check_cache(&self, context: &CommandContext) -> Result<()> {
        let of_stores = [
            ("--tier", !context.tiers.is_empty()),
            ("--measured-device", context.takes_measured),
        ];
        if let Some((flag, _)) = of_stores.iter().find(|(_, is_given)| *is_given) {
            return Err(failure(
                CommandExit::Usage,
                format!("{flag} does not apply to a cache: leave it out"),
            ));
        }
        if self.cache_item.0 == 0 {
            let text = "--cache-item 0: give the average size of a key and its value in bytes";
            return Err(failure(CommandExit::Usage, text));
        }
        let datagrams = self.datagrams.unwrap_or(ListenAddress(None));
        let has_port = [self.redis, self.memcached, datagrams]
            .iter()
            .any(|listen| listen.0.is_some());
        if !has_port && self.socket.is_none() && self.memcached_socket.is_none() {
            let text = "--redis and --memcached are off, and there is neither --socket nor --datagrams: no client could connect";
            return Err(failure(CommandExit::Usage, text));
        }
        Ok(())
    }

    fn datagram_options(&self, address: SocketAddr) -> Result<DatagramOptions> {
        // ALLUVIUM_PASSWORD is the password of the other protocols, so it does not serve as the
        // key.
        let key = match &self.datagram_key_file {
            Some(file) => Some(password::first_line("--datagram-key-file", file)?),
            None => None,
        };
        Ok(DatagramOptions {
            key: key.map(String::into_bytes),
            exposure: match self.unprotected {
                true => Exposure::Unprotected,
                false => Exposure::Protected,
            },
            ..DatagramOptions::new(address)
        })
    }

    /// Returns the option that specified an address, followed by a space.
    fn flag_of(&self, address: SocketAddr) -> &'static str {
        let flags = [
            ("--redis ", self.redis),
            ("--memcached ", self.memcached),
            ("--web ", self.web),
        ];
        let found = flags.iter().find(|(_, listen)| listen.0 == Some(address));
        found.map_or("", |(flag, _)| flag)
    }

    fn options(&self, context: &CommandContext) -> Result<ServerOptions> {
        let has_socket = self.socket.is_some() || self.memcached_socket.is_some();
        let has_port = [self.redis, self.memcached, self.web]
            .iter()
            .any(|listen| listen.0.is_some());
        if !has_port && !has_socket {
            return Err(failure(
                CommandExit::Usage,
                "--redis, --memcached and --web are all off, and there is no --socket: no client could connect",
            ));
        }
        let tls = self.tls()?;
        let password = password::given(self.password.as_deref(), self.password_file.as_deref())?;
        Ok(ServerOptions {
            redis: self.redis.0,
            memcached: self.memcached.0,
            web: self.web.0,
            web_names: self.web_name.clone(),
            keys: match self.hashed {
                true => KeyLayout::Hashed,
                false => KeyLayout::AsStored,
            },
            password,
            users: self
                .users
                .as_deref()
                .map(|path| Arc::new(AclFile::new(path)) as _),
            redis_socket: self.socket.clone(),
            memcached_socket: self.memcached_socket.clone(),
            socket_mode: self.socket_mode,
            tls,
            exposure: if self.unprotected {
                Exposure::Unprotected
            } else {
                Exposure::Protected
            },
            backup_directory: self.backup_dir.as_deref().map(std::path::absolute).transpose()?,
            log_level: Some(log::level()),
            ..self.limits.options(context.memory)?
        })
    }

    /// Reads the certificate, its key and the authority of clients from their files.
    fn tls(&self) -> Result<Option<TlsOptions>> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
        Ok(match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(TlsOptions {
                certificate: read(certificate)?,
                key: read(key)?,
                client_authority: self.tls_client_ca.as_deref().map(read).transpose()?,
            }),
            _ => None,
        })
    }

    /// Prints the server's addresses, and tells the service manager, once clients can connect.
    fn announce(
        &self,
        context: &CommandContext,
        (redis, memcached): (Option<SocketAddr>, Option<SocketAddr>),
        web: Option<String>,
        place: &str,
    ) -> Result<()> {
        reload::notify_service_manager(&[NotifyState::Ready]);
        let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        if context.is_json() {
            let mut out = ScreenOutput::new();
            let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
            out.json(&json!({
                "redis": text(redis),
                "memcached": text(memcached),
                "web": web,
                "socket": path(&self.socket),
                "memcached_socket": path(&self.memcached_socket),
            }))?;
            out.flush()?;
        }
        let shown = |name: &str, address: Option<SocketAddr>| Some(format!("{name} on {}", address?));
        let at = |name: &str, path: &Option<PathBuf>| Some(format!("{name} on {}", path.as_ref()?.display()));
        let places = [
            shown("Redis", redis),
            at("Redis", &self.socket),
            shown("memcached", memcached),
            at("memcached", &self.memcached_socket),
            web,
        ];
        let mut places: Vec<String> = places.into_iter().flatten().collect();
        places.push(place.to_owned());
        screen::note(&format!("{}; Ctrl-C stops the server", places.join(", ")));
        Ok(())
    }
}
