//! Error answers.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// An error answer.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Refusal {
        let text = text.into();
        Refusal { status, text }
    }

    /// Returns the error for an invalid request.
    pub(super) fn bad(text: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, text)
    }

    /// Returns the error for a missing object.
    pub(super) fn missing(text: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<alluvium::Error> for Refusal {
    fn from(error: alluvium::Error) -> Refusal {
        let status = match &error {
            alluvium::Error::NoSuchKeyspace { .. } => StatusCode::NOT_FOUND,
            alluvium::Error::TooLong { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal::new(status, error.to_string())
    }
}

impl From<crate::store::model::format::Damaged> for Refusal {
    fn from(damaged: crate::store::model::format::Damaged) -> Refusal {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, damaged.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.text });
        (self.status, super::json::answer(&body)).into_response()
    }
}
