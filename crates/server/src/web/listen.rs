//! The thread that serves HTTP, and its connections.

use super::guard::RequestOrigin;
use super::history::ActivityHistory;
use super::site::{self, SiteState};
use crate::access::ClientOrigin;
use crate::error::{Error, Result};
use crate::net::{LogRateLimiter, TlsSettings, keep_alive};
use crate::observe::health::ReadinessProbe;
use crate::shared::StoreContext;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use socket2::SockRef;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Maximum number of concurrent connections, which is enough for several people and a monitoring
/// system.
const CONNECTIONS: usize = 64;
/// Number of threads for requests that read the store.
const READERS: usize = 4;
/// Time limit for a client to send a request head, and for a connection to be idle.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for a rejected client to receive its response.
const GOODBYE: Duration = Duration::from_secs(1);
/// Maximum lifetime of a connection, so that very slow readers are eventually disconnected.
const LIFE: Duration = Duration::from_secs(600);
/// Maximum size of a request head, and size of the read and write buffers, in bytes.
const BUFFER: usize = 128 << 10;
/// Pause after a failure to accept a connection, for example because the process has too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// Interval between two rows of the activity history.
const INTERVAL: Duration = Duration::from_secs(1);

/// Options for serving the web page.
pub(crate) struct WebOptions {
    pub(crate) address: SocketAddr,
    /// Host names that requests may use in addition to the host's addresses.
    pub(crate) names: Vec<String>,
    pub(crate) tls: Option<Arc<TlsSettings>>,
    /// How long a stop waits for clients to receive their responses.
    pub(crate) grace: Duration,
}

/// The running web server's handle. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct WebServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WebServer {
    pub(crate) fn start(shared: &Arc<StoreContext>, setting: WebOptions) -> Result<WebServer> {
        let failed = |cause| Error::Listen {
            address: setting.address,
            cause,
        };
        let socket = std::net::TcpListener::bind(setting.address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        socket.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(READERS)
            .thread_name("alluvium-web-read")
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let (stop, stopping) = watch::channel(false);
        let site = Arc::new(SiteState {
            shared: Arc::clone(shared),
            names: setting.names,
            history: ActivityHistory::default(),
            readiness: ReadinessProbe::default(),
        });
        let serving = HttpListener {
            site,
            tls: setting.tls,
            stopping,
            grace: setting.grace,
        };
        let thread = std::thread::Builder::new()
            .name("alluvium-web".to_owned())
            .spawn(move || serving.run(&runtime, &listener))?;
        Ok(WebServer {
            address,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections. Responses in progress are completed.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn join(&self) {
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the web page has panicked");
        }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

#[derive(Clone)]
struct HttpListener {
    site: Arc<SiteState>,
    tls: Option<Arc<TlsSettings>>,
    stopping: watch::Receiver<bool>,
    grace: Duration,
}

impl HttpListener {
    fn run(self, runtime: &Runtime, listener: &TcpListener) {
        let router = site::router(&self.site);
        let slots = HttpConnectionLimits::new();
        runtime.block_on(async {
            let noting = tokio::spawn(note(Arc::clone(&self.site)));
            let mut stopping = self.stopping.clone();
            let mut warnings = LogRateLimiter::default();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((socket, peer)) => self.begin(socket, ClientOrigin::from(peer.ip()), &router, &slots),
                        Err(error) => {
                            if let Some(held_back) = warnings.try_log(Instant::now()) {
                                tracing::warn!(%error, held_back, "cannot accept connections to the web page; the server tries again");
                            }
                            tokio::time::sleep(PAUSE).await;
                        }
                    },
                    _ = stopping.wait_for(|stops| *stops) => break,
                }
            }
            noting.abort();
            // Once all connection slots are free, all connections have ended.
            let all = slots.served.acquire_many(CONNECTIONS as u32);
            let _ = timeout(self.grace, all).await;
        });
    }

    fn begin(&self, socket: TcpStream, peer: ClientOrigin, router: &Router, slots: &HttpConnectionLimits) {
        let Ok(slot) = Arc::clone(&slots.served).try_acquire_owned() else {
            if let Ok(slot) = Arc::clone(&slots.turned_away).try_acquire_owned() {
                tokio::spawn(turn_away(socket, slot));
            }
            return;
        };
        let (serving, router) = (self.clone(), router.clone().layer(Extension(RequestOrigin(peer))));
        tokio::spawn(async move {
            let _slot = slot;
            let _ = socket.set_nodelay(true);
            let _ = keep_alive(&SockRef::from(&socket), serving.site.shared.config.keepalive());
            match &serving.tls {
                None => serving.serve(socket, router).await,
                Some(tls) => match timeout(PATIENCE, TlsAcceptor::from(tls.current()).accept(socket)).await {
                    Ok(Ok(socket)) => serving.serve(socket, router).await,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "the TLS handshake with a client of the web page failed");
                    }
                    Err(_) => {}
                },
            }
        });
    }

    async fn serve(&self, socket: impl AsyncRead + AsyncWrite + Unpin + 'static, router: Router) {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
        let mut connection = pin!(connection);
        let mut stopping = self.stopping.clone();
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            _ = stopping.wait_for(|stops| *stops) => None,
            () = tokio::time::sleep(LIFE) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                match timeout(self.grace, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the web page failed");
        }
    }
}

/// The web server's limited connection slots.
struct HttpConnectionLimits {
    served: Arc<Semaphore>,
    turned_away: Arc<Semaphore>,
}

impl HttpConnectionLimits {
    fn new() -> HttpConnectionLimits {
        HttpConnectionLimits {
            served: Arc::new(Semaphore::new(CONNECTIONS)),
            turned_away: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }
}

/// Responds that there are too many connections. Reads the request first, because closing a socket
/// with unread data would discard the response.
async fn turn_away(mut socket: TcpStream, _slot: OwnedSemaphorePermit) {
    let refused = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";
    let told = async {
        let _ = socket.read(&mut [0; 4096]).await;
        socket.write_all(refused).await?;
        socket.shutdown().await
    };
    // Close the connection if the client does not read the response in time.
    let _ = timeout(GOODBYE, told).await;
}

/// Adds a row to the activity history at every interval. Never returns.
async fn note(site: Arc<SiteState>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let site = Arc::clone(&site);
        // Ignore a panic of the task, because the panic hook has already reported it.
        let _ = tokio::task::spawn_blocking(move || site.history.note(&site.shared)).await;
    }
}
