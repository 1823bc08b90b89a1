//! Parses the input of a connection into requests.

use crate::options;
use crate::protocol::resp::{BadRequest, ParsedRequests, RequestLimits, RequestParser};

/// The parsed requests of a connection, and the state of its parser.
pub(in crate::redis) struct RequestReader {
    parser: RequestParser,
    /// `None` while the requests are being executed.
    requests: Option<ParsedRequests>,
    /// The parse error after these requests, if any.
    error: Option<BadRequest>,
}

impl Default for RequestReader {
    fn default() -> RequestReader {
        RequestReader {
            parser: RequestParser::default(),
            requests: Some(ParsedRequests::default()),
            error: None,
        }
    }
}

impl RequestReader {
    /// Takes the parsed requests out for execution.
    pub(super) fn take(&mut self) -> ParsedRequests {
        self.requests.take().unwrap_or_default()
    }

    /// Puts the parsed requests back after execution.
    pub(super) fn put_back(&mut self, requests: ParsedRequests) {
        debug_assert!(self.requests.is_none(), "requests are taken out once");
        self.requests = Some(requests);
    }

    /// Parses input until there are `most` requests.
    pub(super) fn read(
        &mut self,
        input: &mut [u8],
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
        most: usize,
    ) {
        self.error = self.parser.parse(input, requests, limits, most).err();
    }

    /// Takes the parse error, if any. To be called once the requests before the error have been
    /// executed.
    pub(super) fn take_error(&mut self) -> Option<BadRequest> {
        self.error.take()
    }

    /// Returns the size of the incomplete request in bytes, as far as known.
    pub(super) fn announced(&self) -> usize {
        self.parser.announced()
    }

    /// Skips the incomplete request, including its bytes that have not arrived yet. Returns whether
    /// further requests can be parsed after it.
    pub(in crate::redis) fn skip_begun(&mut self) -> bool {
        let mut requests = self.take();
        let can_go_on = self.parser.refuse(&mut requests);
        self.put_back(requests);
        can_go_on
    }

    /// Returns the memory used by the parsed requests, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.requests.as_ref().map_or(0, ParsedRequests::memory)
    }
}

impl options::ServerLimits {
    /// Returns the limits that the Redis parser must enforce on each request.
    pub(crate) fn of_requests(&self) -> RequestLimits {
        RequestLimits {
            bytes: self.request,
            argument: self.request,
            arguments: self.arguments,
            line: 64 << 10,
        }
    }
}
