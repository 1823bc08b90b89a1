//! Model checks of the cache's lock-free cores under loom: see `crate::sync` for the command.
