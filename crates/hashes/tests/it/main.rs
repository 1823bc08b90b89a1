//! The tables against a map, their laws, and their behaviour when writes fail.

mod boa;
mod bot;
mod faults;
mod model;
mod support;
