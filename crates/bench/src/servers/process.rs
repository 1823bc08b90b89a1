//! Server processes on this machine. Each is started on a free port, polled until it answers, and
//! stopped at the end.

use super::protocol::ServerProtocol;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that can be started by its name.
#[derive(Clone, Copy, Debug)]
pub struct ServerKind {
    pub name: &'static str,
    pub protocol: ServerProtocol,
    /// The name of the executable, or `None` for Alluvium's own servers.
    program: Option<&'static str>,
    arguments: fn(&ServerSetup) -> Vec<OsString>,
}

/// The parameters that a server is started with.
#[derive(Debug)]
struct ServerSetup {
    /// An existing directory for the files of the server.
    directory: PathBuf,
    /// Memory limit in bytes, for servers that support one.
    memory: u64,
    /// Number of serving threads, for servers that can be told.
    threads: usize,
    port: u16,
}

pub const SERVERS: [ServerKind; 6] = [
    ServerKind {
        name: "alluvium",
        protocol: ServerProtocol::Redis,
        program: None,
        arguments: |setup| own(setup, "--redis", "--memcached"),
    },
    ServerKind {
        name: "alluvium-memcached",
        protocol: ServerProtocol::Memcached,
        program: None,
        arguments: |setup| own(setup, "--memcached", "--redis"),
    },
    ServerKind {
        name: "alluvium-cache",
        protocol: ServerProtocol::Memcached,
        program: None,
        arguments: |setup| {
            let words = [
                "serve".to_owned(),
                "--cache".to_owned(),
                setup.memory.to_string(),
                "--memcached".to_owned(),
                format!("127.0.0.1:{}", setup.port),
                "--redis".to_owned(),
                "off".to_owned(),
            ];
            words.map(OsString::from).to_vec()
        },
    },
    ServerKind {
        name: "redis",
        protocol: ServerProtocol::Redis,
        program: Some("redis-server"),
        arguments: |setup| redis(setup, &["--appendonly", "no"]),
    },
    ServerKind {
        name: "redis-aof",
        protocol: ServerProtocol::Redis,
        program: Some("redis-server"),
        arguments: |setup| redis(setup, &["--appendonly", "yes", "--appendfsync", "everysec"]),
    },
    ServerKind {
        name: "memcached",
        protocol: ServerProtocol::Memcached,
        program: Some("memcached"),
        arguments: |setup| {
            let words = [
                "-l".to_owned(),
                "127.0.0.1".to_owned(),
                "-p".to_owned(),
                setup.port.to_string(),
                "-t".to_owned(),
                setup.threads.to_string(),
                "-m".to_owned(),
                (setup.memory >> 20).to_string(),
                // Memcached requires this option to run as root, and ignores it for other users.
                "-u".to_owned(),
                "root".to_owned(),
            ];
            words.map(OsString::from).to_vec()
        },
    },
];

fn own(setup: &ServerSetup, here: &str, off: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--db".into(), setup.directory.clone().into()];
    let others = [
        "--memory".to_owned(),
        setup.memory.to_string(),
        "serve".to_owned(),
        here.to_owned(),
        format!("127.0.0.1:{}", setup.port),
        off.to_owned(),
        "off".to_owned(),
        "--web".to_owned(),
        "off".to_owned(),
    ];
    words.extend(others.map(OsString::from));
    words
}

fn redis(setup: &ServerSetup, more: &[&str]) -> Vec<OsString> {
    let port = setup.port.to_string();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"];
    let mut words: Vec<OsString> = words.map(OsString::from).to_vec();
    words.push(setup.directory.clone().into());
    words.extend(more.iter().map(OsString::from));
    words
}

/// Maximum time for starting a server, and for stopping it.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// A running server process, which is stopped when the handle is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// The command line that started the server.
    pub command: String,
}

impl ServerKind {
    /// Returns the server with the given name.
    ///
    /// # Errors
    /// Returns an error if no server has this name.
    pub fn find(name: &str) -> Result<ServerKind> {
        SERVERS
            .into_iter()
            .find(|kind| kind.name == name)
            .with_context(|| {
                let names: Vec<&str> = SERVERS.iter().map(|kind| kind.name).collect();
                format!(
                    "there is no server {name:?}: the servers are {}",
                    names.join(", ")
                )
            })
    }

    /// Checks whether the executable of the server is installed.
    ///
    /// # Errors
    /// Returns an error with advice if the executable is not installed.
    pub fn is_there(&self) -> Result<()> {
        let Some(program) = self.program else {
            return Ok(());
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            return Ok(());
        }
        bail!("{program} is not in PATH: install it with `apt-get install {program}`")
    }

    /// Starts the server and waits until it answers requests.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub fn start(&self, own: &Path, directory: &Path, memory: u64, threads: usize) -> Result<ServerProcess> {
        let setup = ServerSetup {
            directory: directory.to_owned(),
            memory,
            threads,
            port: free_port()?,
        };
        let program = self.program.map_or_else(|| own.into(), OsString::from);
        let mut command = Command::new(&program);
        command
            .args((self.arguments)(&setup))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // If the runner is killed, its servers are killed, too. SAFETY: between fork and exec, the
        // closure makes only one system call, which sets an attribute of the process.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut server = ServerProcess {
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, setup.port)),
            command: words.join(" "),
        };
        let began = Instant::now();
        while !server.answers(self.protocol) {
            if let Some(status) = server.child.try_wait()? {
                bail!(
                    "the server ended with {status} before it answered: {}",
                    server.command
                );
            }
            if began.elapsed() > PATIENCE {
                bail!(
                    "the server has not answered for {} s: {}",
                    PATIENCE.as_secs(),
                    server.command
                );
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }
}

impl ServerProcess {
    #[must_use]
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    fn answers(&self, protocol: ServerProtocol) -> bool {
        let (asked, expected): (&[u8], &[u8]) = match protocol {
            ServerProtocol::Redis => (b"PING\r\n", b"+PONG"),
            ServerProtocol::Memcached => (b"version\r\n", b"VERSION"),
        };
        let ask = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(asked)?;
            let mut said = vec![0; expected.len()];
            stream.read_exact(&mut said)?;
            Ok(said == expected)
        };
        ask().unwrap_or(false)
    }

    /// Stops the server as an operator would, and waits until it has ended.
    ///
    /// # Errors
    /// Returns an error if the server does not end.
    pub fn stop(mut self) -> Result<()> {
        // SAFETY: the child has not been waited for, so its process ID cannot belong to another
        // process.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > PATIENCE {
                bail!("the server has not ended {} s after SIGTERM", PATIENCE.as_secs());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // This fails if the server has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}
