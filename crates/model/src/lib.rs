//! Pure arithmetic: what storage costs.
