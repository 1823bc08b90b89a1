//! Unordered dictionaries against naive twins, through the public interface.

mod silt;
