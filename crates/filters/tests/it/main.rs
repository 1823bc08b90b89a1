//! Tests that compare the filters with naive models through the public interface.

mod bytes;
mod hostile;
mod merge;
mod model;
mod rates;
mod support;
mod trie;
