//! Redis clients in the transaction of `tx`: conflicts over keys, and the exit codes.

use crate::files::need_mounts;
use crate::serve::{Served, asked};
use crate::{Place, Said};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A running `tx`, whose command has written a file and waits.
struct RunningCommand<'p> {
    place: &'p Place,
    child: Child,
}

fn start<'p>(place: &'p Place, options: &[&str], exit: u8) -> RunningCommand<'p> {
    let work = place.path("work");
    fs::create_dir_all(&work).unwrap();
    let script = format!(
        "echo $$ > file; echo $ALLUVIUM_TRANSACTION > {0}/new; mv {0}/new {0}/name\n\
         while ! test -e {0}/go; do sleep 0.02; done; rm {0}/go; exit {exit}",
        place.path("").display()
    );
    let child = place
        .command(["tx", "--dir", work.to_str().unwrap()])
        .args(options)
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    RunningCommand { place, child }
}

impl RunningCommand<'_> {
    /// Waits until the command has begun, and returns the name of its transaction.
    fn name(&mut self) -> String {
        let (path, began) = (self.place.path("name"), Instant::now());
        loop {
            if let Ok(name) = fs::read_to_string(&path) {
                fs::remove_file(&path).unwrap();
                return name.trim().to_owned();
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it runs");
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn go_on(&self) {
        fs::write(self.place.path("go"), "").unwrap();
    }

    fn end(self) -> Said {
        self.go_on();
        self.child.wait_with_output().unwrap().into()
    }
}

/// Joins a transaction, and sends commands. Returns the connection, which stays in the transaction.
#[track_caller]
fn join(address: &str, name: &str, commands: &str, replies: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "BEGIN JOIN {name}\r\n{commands}").unwrap();
    let expected = format!("+OK\r\n{replies}");
    let mut found = vec![0; expected.len()];
    socket.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), expected);
    socket
}

#[test]
fn a_key_that_others_have_changed_is_a_conflict_of_the_command() {
    need_mounts!();
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let redis = &served.redis;
    let has_file = || place.run(["files", "cat", "/file"]).code == Some(0);

    // Two clients, one of which disconnects: everything or nothing.
    for (exit, is_there) in [(7, "0"), (0, "1")] {
        let mut command = start(&place, &[], exit);
        let name = command.name();
        let one = join(redis, &name, "SET k 1\r\n", "+OK\r\n");
        drop(join(redis, &name, "HSET h f 1\r\nGET k\r\n", ":1\r\n$1\r\n1\r\n"));
        asked(redis, "EXISTS k\r\nEXISTS h\r\n", ":0\r\n:0\r\n");
        let said = command.end().ended(exit.into());
        drop((one, said));
        asked(
            redis,
            "EXISTS k\r\nEXISTS h\r\n",
            &format!(":{is_there}\r\n:{is_there}\r\n"),
        );
        assert_eq!(has_file(), is_there == "1");
    }
    place.done(["files", "rm", "/file"]);

    // A key that another client has changed.
    let mut command = start(&place, &[], 0);
    let name = command.name();
    let mut one = join(redis, &name, "INCR k\r\nHSET h g 1\r\n", ":2\r\n:1\r\n");
    asked(redis, "SET k 10\r\n", "+OK\r\n");
    command.end().ended(8).complained("k");
    asked(redis, "GET k\r\nHEXISTS h g\r\n", "$2\r\n10\r\n:0\r\n");
    assert!(!has_file());
    write!(one, "COMMIT\r\n").unwrap();
    let mut reply = [0; 8];
    one.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"-ABORTED");

    // All keys are deleted, or databases are swapped.
    for other in ["FLUSHALL\r\n", "SWAPDB 0 1\r\n"] {
        let mut command = start(&place, &[], 0);
        let name = command.name();
        let one = join(redis, &name, "SET k 3\r\n", "+OK\r\n");
        asked(redis, other, "+OK\r\n");
        command.end().ended(8);
        asked(redis, "DBSIZE\r\n", ":0\r\n");
        assert!(!has_file());
        drop(one);
    }

    // The command is run again, with another transaction.
    let mut command = start(&place, &["--retry", "1"], 0);
    let name = command.name();
    let one = join(redis, &name, "SET k 4\r\n", "+OK\r\n");
    asked(redis, "SET k 5\r\n", "+OK\r\n");
    command.go_on();
    let again = command.name();
    assert_ne!(again, name);
    let two = join(redis, &again, "INCR k\r\n", ":6\r\n");
    command.end().ended(0);
    asked(redis, "GET k\r\n", "$1\r\n6\r\n");
    assert!(has_file());
    drop((one, two));
    place.done(["files", "check"]);
    assert_eq!(served.ended(libc::SIGTERM), Some(0));
    place.done(["check"]);
}
