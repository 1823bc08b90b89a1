//! The rooms of this floor together.

mod crashes;
mod damage;
mod faults;
mod page_log;
