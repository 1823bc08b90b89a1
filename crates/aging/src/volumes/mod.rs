//! File systems in image files that this crate creates, behind loop devices.
//!
//! *Scope*: images and their markers, loop devices, mounts, file systems, copies of trees.
//!
//! *Must not depend on*: workloads and measures, except for the numbers of devices.

pub mod copy;
pub mod counts;
pub mod file_system;
pub mod image;
pub mod leftovers;
pub mod mounts;
pub mod own_images;
pub mod own_mount;
pub mod volume;
