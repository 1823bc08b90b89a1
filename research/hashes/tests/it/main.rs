//! Tests of the research hash tables through the public interface: comparison with maps,
//! invariants, and behaviour under failing writes.

mod boa;
mod bot;
mod faults;
mod model;
mod silt;
mod support;
