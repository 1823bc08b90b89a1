//! The query string of a URL. Parameter values are byte strings, so that a query can contain any
//! key.

use super::refusal::HttpError;

/// The names and values of the parameters in URL order.
#[derive(Debug, Default)]
pub(super) struct QueryString(Vec<(Vec<u8>, Vec<u8>)>);

impl QueryString {
    pub(super) fn parse(text: Option<&str>) -> Result<QueryString, HttpError> {
        let mut words = Vec::new();
        for word in text
            .unwrap_or_default()
            .split('&')
            .filter(|word| !word.is_empty())
        {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            words.push((decoded(name)?, decoded(value)?));
        }
        Ok(QueryString(words))
    }

    /// Returns a parameter's value, or `None` if it is missing.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let found = self.0.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| &value[..])
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, HttpError> {
        let read = |value| {
            std::str::from_utf8(value)
                .map_err(|_| HttpError::bad(format!("the parameter {name} must be UTF-8")))
        };
        self.bytes(name).map(read).transpose()
    }

    /// Returns a numeric parameter's value, but at most `most`. Returns `None` if the parameter is
    /// missing.
    pub(super) fn number(&self, name: &str, most: u64) -> Result<Option<u64>, HttpError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let number = text.parse::<u64>();
        number
            .map(|number| Some(number.min(most)))
            .map_err(|_| HttpError::bad(format!("the parameter {name} must be a number, not {text:?}")))
    }

    /// Returns whether a parameter is present with a value other than `0`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.bytes(name).is_some_and(|value| value != b"0")
    }
}

/// Decodes percent escapes, and plus signs as blanks, as in HTML forms.
fn decoded(text: &str) -> Result<Vec<u8>, HttpError> {
    let wrong = || HttpError::bad("a percent sign in the address is not followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    let digit = rest.next().and_then(|byte| char::from(byte).to_digit(16));
                    digit.ok_or_else(wrong)
                };
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_can_be_said() {
        let query = QueryString::parse(Some("a=%00%ff+%2B%26&b&n=70&a=2")).expect("it makes sense");
        assert_eq!(query.bytes("a"), Some(&b"\0\xff +&"[..]));
        assert!(query.is_set("b") && !query.is_set("c"));
        assert_eq!(query.number("n", 50).expect("it is a number"), Some(50));
        assert!(query.text("a").is_err() && query.number("b", 1).is_err());
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        for text in ["a=%", "a=%f", "a=%zz", "%4=1"] {
            assert!(QueryString::parse(Some(text)).is_err(), "{text}");
        }
    }
}
