//! The routes of the HTTP interface: the page and its files, and JSON and metrics for programs.

use super::history::ActivityHistory;
use super::query::QueryString;
use super::refusal::HttpError;
use super::{browse, guard, json, metrics, tree};
use crate::control::open_transactions;
use crate::observe::health::{self, HealthMetrics, ReadinessProbe};
use crate::observe::{forecast, process};
use crate::shared::StoreContext;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of clients in a list.
const MOST_CLIENTS: usize = 100;

/// The state that all HTTP requests share.
pub(super) struct SiteState {
    pub(super) shared: Arc<StoreContext>,
    /// Host names that requests may use in addition to the host's addresses.
    pub(super) names: Vec<String>,
    pub(super) history: ActivityHistory,
    pub(super) readiness: ReadinessProbe,
}

/// The page's files, each with its path, content type and content.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("assets/style.css"),
    ),
    ("/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/app.js"),
    ),
    (
        "/words.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/words.js"),
    ),
    (
        "/charts.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/charts.js"),
    ),
    (
        "/tree.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/tree.js"),
    ),
    (
        "/keys.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/keys.js"),
    ),
];

/// The address at which a server that answers at all answers with 200.
pub(super) const LIVENESS: &str = "/healthz";
/// The address at which a server that can take writes answers with 200, and with 503 otherwise.
pub(super) const READINESS: &str = "/readyz";

fn plain(status: StatusCode, text: &'static str) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Answers whether the server can take writes. Clients need no password for it, so it says little.
async fn ready(State(site): State<Arc<SiteState>>) -> HttpResult {
    blocking(site, |site| {
        Ok(match site.readiness.of(&site.shared) {
            Ok(()) => plain(StatusCode::OK, "ready"),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
        })
    })
    .await
}

pub(super) fn router(site: &Arc<SiteState>) -> Router {
    let mut router = Router::new();
    for (path, kind, text) in FILES {
        let file = move || async move {
            let kind = HeaderValue::from_static(kind);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        };
        router = router.route(path, get(file));
    }
    let missing = || async {
        HttpError::missing(
            "nothing is served at this address; the web page is at /, and the API for programs is under /api",
        )
    };
    let router = router
        .route("/api/stats", get(stats))
        .route("/api/history", get(history))
        .route("/api/clients", get(clients))
        .route("/api/forecast", get(forecast))
        .route("/api/transactions", get(transactions))
        .route("/api/tree", get(shape))
        .route("/api/keyspaces", get(keyspaces))
        .route("/api/keys", get(keys))
        .route("/api/value", get(value))
        .route("/api/value/raw", get(raw))
        .route("/metrics", get(prometheus))
        .route(LIVENESS, get(|| async { plain(StatusCode::OK, "ok") }))
        .route(READINESS, get(ready))
        .fallback(missing)
        .method_not_allowed_fallback(|| async {
            HttpError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is allowed: the web page changes nothing",
            )
        })
        .layer(from_fn_with_state(Arc::clone(site), guard::guard));
    router.with_state(Arc::clone(site))
}

type HttpResult = Result<Response, HttpError>;

/// Runs a function that may wait for the device on a thread that may block.
async fn blocking<T: Send + 'static>(
    site: Arc<SiteState>,
    work: impl FnOnce(&SiteState) -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let done = tokio::task::spawn_blocking(move || work(&site)).await;
    let gone = |_| {
        HttpError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request failed with a panic, which is a bug in Alluvium; the server's log contains the message",
        )
    };
    done.map_err(gone)?
}

async fn json_of(
    site: Arc<SiteState>,
    work: impl FnOnce(&SiteState) -> Result<Value, HttpError> + Send + 'static,
) -> HttpResult {
    // Encode the response on that thread as well, because it may be long.
    blocking(site, |site| Ok(json::answer(&work(site)?))).await
}

async fn stats(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| {
        let shared = &site.shared;
        let numbers = shared.store.db.stats();
        let figures: Map<String, Value> = numbers
            .list()
            .into_iter()
            .map(|figure| (figure.name, json!(figure.value)))
            .collect();
        let findings = health::verdict(&HealthMetrics::of(shared));
        let space = shared.store.db.disk_space().ok();
        let times = process::processor_time();
        Ok(json!({
            "health": {
                "level": health::worst(&findings).word(),
                "words": health::summary(&findings),
                "findings": findings.iter().map(|finding| json!({
                    "level": finding.level.word(),
                    "what": finding.what,
                    "advice": finding.advice,
                })).collect::<Vec<_>>(),
            },
            "process": {
                "resident_bytes": process::resident_bytes(),
                "system_memory_bytes": process::system_bytes(),
                "used_memory_bytes": shared.used_memory(),
                "processor_user_us": times.user_us,
                "processor_system_us": times.system_us,
            },
            "disk": space.map(|space| json!({
                "free_bytes": space.free_bytes,
                "total_bytes": space.total_bytes,
            })),
            "version": env!("CARGO_PKG_VERSION"),
            "process_id": std::process::id(),
            "now_ms": shared.store.now_ms(),
            "uptime_ms": shared.since.elapsed().as_millis() as u64,
            "durability": if shared.store.waits_for_disk() { "disk" } else { "process" },
            "last_commit": shared.store.db.sequence(),
            "keyspaces": shared.store.db.keyspaces().len(),
            "server": shared.counts(),
            "figures": figures,
            "recent": site.history.latest(),
        }))
    })
    .await
}

async fn history(State(site): State<Arc<SiteState>>, RawQuery(query): RawQuery) -> HttpResult {
    json_of(site, move |site| {
        let after = QueryString::parse(query.as_deref())?.number("after", u64::MAX)?;
        Ok(site.history.since(after.unwrap_or(0)))
    })
    .await
}

/// Returns the open transactions and snapshots as JSON, with the old versions retained for them.
async fn transactions(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| Ok(open_transactions::report(&site.shared.store.db))).await
}

/// Returns the store's predicted and measured costs as JSON, or null until the store has executed
/// its first request.
async fn forecast(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| {
        let shared = &site.shared;
        let forecast = shared.forecasts.of(&shared.store.db);
        Ok(forecast.map_or(Value::Null, |forecast| forecast::json_of(&forecast)))
    })
    .await
}

async fn clients(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| {
        let all = site.shared.clients.list();
        let shown = all.iter().take(MOST_CLIENTS).map(|client| {
            json!({
                "id": client.id,
                "peer": client.peer.to_string(),
                "name": *client.name.lock(),
                "age_ms": client.since.elapsed().as_millis() as u64,
                "user": client.user.lock().name(),
                "database": client.database.load(Ordering::Relaxed),
                "last_command": client.last_command(),
            })
        });
        let shown: Vec<Value> = shown.collect();
        Ok(json!({ "count": all.len(), "clients": shown }))
    })
    .await
}

async fn shape(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| Ok(tree::shape(&site.shared.store.db))).await
}

async fn keyspaces(State(site): State<Arc<SiteState>>) -> HttpResult {
    json_of(site, |site| browse::keyspaces(&site.shared.store)).await
}

async fn keys(State(site): State<Arc<SiteState>>, RawQuery(query): RawQuery) -> HttpResult {
    json_of(site, move |site| {
        browse::keys(&site.shared.store, &QueryString::parse(query.as_deref())?)
    })
    .await
}

async fn value(State(site): State<Arc<SiteState>>, RawQuery(query): RawQuery) -> HttpResult {
    json_of(site, move |site| {
        browse::value(&site.shared.store, &QueryString::parse(query.as_deref())?)
    })
    .await
}

async fn raw(State(site): State<Arc<SiteState>>, RawQuery(query): RawQuery) -> HttpResult {
    let bytes = blocking(site, move |site| {
        browse::raw(&site.shared.store, &QueryString::parse(query.as_deref())?)
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"value\""),
        ),
    ];
    Ok((headers, bytes.await?).into_response())
}

async fn prometheus(State(site): State<Arc<SiteState>>) -> HttpResult {
    let text = blocking(site, |site| Ok(metrics::text(&site.shared))).await?;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
