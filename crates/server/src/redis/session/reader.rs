//! From the bytes of a connection to its requests.

use crate::resp::{BadRequest, Limits, Parser, Requests};

/// The requests of a connection that were read, and the place where reading continues.
pub(in crate::redis) struct RequestReader {
    parser: Parser,
    /// None while they are executed.
    requests: Option<Requests>,
    /// The error after the requests that were read.
    error: Option<BadRequest>,
}

impl Default for RequestReader {
    fn default() -> RequestReader {
        RequestReader {
            parser: Parser::default(),
            requests: Some(Requests::default()),
            error: None,
        }
    }
}

impl RequestReader {
    /// Takes the requests out, to execute them.
    pub(super) fn take(&mut self) -> Requests {
        self.requests.take().unwrap_or_default()
    }

    /// Puts the requests back that were taken out.
    pub(super) fn put_back(&mut self, requests: Requests) {
        debug_assert!(self.requests.is_none(), "requests are taken out once");
        self.requests = Some(requests);
    }

    /// Reads requests until there are `most` of them.
    pub(super) fn read(&mut self, input: &mut [u8], requests: &mut Requests, limits: &Limits, most: usize) {
        self.error = self.parser.parse(input, requests, limits, most).err();
    }

    /// Returns the error after the requests that were read. They have been executed.
    pub(super) fn take_error(&mut self) -> Option<BadRequest> {
        self.error.take()
    }

    /// Returns how many bytes the request has that has begun, as far as is known.
    pub(super) fn announced(&self) -> usize {
        self.parser.announced()
    }

    /// Skips the request that has begun, and returns whether others can be read after it.
    pub(in crate::redis) fn skip_begun(&mut self) -> bool {
        let mut requests = self.take();
        let can_go_on = self.parser.refuse(&mut requests);
        self.put_back(requests);
        can_go_on
    }

    /// Returns the bytes of memory that requests take.
    pub(super) fn memory(&self) -> usize {
        self.requests.as_ref().map_or(0, Requests::memory)
    }
}
