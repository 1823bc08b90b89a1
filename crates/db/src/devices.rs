//! Profiles of kinds of devices, for [`Options::device`](crate::Options::device): how long an I/O
//! takes to begin, what a byte and an I/O's work cost, and how many I/Os take place at once.
//!
//! ```
//! use alluvium::{DeviceProfile, Options, devices};
//! let options = Options::new().device(devices::HARD_DISK);
//! let ours = DeviceProfile { parallelism: 32, ..devices::NVME_SSD };
//! assert!(ours.half_bandwidth() < devices::HARD_DISK.half_bandwidth());
//! # drop(options);
//! ```

pub use alluvium_model::presets::{HARD_DISK, NETWORK_VOLUME, NVME_SSD, SATA_SSD};
