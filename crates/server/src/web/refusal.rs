//! HTTP error answers.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

#[derive(Debug)]
pub(super) struct HttpError {
    status: StatusCode,
    text: String,
}

impl HttpError {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> HttpError {
        let text = text.into();
        HttpError { status, text }
    }

    /// Returns the error for an invalid request.
    pub(super) fn bad(text: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, text)
    }

    /// Returns the error for a missing object.
    pub(super) fn missing(text: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<alluvium::Error> for HttpError {
    fn from(error: alluvium::Error) -> HttpError {
        let status = match &error {
            alluvium::Error::NoSuchKeyspace { .. } => StatusCode::NOT_FOUND,
            alluvium::Error::TooLong { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        HttpError::new(status, error.to_string())
    }
}

impl From<crate::store::model::format::DamagedRecord> for HttpError {
    fn from(damaged: crate::store::model::format::DamagedRecord) -> HttpError {
        HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, damaged.to_string())
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.text });
        (self.status, super::json::answer(&body)).into_response()
    }
}
