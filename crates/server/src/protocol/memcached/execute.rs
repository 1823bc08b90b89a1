//! Dispatches requests on items to their handlers.

use super::items::ItemStore;
use super::request::MemcachedRequest;
use super::{meta, text};
use crate::error::CommandError;
use crate::shared::ServerCounters;

pub(super) fn execute(
    request: &MemcachedRequest<'_>,
    items: &mut impl ItemStore,
    counters: &ServerCounters,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    match request.word(0) {
        b"get" | b"gets" | b"gat" | b"gats" => text::get(request, items, counters, output),
        b"incr" | b"decr" => text::arithmetic(request, items, &counters.items, output),
        b"touch" => text::touch(request, items, counters, output),
        b"delete" => text::delete(request, items, &counters.items, output),
        b"mg" => meta::get(request, items, counters, output),
        b"ms" => meta::set(request, items, counters, output),
        b"md" => meta::delete(request, items, &counters.items, output),
        b"ma" => meta::arithmetic(request, items, &counters.items, output),
        b"me" => meta::describe(request, items, output),
        _ => text::store(request, items, counters, output),
    }
}

/// Rejects a meta command without a key.
pub(super) fn check(request: &MemcachedRequest<'_>) -> Result<(), CommandError> {
    let is_bare = request.words.len() == 1 && matches!(request.word(0), b"mg" | b"md" | b"ma");
    if is_bare {
        return Err(CommandError::say("ERROR"));
    }
    Ok(())
}

/// Appends the error reply for a failed request. Omits a refusal if the client has asked for no
/// replies.
pub(super) fn refuse(failure: &CommandError, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) {
    if request.is_quiet() && matches!(failure, CommandError::Refused(_)) {
        return;
    }
    let text = match failure {
        CommandError::Refused(text) => text.to_string(),
        CommandError::NoRoom { bytes } => {
            format!(
                "SERVER_ERROR out of memory storing object: it needs {bytes} bytes; raise --client-memory"
            )
        }
        CommandError::Store(error) if error.is_full() => {
            format!("SERVER_ERROR out of memory storing object: {error}")
        }
        CommandError::Store(error) => format!("SERVER_ERROR {error}"),
    };
    output.extend_from_slice(text.replace(['\r', '\n'], " ").as_bytes());
    output.extend_from_slice(b"\r\n");
}
