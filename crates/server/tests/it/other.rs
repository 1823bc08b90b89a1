//! Third-party servers for comparison.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that runs on a free port until the test ends.
pub(crate) struct Other {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Other {
    /// Starts a server on a free port. The environment variable names the program; `program` is the
    /// default. Returns `None` if the program does not exist. Polls the server with `question`
    /// until it answers with `mark` and its process number: before the server uses the port, any
    /// other process may take it, and even the polling connection may connect to itself.
    pub(crate) fn start(
        (variable, program): (&str, &str),
        arguments: impl Fn(&mut Command, u16),
        (question, mark): (&str, &str),
    ) -> Option<Other> {
        let named = std::env::var(variable).unwrap_or_else(|_| program.to_owned());
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut command = Command::new(&named);
            arguments(&mut command, free.port());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let Ok(child) = child else {
                alluvium_device::skipped!(program, "there is no {named}: name one in {variable}");
                return None;
            };
            let mark = format!("{mark}{}\r\n", child.id());
            let mut other = Other { child, address: free };
            for _ in 0..500 {
                if other.answers(question, &mark).is_some() {
                    return Some(other);
                }
                if other.child.try_wait().unwrap().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("{named} does not answer");
    }

    fn answers(&self, question: &str, mark: &str) -> Option<()> {
        let mut socket = TcpStream::connect(self.address).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        socket.write_all(question.as_bytes()).ok()?;
        let mut answer = Vec::new();
        let mut some = [0; 4096];
        // A connection to itself receives its own question.
        while !answer.starts_with(question.as_bytes()) {
            let count = socket.read(&mut some).ok().filter(|&count| count > 0)?;
            answer.extend_from_slice(&some[..count]);
            if String::from_utf8_lossy(&answer).contains(mark) {
                return Some(());
            }
        }
        None
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
