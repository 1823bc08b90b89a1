//! JSON responses, and the representation of byte strings in JSON.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub(super) fn answer(value: &Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

/// Adds a byte string to a JSON object: as text under `name` if it is valid UTF-8, otherwise in
/// base 64 under `name_base64`.
pub(super) fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

/// Returns a JSON object that begins with a byte string under `name`.
pub(super) fn bytes_object(name: &str, bytes: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    put_bytes(&mut object, name, bytes);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_base_64() {
        let text = Value::from(bytes_object("key", "Řeka".as_bytes())).to_string();
        assert_eq!(text, "{\"key\":\"Řeka\"}");
        let bytes = Value::from(bytes_object("key", &[0xff, 0])).to_string();
        assert_eq!(bytes, "{\"key_base64\":\"/wA=\"}");
    }
}
