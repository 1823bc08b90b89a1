//! What a running server reads again when it gets SIGHUP.

use super::ServeCommand;
use crate::config::ConfigFile;
use crate::terminal::{log, screen};
use alluvium_server::Server;
use anyhow::Result;
use sd_notify::NotifyState;

/// The setting of the configuration file that applies without a restart.
const LOG_LEVEL: &str = "log-level";
pub(super) const DEFAULT_LEVEL: &str = "warning";

/// Tells systemd about the server, if it is run by systemd.
pub(super) fn notify_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager about the server");
    }
}

/// The configuration that a server has been started with.
#[derive(Debug)]
pub(super) struct ServerReload {
    file: Option<ConfigFile>,
    /// Whether a flag sets the log level, which the file then does not.
    has_level_flag: bool,
}

impl ServerReload {
    pub(super) fn new(serve: &ServeCommand) -> Result<ServerReload> {
        let file = serve.config.as_deref().map(ConfigFile::read).transpose()?;
        let in_file = file.as_ref().and_then(|file| file.value(LOG_LEVEL));
        Ok(ServerReload {
            has_level_flag: in_file.unwrap_or(DEFAULT_LEVEL) != serve.log_level,
            file,
        })
    }

    /// Reads the users, the certificates and the log level again. What cannot be read stays as it
    /// was, and is reported.
    pub(super) fn reload(&mut self, serve: &ServeCommand, server: &Server) {
        if let Ok(state) = NotifyState::monotonic_usec_now() {
            notify_service_manager(&[NotifyState::Reloading, state]);
        }
        let mut reloaded = Vec::new();
        let mut note = |what: &'static str, outcome: Result<bool>| match outcome {
            Ok(true) => reloaded.push(what),
            Ok(false) => {}
            Err(error) => screen::complain(&format!("SIGHUP: {what} stay as they were: {error:#}")),
        };
        note("the settings", self.read_file());
        if serve.users.is_some() {
            note(
                "the users",
                server.reload_users().map(|()| true).map_err(Into::into),
            );
        }
        note("the certificates", reload_tls(serve, server));
        match reloaded.is_empty() {
            true => screen::note("SIGHUP: there is nothing to read again"),
            false => screen::note(&format!("SIGHUP: read {} again", reloaded.join(" and "))),
        }
        notify_service_manager(&[NotifyState::Ready]);
    }

    fn read_file(&mut self) -> Result<bool> {
        let Some(before) = &self.file else {
            return Ok(false);
        };
        let now = ConfigFile::read(&before.path)?;
        let changed = now.changed_since(before);
        let waiting: Vec<&String> = changed.iter().filter(|name| *name != LOG_LEVEL).collect();
        if !waiting.is_empty() {
            let names: Vec<&str> = waiting.iter().map(|name| name.as_str()).collect();
            screen::note(&format!("SIGHUP: restart the server for {}", names.join(", ")));
        }
        if changed.iter().any(|name| name == LOG_LEVEL) && !self.has_level_flag {
            let level = now.value(LOG_LEVEL).unwrap_or(DEFAULT_LEVEL);
            if !log::level().set_by_name(level) {
                anyhow::bail!("log-level {level:?}: write debug, verbose, notice or warning");
            }
        }
        self.file = Some(now);
        Ok(true)
    }
}

fn reload_tls(serve: &ServeCommand, server: &Server) -> Result<bool> {
    match serve.tls()? {
        Some(tls) => {
            server.reload_tls(&tls)?;
            Ok(true)
        }
        None => Ok(false),
    }
}
