//! Transactions over files and keys of Redis clients.

use crate::Place;
use crate::files::need_mounts;
use crate::serve::{Served, asked};
use alluvium_sim::environment::effort;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that joins the transaction of `alluvium tx`, sends commands, and leaves it.
const CLIENT: &str = "\
import os, socket, sys
address, commands = sys.argv[1], sys.argv[2:]
host, port = address.rsplit(':', 1)
stream = socket.create_connection((host, int(port)))
answers = stream.makefile('rb')
for command in ['BEGIN JOIN ' + os.environ['ALLUVIUM_TRANSACTION'], *commands, 'COMMIT']:
    stream.sendall(command.encode() + b'\\r\\n')
    answer = answers.readline().strip()
    if answer.startswith(b'-'):
        sys.exit(answer.decode())
";

/// A server with files at a mount point, and a program for its clients.
struct FilesAndKeys {
    place: Place,
    client: PathBuf,
    served: Option<Served>,
}

impl FilesAndKeys {
    fn new() -> FilesAndKeys {
        let place = Place::new();
        for name in ["mount", "work"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        let client = place.file("client.py", CLIENT);
        let mut run = FilesAndKeys {
            place,
            client,
            served: None,
        };
        run.serve();
        run
    }

    fn serve(&mut self) {
        let mount = self.place.path("mount");
        let options = ["--mount", mount.to_str().unwrap(), "--durability", "process"];
        self.served = Some(Served::new(&self.place, &options));
    }

    fn address(&self) -> String {
        self.served.as_ref().unwrap().redis.clone()
    }

    fn kill_server(&mut self) {
        if let Some(served) = self.served.take() {
            served.ended(libc::SIGKILL);
        }
        // The mount of a killed server remains and answers nothing.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.place.path("mount"))
            .status();
    }

    /// Returns `tx` with a script, in which `$JOIN` stands for the client program.
    fn transaction(&self, script: &str) -> Command {
        let mut command = self.place.command(["tx", "--dir"]);
        command
            .arg(self.place.path("work"))
            .args(["--", "sh", "-c", script])
            .env(
                "JOIN",
                format!("python3 {} {}", self.client.display(), self.address()),
            );
        command
    }

    fn key(&self, name: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(format!("GET {name}\r\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines();
        match &*lines.next().unwrap().unwrap() {
            "$-1" => String::new(),
            _ => lines.next().unwrap().unwrap(),
        }
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.place.path("mount").join(name)).unwrap_or_default()
    }
}

impl Drop for FilesAndKeys {
    fn drop(&mut self) {
        self.kill_server();
    }
}

#[test]
fn a_command_changes_files_and_keys_together_or_neither() {
    need_mounts!();
    let run = FilesAndKeys::new();
    let script = "echo 1 > version && $JOIN 'SET version 1' 'HSET deployed at now by me'";
    let said = run.transaction(script).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(
        (run.file("version"), run.key("version")),
        ("1\n".into(), "1".into())
    );
    asked(&run.address(), "HLEN deployed\r\n", ":2\r\n");

    let script = "echo 2 > version && $JOIN 'SET version 2' 'ZADD scores 1 a' 'DEL deployed'; exit 3";
    let said = run.transaction(script).output().unwrap();
    assert_eq!(said.status.code(), Some(3));
    assert_eq!(
        (run.file("version"), run.key("version")),
        ("1\n".into(), "1".into())
    );
    asked(
        &run.address(),
        "HLEN deployed\r\nZCARD scores\r\n",
        ":2\r\n:0\r\n",
    );

    // A client's error is enough, although the script does not notice it.
    let script = "echo 3 > version; $JOIN 'SET version 3' 'LPUSH version x'; exit 0";
    let said = run.transaction(script).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("has failed"), "{text}");
    assert_eq!(
        (run.file("version"), run.key("version")),
        ("1\n".into(), "1".into())
    );

    // A key that others have changed is a conflict, and the file is as before.
    let server = run.address();
    let script = "echo 3 > version && $JOIN 'APPEND version 3' && touch $MARKER && while test -e $MARKER; do sleep 0.01; done";
    let marker = run.place.path("marker");
    let child = run
        .transaction(script)
        .env("MARKER", &marker)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| marker.exists());
    asked(&server, "SET version other\r\n", "+OK\r\n");
    fs::remove_file(&marker).unwrap();
    let said = child.wait_with_output().unwrap();
    assert_eq!(
        said.status.code(),
        Some(8),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert_eq!(
        (run.file("version"), run.key("version")),
        ("1\n".into(), "other".into())
    );
    asked(
        &server,
        "BEGIN JOIN 0123\r\n",
        "-ABORTED there is no open transaction of this name",
    );
}

fn wait_for(condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the marker or the end of a child.
fn marked(child: &mut Child, marker: &Path) -> Instant {
    while !marker.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Instant::now()
}

#[test]
fn after_a_kill_the_file_and_the_key_agree() {
    need_mounts!();
    let rounds = effort(8, 200);
    let (mut run, mut random) = (FilesAndKeys::new(), fastrand::Rng::with_seed(rounds));
    let (mut commit_time, mut whole) = (Duration::from_millis(50), 0);
    let mut before = String::new();
    for round in 1..=rounds {
        let marker = run.place.path("marker");
        let _ = fs::remove_file(&marker);
        let script = format!(
            "echo {round} > file; head -c 20000 /dev/zero > big{round}; $JOIN 'SET key {round}' 'RPUSH list {round}'; touch {}",
            marker.display()
        );
        let mut command = run.transaction(&script);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let began = marked(&mut child, &marker);
        let is_killed = round % 4 != 1;
        if is_killed {
            std::thread::sleep(commit_time.mul_f64(random.f64() * 1.2));
            match round % 2 {
                0 => run.kill_server(),
                _ => child.kill().unwrap(),
            }
        }
        let is_acknowledged = child.wait().unwrap().success();
        if !is_killed {
            assert!(is_acknowledged);
            commit_time = began.elapsed();
        }
        run.kill_server();
        run.serve();
        let (file, key) = (run.file("file"), run.key("key"));
        assert_eq!(file.trim(), key, "round {round}");
        assert!(key == before || key == round.to_string(), "round {round}: {key}");
        assert!(
            key == round.to_string() || !is_acknowledged,
            "round {round} is lost"
        );
        if key != before {
            whole += 1;
            before = key;
        }
        let reply = format!(":{whole}\r\n");
        asked(&run.address(), "LLEN list\r\n", &reply);
    }
    println!("{rounds} rounds: {whole} whole, {} absent", rounds - whole);
    assert!(whole >= rounds / 4);
}
