//! A client of a server's web page, which requests statistics from it.
//!
//! *Scope*: the address of a server, requests over HTTP, user names and passwords.
//!
//! *Must not depend on*: what the figures mean.

pub(crate) mod password;

use crate::terminal::exit::{CommandExit, failure};
use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum time to wait for a response.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum length of a response in bytes. Further bytes are not read.
const LONGEST: u64 = 64 << 20;

/// The server that a command queries instead of the process that has the store open, and the user's
/// credentials.
#[derive(Args, Clone, Debug)]
pub struct RemoteServerArgs {
    /// The address of a server's web page, as in http://127.0.0.1:7070 [default: the server that
    /// has the store open].
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The name of the user on that server, whose rules must include `+page|stats`.
    #[arg(long, value_name = "NAME", requires = "server", default_value = "default")]
    pub user: String,
    /// A file whose first line is that user's password [default: the environment variable
    /// ALLUVIUM_PASSWORD].
    #[arg(long, value_name = "FILE", requires = "server")]
    pub password_file: Option<PathBuf>,
}

impl RemoteServerArgs {
    /// Returns the server that the options name, or `None` if they name none.
    pub(crate) fn remote(&self) -> Result<Option<RemoteServer>> {
        let Some(url) = &self.server else {
            return Ok(None);
        };
        let login = RemoteCredentials {
            user: Some(self.user.clone()),
            password: password::given(None, self.password_file.as_deref())?,
        };
        RemoteServer::at(url, login).map(Some)
    }
}

/// A server whose web page is queried.
#[derive(Clone, Debug)]
pub(crate) struct RemoteServer {
    /// The host and the port. The port is 80 if the URL does not contain one.
    authority: String,
    login: RemoteCredentials,
}

/// The client's credentials.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteCredentials {
    /// The name of the user. If absent, it is `default`.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl RemoteCredentials {
    /// Returns the HTTP header that contains the credentials, or an empty string if there is no
    /// password.
    fn header(&self) -> String {
        let Some(password) = &self.password else {
            return String::new();
        };
        let user = self.user.as_deref().unwrap_or("default");
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        format!("Authorization: Basic {credentials}\r\n")
    }
}

/// An HTTP response with its status and body.
struct HttpResponse {
    status: u16,
    body: Vec<u8>,
}

impl RemoteServer {
    /// Returns a client of the server at `url`, for example `http://127.0.0.1:7070`.
    pub(crate) fn at(url: &str, login: RemoteCredentials) -> Result<RemoteServer> {
        let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority = authority.filter(|rest| !rest.is_empty() && !rest.contains('/'));
        let authority = authority.ok_or_else(|| {
            let text =
                format!("{url:?} is not the address of a server: write it as in http://127.0.0.1:7070");
            failure(CommandExit::Usage, text)
        })?;
        let authority = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        Ok(RemoteServer { authority, login })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    fn get(&self, path: &str) -> Result<HttpResponse> {
        let what = || format!("asking the server at {}", self.url());
        let mut socket = TcpStream::connect(&self.authority).with_context(what)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n",
            self.authority,
            self.login.header()
        );
        socket.write_all(head.as_bytes()).with_context(what)?;
        let mut all = Vec::new();
        socket.take(LONGEST).read_to_end(&mut all).with_context(what)?;
        parse(&all).ok_or_else(|| {
            anyhow!(
                "the program that answers at {} is not an Alluvium server",
                self.url()
            )
        })
    }

    /// Requests `path` from the server and parses the response as JSON.
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
            "; give the password with --password-file or ALLUVIUM_PASSWORD, and the user with --user if it is not `default`"
        } else {
            ""
        };
        let exit = if status == 404 {
            CommandExit::NotFound
        } else {
            CommandExit::Failed
        };
        let text = format!("the server at {}: {said}{hint}", self.url());
        failure(exit, text)
    }
}

/// Parses a complete HTTP response. Returns `None` if it is incomplete or invalid.
fn parse(all: &[u8]) -> Option<HttpResponse> {
    let end = memchr::memmem::find(all, b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&all[..end]).ok()?.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    })?;
    let body = all[end + 4..].get(..length)?.to_vec();
    Some(HttpResponse { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        let authority = |url: &str| {
            RemoteServer::at(url, RemoteCredentials::default())
                .map(|remote| remote.authority)
                .ok()
        };
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
    fn a_user_is_named_with_its_password() {
        let header = |user: Option<&str>, password: Option<&str>| {
            let login = RemoteCredentials {
                user: user.map(str::to_owned),
                password: password.map(str::to_owned),
            };
            login.header()
        };
        assert_eq!(header(Some("app"), None), "");
        let said = |text: &str| format!("Authorization: Basic {}\r\n", STANDARD.encode(text));
        assert_eq!(header(None, Some("secret")), said("default:secret"));
        assert_eq!(header(Some("app"), Some("a:b")), said("app:a:b"));
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
    }
}
