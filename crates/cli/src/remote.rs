//! A store that a server has open: it is read through the server's web page.

use crate::exit::{Exit, failure};
use crate::private;
use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the server has for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Keys that are asked for at once, and bytes of their values that come with them.
const PAGE: u64 = 1000;
const PREVIEW: u64 = 1 << 20;
/// The longest answer, in bytes: a value, and what is said with it.
const LONGEST: u64 = 2 * alluvium::MAX_VALUE as u64 + (1 << 20);

/// The file that says where a store is served: beside its directory.
fn note_of(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".serving");
    PathBuf::from(name)
}

/// What is noted while a store is served; it goes with the handle.
#[derive(Debug)]
pub(crate) struct Note(PathBuf);

impl Note {
    /// Notes where a store is served. Where that cannot be written, others have to be told with --server.
    pub(crate) fn write(store: &Path, url: &str) -> Option<Note> {
        let path = note_of(store);
        let text = json!({ "web": url, "process_id": std::process::id() }).to_string();
        private::write(&path, text.as_bytes()).ok().map(|()| Note(path))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // What is left says an address where nobody answers, which is found out.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// From which end keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A server that answers.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// Host and port.
    authority: String,
    password: Option<String>,
}

/// An answer: its status and its bytes.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Remote {
    /// The server at an address such as `http://127.0.0.1:7070`.
    pub(crate) fn at(url: &str) -> Result<Remote> {
        let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority = authority.filter(|rest| !rest.is_empty() && !rest.contains('/'));
        let authority = authority.ok_or_else(|| {
            let text = format!("{url:?} is no server's address: write it as in http://127.0.0.1:7070");
            failure(Exit::Usage, text)
        })?;
        let authority = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        Ok(Remote {
            authority,
            password: std::env::var("ALLUVIUM_PASSWORD").ok(),
        })
    }

    /// The server that has a store open, if one says so and answers.
    pub(crate) fn of(store: &Path) -> Option<Remote> {
        let note: Value = serde_json::from_slice(&std::fs::read(note_of(store)).ok()?).ok()?;
        let remote = Remote::at(note["web"].as_str()?).ok()?;
        // A note may be older than the server that is there now.
        match remote.json("/api/stats") {
            Ok(stats) => (stats["process_id"] == note["process_id"]).then_some(remote),
            // It says why when it is asked again.
            Err(error) => error.is::<Refused>().then_some(remote),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    fn get(&self, path: &str) -> Result<Answer> {
        let what = || format!("asking the server at {}", self.url());
        let mut socket = TcpStream::connect(&self.authority).with_context(what)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let password = self.password.as_ref().map_or_else(String::new, |password| {
            format!(
                "Authorization: Basic {}\r\n",
                STANDARD.encode(format!("alluvium:{password}"))
            )
        });
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{password}\r\n",
            self.authority
        );
        socket.write_all(head.as_bytes()).with_context(what)?;
        let mut all = Vec::new();
        socket.take(LONGEST).read_to_end(&mut all).with_context(what)?;
        parse(&all).ok_or_else(|| anyhow!("what answers at {} is no server of Alluvium's", self.url()))
    }

    /// An answer in JSON.
    pub(crate) fn json(&self, path: &str) -> Result<Value> {
        let answer = self.get(path)?;
        let value: Option<Value> = serde_json::from_slice(&answer.body).ok();
        match (answer.status, value) {
            (200, Some(value)) => Ok(value),
            (status, value) => Err(self.refused(status, value)),
        }
    }

    fn refused(&self, status: u16, said: Option<Value>) -> anyhow::Error {
        let said = said.and_then(|value| value["error"].as_str().map(str::to_owned));
        let said = said.unwrap_or_else(|| format!("HTTP status {status}"));
        let hint = if status == 401 {
            "; set ALLUVIUM_PASSWORD"
        } else {
            ""
        };
        let exit = if status == 404 {
            Exit::NotFound
        } else {
            Exit::Failed
        };
        let text = format!("the server at {}: {said}{hint}", self.url());
        failure(exit, text).context(Refused)
    }

    /// The value of a key, as it is.
    pub(crate) fn value(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let path = format!(
            "/api/value/raw?raw&keyspace={}&key={}",
            encoded(keyspace.as_bytes()),
            encoded(key)
        );
        let answer = self.get(&path)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => {
                self.keyspace(keyspace)?;
                Ok(None)
            }
            status => Err(self.refused(status, serde_json::from_slice(&answer.body).ok())),
        }
    }

    /// Fails unless there is such a keyspace.
    fn keyspace(&self, name: &str) -> Result<()> {
        self.json(&format!(
            "/api/keys?raw&limit=1&preview=0&keyspace={}",
            encoded(name.as_bytes())
        ))
        .map(|_| ())
    }

    /// Keys within bounds and their values, in order.
    pub(crate) fn pairs(
        &self,
        keyspace: &str,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Pairs {
        let mut path = format!(
            "/api/keys?raw&limit={PAGE}&preview={PREVIEW}&keyspace={}&from={}",
            encoded(keyspace.as_bytes()),
            encoded(from)
        );
        if let Some(to) = to {
            path += &format!("&to={}", encoded(to));
        }
        if direction == Direction::Backward {
            path += "&reverse";
        }
        Pairs {
            remote: self.clone(),
            keyspace: keyspace.to_owned(),
            path,
            page: VecDeque::new(),
            after: None,
            is_over: false,
        }
    }
}

/// Marks an error as the server's answer.
#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reading through the server that has the store open")
    }
}

/// Keys and values, page by page.
#[derive(Debug)]
pub(crate) struct Pairs {
    remote: Remote,
    keyspace: String,
    path: String,
    page: VecDeque<Value>,
    after: Option<Vec<u8>>,
    is_over: bool,
}

impl Pairs {
    fn read(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        while self.page.is_empty() && !self.is_over {
            let after = self.after.as_deref().map(encoded);
            let path = match after {
                Some(after) => format!("{}&after={after}", self.path),
                None => self.path.clone(),
            };
            let mut page = self.remote.json(&path)?;
            self.after = match &page["next"] {
                Value::Null => None,
                next => Some(bytes(next, "key")?),
            };
            self.is_over = self.after.is_none();
            if let Value::Array(keys) = page["keys"].take() {
                self.page = keys.into();
            }
        }
        let Some(entry) = self.page.pop_front() else {
            return Ok(None);
        };
        let key = bytes(&entry, "key")?;
        if entry["is_cut"] != true {
            let value = bytes(&entry, "value")?;
            return Ok(Some((key, value)));
        }
        let value = self.remote.value(&self.keyspace, &key)?;
        match value {
            Some(value) => Ok(Some((key, value))),
            // Deleted since the page was made.
            None => self.read(),
        }
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Bytes of a field that is text, or base 64 where it is none.
fn bytes(object: &Value, name: &str) -> Result<Vec<u8>> {
    if let Some(text) = object[name].as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let code = object[format!("{name}_base64")].as_str();
    let decoded = code.and_then(|code| STANDARD.decode(code).ok());
    decoded.ok_or_else(|| anyhow!("the server's answer has no {name}: is it of another version?"))
}

/// Bytes for an address.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02x}");
        }
    }
    text
}

/// An answer of which all has come; none if it is cut short, or is no HTTP.
fn parse(all: &[u8]) -> Option<Answer> {
    let end = memchr::memmem::find(all, b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&all[..end]).ok()?.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    })?;
    let body = all[end + 4..].get(..length)?.to_vec();
    Some(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        let authority = |url: &str| Remote::at(url).map(|remote| remote.authority).ok();
        assert_eq!(
            authority("http://127.0.0.1:7070/"),
            Some("127.0.0.1:7070".to_owned())
        );
        assert_eq!(authority("http://[::1]:7070"), Some("[::1]:7070".to_owned()));
        assert_eq!(authority("http://localhost"), Some("localhost:80".to_owned()));
        for wrong in ["127.0.0.1:7070", "https://localhost", "http://", "http://a/b"] {
            assert_eq!(authority(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_are_whole_or_none() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd").expect("it is whole");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"abc"[..]));
        for wrong in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"[..],
            b"HTTP/1.1 200 OK\r\n\r\nab",
            b"+PONG\r\n",
            b"",
        ] {
            assert!(parse(wrong).is_none());
        }
        assert_eq!(encoded(b"a b+\xff"), "a%20b%2b%ff");
    }
}
