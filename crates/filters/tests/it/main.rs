//! The filters against their naive twins, through the public interface.

mod bytes;
mod hostile;
mod merge;
mod model;
mod rates;
mod support;
mod trie;
