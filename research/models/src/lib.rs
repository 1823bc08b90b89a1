//! Models of the research that no part of the product computes with.
//!
//! [`recycling`] is the game of balls and bins that bounds what an insertion buffer saves (Conway
//! 2020, §5); [`pdam`] counts the steps of B-trees on a device that moves P blocks at once (Bender
//! et al. 2021, §6). Both refuse parameters with `alluvium_model::BadParameter`.

pub mod pdam;
pub mod recycling;
