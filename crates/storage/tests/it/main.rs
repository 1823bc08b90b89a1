//! All parts of this crate together.

mod crashes;
mod damage;
mod faults;
mod page_log;
