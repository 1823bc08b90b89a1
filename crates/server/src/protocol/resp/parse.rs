//! Parses requests incrementally, as their bytes arrive.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::number::integer;
use std::fmt;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum total length of a request's arguments in bytes.
    pub bytes: usize,
    /// Maximum length of a single argument in bytes.
    pub argument: usize,
    pub arguments: usize,
    /// Maximum length in bytes of an incomplete line: an inline request, a count or a length. A
    /// line that is already complete when first parsed may exceed this limit, by up to the number
    /// of bytes that Redis receives at once.
    pub line: usize,
}

impl RequestLimits {
    /// The limits for unauthenticated clients. Those on arguments are the same as in Redis.
    pub const STRANGER: RequestLimits = RequestLimits {
        bytes: 64 << 10,
        argument: 16 << 10,
        arguments: 10,
        line: 64 << 10,
    };
}

/// A protocol error, after which the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// A line exceeds the maximum length.
    LongLine {
        /// What the line contains: an inline request, a count or a length.
        what: &'static str,
    },
    /// The argument count is invalid.
    Count,
    /// An argument length is invalid.
    Length,
    /// This byte was found instead of the `$` before an argument length.
    NoLength(u8),
    /// A quoted word has no closing quote, or other characters directly after it.
    Quotes,
    /// The request exceeds the limits for unauthenticated clients.
    Stranger(&'static str),
    /// The total length of the arguments exceeds the maximum.
    TooLong {
        /// The maximum in bytes: [`RequestLimits::bytes`].
        most: usize,
    },
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            BadRequest::LongLine { what } => write!(f, "too big {what}"),
            BadRequest::Count => f.write_str("invalid multibulk length"),
            BadRequest::Length => f.write_str("invalid bulk length"),
            BadRequest::NoLength(found) => write!(f, "expected '$', got '{}'", char::from(*found)),
            BadRequest::Quotes => f.write_str("unbalanced quotes in request"),
            BadRequest::Stranger(what) => write!(f, "unauthenticated {what} length"),
            BadRequest::TooLong { most } => write!(f, "request exceeds {most} bytes"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct IncompleteRequest {
    /// Number of arguments that have not arrived completely.
    missing: usize,
    /// Position of the next argument's header, relative to the start of the request.
    at: usize,
    bytes: usize,
}

/// A rejected request whose remaining bytes are skipped as they arrive.
#[derive(Clone, Copy, Debug, Default)]
struct SkippedRequest {
    /// Number of bytes to skip before the next argument's header.
    left: usize,
    /// Number of arguments whose length has not arrived yet.
    missing: usize,
}

/// Parses requests from a buffer that grows as bytes arrive.
#[derive(Debug, Default)]
pub struct RequestParser {
    begun: Option<IncompleteRequest>,
    skip: Option<SkippedRequest>,
    /// Size of the incomplete request in bytes, up to the end of the last argument with a known
    /// length.
    announced: usize,
    /// How far the buffer has been searched for a line end, relative to the start of the request.
    searched: usize,
}

/// Complete requests, stored as their arguments' positions in the buffer.
#[derive(Debug, Default)]
pub struct ParsedRequests {
    places: Vec<(usize, usize)>,
    ends: Vec<usize>,
    consumed: usize,
}

/// A request's arguments, beginning with the command name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    places: &'a [(usize, usize)],
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|word| word.escape_ascii().to_string()))
            .finish()
    }
}

impl<'a> Args<'a> {
    /// Creates arguments from positions, which must be within the buffer.
    pub(crate) fn new(buffer: &'a [u8], places: &'a [(usize, usize)]) -> Args<'a> {
        Args { buffer, places }
    }

    /// Returns the number of arguments, including the command name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no arguments. A request always has at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the argument at an index, or an empty one if there are fewer arguments.
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let place = self.places.get(index);
        place
            .and_then(|&(start, end)| self.buffer.get(start..end))
            .unwrap_or_default()
    }

    /// Returns the argument at an index, or `None` if there are fewer arguments.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Returns an iterator over the arguments.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone + use<'a> {
        let buffer = self.buffer;
        self.places
            .iter()
            .map(move |&(start, end)| buffer.get(start..end).unwrap_or_default())
    }

    /// Returns the arguments from an index on.
    #[must_use]
    pub fn from(&self, index: usize) -> Args<'a> {
        Args {
            buffer: self.buffer,
            places: self.places.get(index..).unwrap_or_default(),
        }
    }

    /// Returns the range of the buffer from the first to the last argument.
    #[inline]
    pub(crate) fn place(&self) -> Range<usize> {
        match (self.places.first(), self.places.last()) {
            (Some(&(start, _)), Some(&(_, end))) => start..end,
            _ => 0..0,
        }
    }

    /// Returns whether the argument at an index equals a word, ignoring case.
    #[must_use]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

impl ParsedRequests {
    /// Returns the number of complete requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no complete requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the arguments of the request at an index. `buffer` must be the buffer from which the
    /// requests were parsed.
    #[must_use]
    #[allow(
        clippy::indexing_slicing,
        reason = "the index is that of a request which was read"
    )]
    pub fn get<'a>(&'a self, index: usize, buffer: &'a [u8]) -> Args<'a> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Args::new(buffer, &self.places[start..self.ends[index]])
    }

    /// Returns the total length of the complete requests in bytes.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Returns the memory used by the positions in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.places.capacity() * size_of::<(usize, usize)>() + self.ends.capacity() * size_of::<usize>()
    }

    /// Removes the complete requests. The caller must have removed their bytes from the buffer.
    pub fn forget(&mut self) {
        let done = self.ends.last().copied().unwrap_or(0);
        if done == self.places.len() {
            self.places.clear();
        } else {
            self.places.drain(..done);
            for place in &mut self.places {
                place.0 -= self.consumed;
                place.1 -= self.consumed;
            }
        }
        self.ends.clear();
        self.consumed = 0;
        if self.places.capacity() > KEPT_PLACES && self.places.len() < KEPT_PLACES / 2 {
            self.places.shrink_to(KEPT_PLACES / 2);
        }
    }
}

/// Maximum number of bytes that Redis receives at once.
const AT_ONCE: usize = 16 << 10;

/// Maximum capacity for positions to keep after the requests are removed.
const KEPT_PLACES: usize = 4096;

/// The result of a parsing step.
enum ParseStep {
    /// The request is complete and has this length in bytes.
    Done(usize),
    /// More input is needed to complete the request.
    Wait,
}

impl RequestParser {
    /// Parses complete requests and adds them to `requests` until it contains `most` of them.
    /// Decodes quoted words in place.
    ///
    /// # Errors
    /// The input after the complete requests is invalid.
    pub fn parse(
        &mut self,
        buffer: &mut [u8],
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
        most: usize,
    ) -> Result<(), BadRequest> {
        self.announced = 0;
        while requests.len() < most {
            if self.skip.is_some() && !self.pass_over(buffer, requests, limits)? {
                return Ok(());
            }
            let start = requests.consumed;
            let Some(&first) = buffer.get(start) else {
                return Ok(());
            };
            let before = requests.ends.last().copied().unwrap_or(0);
            let step = if self.begun.is_some() || first == b'*' {
                self.array(buffer, start, requests, limits)?
            } else {
                self.inline(buffer, start, requests, limits)?
            };
            let ParseStep::Done(taken) = step else {
                return Ok(());
            };
            self.begun = None;
            self.searched = 0;
            requests.consumed = start + taken;
            if requests.places.len() > before {
                requests.ends.push(requests.places.len());
            }
        }
        Ok(())
    }

    /// Returns the size of the incomplete request in bytes, as far as known, or 0 if there is none
    /// or it was rejected.
    #[must_use]
    pub fn announced(&self) -> usize {
        self.announced
    }

    /// Rejects the incomplete request: discards its parsed arguments, and skips its remaining bytes
    /// as they arrive. Returns whether there was an incomplete request.
    pub fn refuse(&mut self, requests: &mut ParsedRequests) -> bool {
        let Some(begun) = self.begun.take() else {
            return false;
        };
        self.skip = Some(SkippedRequest {
            left: begun.at,
            missing: begun.missing,
        });
        (self.announced, self.searched) = (0, 0);
        let complete = requests.ends.last().copied().unwrap_or(0);
        requests.places.truncate(complete);
        requests.places.shrink_to(complete);
        true
    }

    /// Skips the bytes of a rejected request that have arrived. Returns whether these were all of
    /// them.
    fn pass_over(
        &mut self,
        buffer: &[u8],
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<bool, BadRequest> {
        while let Some(mut skip) = self.skip {
            let rest = buffer.get(requests.consumed..).unwrap_or_default();
            let passed = skip.left.min(rest.len());
            skip.left -= passed;
            requests.consumed += passed;
            self.skip = Some(skip);
            if skip.left > 0 {
                return Ok(false);
            }
            if skip.missing == 0 {
                self.skip = None;
                break;
            }
            self.searched = 0;
            let rest = rest.get(passed..).unwrap_or_default();
            let Some((end, body)) = self.line(rest, 0, limits.line, "bulk count string")? else {
                self.searched = 0;
                return Ok(false);
            };
            let length = length(rest.get(..end).unwrap_or_default(), limits)?;
            requests.consumed += body;
            self.skip = Some(SkippedRequest {
                left: length + 2,
                missing: skip.missing - 1,
            });
        }
        self.searched = 0;
        Ok(true)
    }

    /// Finds the end of the line that begins at `from`. Returns the end of its text and the start
    /// of the next line, both relative to the start of the request, or `None` if the line is
    /// incomplete. A line with a zero byte counts as incomplete, because Redis does not search
    /// beyond it.
    #[allow(
        clippy::indexing_slicing,
        reason = "what was searched lies within the request"
    )]
    fn line(
        &mut self,
        request: &[u8],
        from: usize,
        most: usize,
        what: &'static str,
    ) -> Result<Option<(usize, usize)>, BadRequest> {
        let search = self.searched.max(from);
        let rest = request.get(search..).unwrap_or_default();
        match rest.iter().position(|&byte| matches!(byte, b'\n' | 0)) {
            Some(at) if rest[at] == 0 && request.len() - from <= most => {
                self.searched = search + at;
                Ok(None)
            }
            Some(at) if rest[at] != 0 && search + at - from < most.saturating_add(AT_ONCE) => {
                let end = search + at;
                let trimmed = if end > from && request[end - 1] == b'\r' {
                    end - 1
                } else {
                    end
                };
                // Parse the line again if the bytes that must follow it have not arrived yet.
                self.searched = from;
                Ok(Some((trimmed, end + 1)))
            }
            None if request.len() - from <= most => {
                self.searched = request.len();
                Ok(None)
            }
            _ => Err(BadRequest::LongLine { what }),
        }
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "a request begins and its lines end within the buffer"
    )]
    fn array(
        &mut self,
        buffer: &[u8],
        start: usize,
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<ParseStep, BadRequest> {
        let request = &buffer[start..];
        let mut begun = match self.begun {
            Some(begun) => begun,
            None => {
                let (count, next) = match usual_header(request, b'*', limits) {
                    Some((count, next)) => (count as i64, next),
                    None => {
                        let Some((end, next)) = self.line(request, 0, limits.line, "mbulk count string")?
                        else {
                            return Ok(ParseStep::Wait);
                        };
                        (integer(&request[1..end]).ok_or(BadRequest::Count)?, next)
                    }
                };
                if count <= 0 {
                    return Ok(ParseStep::Done(next));
                }
                if count as u64 > limits.arguments as u64 {
                    return Err(refusal(limits, "multibulk", BadRequest::Count));
                }
                IncompleteRequest {
                    missing: count as usize,
                    at: next,
                    bytes: 0,
                }
            }
        };
        while begun.missing > 0 {
            let rest = request.get(begun.at..).unwrap_or_default();
            let (length, body) = match usual_header(rest, b'$', limits) {
                Some((length, _)) if length > limits.argument => {
                    return Err(refusal(limits, "bulk", BadRequest::Length));
                }
                Some((length, taken)) => (length, begun.at + taken),
                None => {
                    self.begun = Some(begun);
                    let Some((end, body)) = self.line(request, begun.at, limits.line, "bulk count string")?
                    else {
                        return Ok(ParseStep::Wait);
                    };
                    let header = request.get(begun.at..end).unwrap_or_default();
                    (length(header, limits)?, body)
                }
            };
            if begun.bytes + length > limits.bytes {
                return Err(BadRequest::TooLong { most: limits.bytes });
            }
            if request.len() < body + length + 2 {
                // Parse the header line again when more bytes have arrived.
                (self.begun, self.searched) = (Some(begun), begun.at);
                self.announced = body + length + 2;
                return Ok(ParseStep::Wait);
            }
            requests.places.push((start + body, start + body + length));
            begun.missing -= 1;
            begun.at = body + length + 2;
            begun.bytes += length;
        }
        Ok(ParseStep::Done(begun.at))
    }

    #[allow(clippy::indexing_slicing, reason = "a request begins within the buffer")]
    fn inline(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        requests: &mut ParsedRequests,
        limits: &RequestLimits,
    ) -> Result<ParseStep, BadRequest> {
        let Some((end, next)) = self.line(&buffer[start..], 0, limits.line, "inline request")? else {
            return Ok(ParseStep::Wait);
        };
        let mut at = start;
        let end = start + end;
        while let Some((from, to, behind)) = word(buffer, at, end)? {
            requests.places.push((from, to));
            at = behind;
        }
        Ok(ParseStep::Done(next))
    }
}

/// Maximum number of header digits that the fast path accepts.
const USUAL_DIGITS: usize = 9;

/// Fast path for headers in their usual form: a complete line that consists of `mark` and a short
/// number. Returns the number and the line's length, or `None` to fall back to
/// `RequestParser::line`.
#[inline]
fn usual_header(line: &[u8], mark: u8, limits: &RequestLimits) -> Option<(usize, usize)> {
    let (&first, digits) = line.split_first()?;
    if first != mark || limits.line < USUAL_DIGITS + 3 {
        return None;
    }
    let mut value = 0;
    for (index, &byte) in digits.iter().enumerate().take(USUAL_DIGITS + 1) {
        match byte {
            // A non-zero number must not begin with a zero.
            b'0'..=b'9' if index == 0 || value > 0 => value = 10 * value + usize::from(byte - b'0'),
            b'\r' if index > 0 && digits.get(index + 1) == Some(&b'\n') => return Some((value, index + 3)),
            _ => return None,
        }
    }
    None
}

/// Parses an argument's header line and returns the argument's length in bytes.
fn length(header: &[u8], limits: &RequestLimits) -> Result<usize, BadRequest> {
    let length = match header.split_first() {
        Some((b'$', digits)) => integer(digits).ok_or(BadRequest::Length)?,
        Some((&other, _)) => return Err(BadRequest::NoLength(other)),
        None => return Err(BadRequest::NoLength(b'\r')),
    };
    let length = usize::try_from(length).map_err(|_| BadRequest::Length)?;
    if length > limits.argument {
        return Err(refusal(limits, "bulk", BadRequest::Length));
    }
    Ok(length)
}

fn refusal(limits: &RequestLimits, what: &'static str, otherwise: BadRequest) -> BadRequest {
    if *limits == RequestLimits::STRANGER {
        BadRequest::Stranger(what)
    } else {
        otherwise
    }
}

/// Returns whether C considers a byte to be white space.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Parses the next word of a line, and decodes it in place if it is quoted. Returns the start and
/// end of the decoded word, and the start of the rest of the line. Any white space may precede a
/// word, but only some kinds of it end an unquoted word.
#[allow(
    clippy::indexing_slicing,
    reason = "the line ends within the buffer, and what is decoded is no longer"
)]
fn word(buffer: &mut [u8], mut at: usize, end: usize) -> Result<Option<(usize, usize, usize)>, BadRequest> {
    while at < end && is_blank(buffer[at]) {
        at += 1;
    }
    if at == end {
        return Ok(None);
    }
    let start = at;
    let mut out = at;
    while at < end && !matches!(buffer[at], b' ' | b'\t' | b'\r') {
        match buffer[at] {
            quote @ (b'"' | b'\'') => {
                at = quoted(buffer, at + 1, end, quote, &mut out)?;
                if at < end && !is_blank(buffer[at]) {
                    return Err(BadRequest::Quotes);
                }
                break;
            }
            byte => {
                buffer[out] = byte;
                out += 1;
                at += 1;
            }
        }
    }
    Ok(Some((start, out, at)))
}

/// Decodes a quoted word up to its closing quote. Returns the start of the rest of the line. The
/// decoded text is never longer than the encoded text.
#[allow(
    clippy::indexing_slicing,
    reason = "the line ends within the buffer, and what is decoded is no longer"
)]
fn quoted(
    buffer: &mut [u8],
    mut at: usize,
    end: usize,
    quote: u8,
    out: &mut usize,
) -> Result<usize, BadRequest> {
    while at < end {
        let mut byte = buffer[at];
        at += 1;
        if byte == quote {
            return Ok(at);
        }
        let next = if at < end { buffer[at] } else { 0 };
        if byte == b'\\' && quote == b'\'' && next == b'\'' {
            byte = b'\'';
            at += 1;
        } else if byte == b'\\' && quote == b'"' && at < end {
            let digit = |index: usize| {
                let digit = (index < end).then(|| char::from(buffer[index]).to_digit(16));
                digit.flatten().map(|digit| digit as u8)
            };
            (byte, at) = match (next, digit(at + 1), digit(at + 2)) {
                (b'x', Some(high), Some(low)) => (high << 4 | low, at + 3),
                (b'n', ..) => (b'\n', at + 1),
                (b'r', ..) => (b'\r', at + 1),
                (b't', ..) => (b'\t', at + 1),
                (b'b', ..) => (8, at + 1),
                (b'a', ..) => (7, at + 1),
                (other, ..) => (other, at + 1),
            };
        }
        buffer[*out] = byte;
        *out += 1;
    }
    Err(BadRequest::Quotes)
}

#[cfg(test)]
mod tests;
