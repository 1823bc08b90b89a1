//! Access control for the web page, which requires the password and rejects requests caused by
//! other web sites (S12).

use super::refusal::HttpError;
use super::site::{self, SiteState};
use crate::access::{self, AccessDenial, AclUser, ClientOrigin, LoginResult};
use crate::redis::catalog::{AccessRequest, KeyAccess};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smallvec::SmallVec;
use std::net::IpAddr;
use std::sync::Arc;

/// The security headers of every response.
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

/// Middleware that rejects unauthorised requests and adds the security headers to every response.
pub(super) async fn guard(State(site): State<Arc<SiteState>>, request: Request, next: Next) -> Response {
    let answer = match reject_cross_site(&site, &request) {
        Err(refusal) => Err(refusal.into_response()),
        // Probes of an orchestrator have no password, and learn nothing else.
        Ok(()) if [site::LIVENESS, site::READINESS].contains(&request.uri().path()) => Ok(()),
        Ok(()) => admit(&site, AuthRequest::of(&request)).await,
    };
    let mut response = match answer {
        Ok(()) => next.run(request).await,
        Err(response) => response,
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns the response that makes a browser ask for the password.
fn unauthorized_response() -> Response {
    let refusal = HttpError::new(
        StatusCode::UNAUTHORIZED,
        "a valid user name and password are required; send them by HTTP basic authentication",
    );
    let challenge = HeaderValue::from_static("Basic realm=\"Alluvium\", charset=\"UTF-8\"");
    ([(header::WWW_AUTHENTICATE, challenge)], refusal).into_response()
}

/// Authenticates a request and checks the user's permission. Delays the response to a wrong
/// password.
async fn admit(site: &SiteState, asker: AuthRequest) -> Result<(), Response> {
    let access = &site.shared.access;
    let user = match asker.credentials {
        None if access.is_open() => access.default_user(),
        None => return Err(unauthorized_response()),
        Some((name, password)) => log_in(site, asker.peer, &name, &password).await?,
    };
    let Some(asked) = asker.asked else {
        return Ok(());
    };
    user.check(&asked).map_err(|denied| {
        let refusal = match denied {
            AccessDenial::Command => HttpError::new(
                StatusCode::FORBIDDEN,
                format!(
                    "user {} may not access this address; its ACL rules need +{}",
                    user.name(),
                    asked.name()
                ),
            ),
            AccessDenial::Key(_) | AccessDenial::Channel(_) => HttpError::new(
                StatusCode::FORBIDDEN,
                format!(
                    "user {} may not access this address; its ACL rules need %R~* or ~*",
                    user.name()
                ),
            ),
        };
        refusal.into_response()
    })
}

/// Returns the user with this name and password. An unknown name counts as `default`, because
/// browsers require some name.
async fn log_in(
    site: &SiteState,
    peer: ClientOrigin,
    name: &[u8],
    password: &[u8],
) -> Result<Arc<AclUser>, Response> {
    let access = &site.shared.access;
    let name = access.find(name).map_or(&b"default"[..], |_| name);
    match access.log_in(peer, &mut 0, name, password) {
        LoginResult::Yes(user) => Ok(user),
        LoginResult::No(time) => {
            access::at(access.delays.clock(), time).await;
            Err(unauthorized_response())
        }
    }
}

/// The credentials, target and origin of a request to be authenticated.
struct AuthRequest {
    peer: ClientOrigin,
    credentials: Option<(Vec<u8>, Vec<u8>)>,
    asked: Option<AccessRequest<'static>>,
}

impl AuthRequest {
    fn of(request: &Request) -> AuthRequest {
        let from = request.extensions().get::<RequestOrigin>();
        AuthRequest {
            peer: from.map_or(ClientOrigin::Socket, |from| from.0),
            credentials: credentials(request.headers()),
            asked: asked(request.uri().path()),
        }
    }
}

/// The client origin to blame for wrong passwords in a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestOrigin(pub(super) ClientOrigin);

/// Returns the permission required for a path, or `None` for the page itself.
fn asked(path: &str) -> Option<AccessRequest<'static>> {
    let part = match path {
        "/metrics" | "/api/stats" | "/api/history" | "/api/clients" | "/api/transactions"
        | "/api/keyspaces" => "page|stats",
        path if path.starts_with("/api/") => "page|keys",
        _ => return None,
    };
    let asked = AccessRequest::elsewhere(part, SmallVec::new());
    let of_all = (part == "page|keys").then_some(KeyAccess::READ);
    Some(AccessRequest { of_all, ..asked })
}

/// Rejects requests that another web site may have made a browser send.
fn reject_cross_site(site: &SiteState, request: &Request) -> Result<(), HttpError> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let hosts = [
        host,
        request.uri().authority().map(|authority| authority.as_str()),
    ];
    let is_ours = host.is_some() && hosts.into_iter().flatten().all(|host| is_ours(host, &site.names));
    if !is_ours {
        return Err(HttpError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the request names no host that this server accepts; use its IP address or localhost, or start \
             the server with --web-name",
        ));
    }
    // Browsers mark requests that another site has caused with a header. Links from other sites to
    // the page itself are allowed.
    let is_page = request.uri().path() == "/";
    if !is_page
        && headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site")
    {
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            "requests from other sites are not allowed; open the page at / first",
        ));
    }
    Ok(())
}

/// Returns whether a host name denotes this server. IP addresses, localhost and the configured
/// names do. Any other name may belong to an attacker who has made it resolve to this server (DNS
/// rebinding).
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

/// Returns the user name and password in a request.
fn credentials(headers: &HeaderMap) -> Option<(Vec<u8>, Vec<u8>)> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, code) = text.split_once(' ')?;
    let pair = STANDARD.decode(code.trim()).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    let (name, password) = (pair[..colon].to_vec(), pair[colon + 1..].to_vec());
    scheme.eq_ignore_ascii_case("basic").then_some((name, password))
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
    fn the_password_is_all_behind_the_first_colon() {
        let given = |text: &str| {
            let mut headers = HeaderMap::new();
            let value = format!("Basic {}", STANDARD.encode(text));
            headers.insert(header::AUTHORIZATION, value.parse().expect("it is a header"));
            credentials(&headers)
        };
        let pair = |name: &str, password: &str| Some((name.into(), password.into()));
        assert_eq!(given("somebody:se:cret"), pair("somebody", "se:cret"));
        assert_eq!(given(":"), pair("", ""));
        assert_eq!(given("secret"), None);
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
