//! Who is answered: not whoever lacks the password, and no other site (S12).

use super::refusal::Refusal;
use super::site::Site;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long whoever gives a wrong password waits for the answer.
const PENALTY: Duration = Duration::from_millis(500);

/// What every answer says to browsers.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Lets through whom it may, and puts the headers on what is answered.
pub(super) async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match judge(&site, &request) {
        Verdict::Go => next.run(request).await,
        Verdict::Refuse(refusal) => refusal.into_response(),
        Verdict::Ask => ask(request.headers().contains_key(header::AUTHORIZATION)).await,
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

enum Verdict {
    Go,
    Refuse(Refusal),
    /// The password is missing or wrong.
    Ask,
}

async fn ask(was_wrong: bool) -> Response {
    if was_wrong {
        tokio::time::sleep(PENALTY).await;
    }
    let refusal = Refusal::new(
        StatusCode::UNAUTHORIZED,
        "the server has a password: give it with any user's name, by HTTP's basic authentication",
    );
    let challenge = HeaderValue::from_static("Basic realm=\"Alluvium\", charset=\"UTF-8\"");
    ([(header::WWW_AUTHENTICATE, challenge)], refusal).into_response()
}

fn judge(site: &Site, request: &Request) -> Verdict {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let hosts = [
        host,
        request.uri().authority().map(|authority| authority.as_str()),
    ];
    let is_ours = host.is_some() && hosts.into_iter().flatten().all(|host| is_ours(host, &site.names));
    if !is_ours {
        return Verdict::Refuse(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the address names a host that this server does not know: use its IP address or localhost, or start the server with --web-name",
        ));
    }
    // Browsers say when another site asks; a link to the page itself is fine.
    let is_page = request.uri().path() == "/";
    if !is_page
        && headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site")
    {
        return Verdict::Refuse(Refusal::new(
            StatusCode::FORBIDDEN,
            "another site may not ask this",
        ));
    }
    match site.shared.config.password() {
        Some(password) if !knows(headers, &password) => Verdict::Ask,
        _ => Verdict::Go,
    }
}

/// Whether a host is this server: an address that is written out, this machine, or a name that it was told. Any other name may be a stranger's who has
/// made it point here.
fn is_ours(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the password was given. Takes as long for each one of a length.
fn knows(headers: &HeaderMap, password: &str) -> bool {
    let given = || {
        let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, code) = text.split_once(' ')?;
        let pair = STANDARD.decode(code.trim()).ok()?;
        let colon = pair.iter().position(|&byte| byte == b':')?;
        scheme
            .eq_ignore_ascii_case("basic")
            .then(|| pair[colon + 1..].to_vec())
    };
    given().is_some_and(|given| {
        let different = given
            .iter()
            .zip(password.bytes())
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        given.len() == password.len() && different == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_cannot_be_a_strangers_are_ours() {
        let names = ["rivers.example".to_owned()];
        for host in [
            "127.0.0.1:7070",
            "192.168.1.7",
            "[::1]:7070",
            "[::1]",
            "localhost",
            "LOCALHOST:7070",
            "rivers.example:7070",
            "rivers.example.",
        ] {
            assert!(is_ours(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7070",
            "[::1",
            "[evil]:7070",
        ] {
            assert!(!is_ours(host, &names), "{host}");
        }
    }

    #[test]
    fn the_password_is_the_whole_password() {
        let given = |text: &str| {
            let mut headers = HeaderMap::new();
            let value = format!("Basic {}", STANDARD.encode(text));
            headers.insert(header::AUTHORIZATION, value.parse().expect("it is a header"));
            headers
        };
        assert!(knows(&given("anybody:se:cret"), "se:cret"));
        for wrong in ["anybody:se:cre", "anybody:se:cretx", "se:cret", "anybody:", ""] {
            assert!(!knows(&given(wrong), "se:cret"), "{wrong}");
        }
        assert!(!knows(&HeaderMap::new(), "se:cret"));
    }
}
