//! Hash tables of the research against maps, their laws, and their behaviour when writes fail,
//! through the public interface.

mod boa;
mod bot;
mod faults;
mod model;
mod silt;
mod support;
