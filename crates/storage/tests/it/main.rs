//! Integration tests of the storage layer.

mod crashes;
mod damage;
mod faults;
mod page_log;
