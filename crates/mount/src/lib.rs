//! Mounts of file systems through FUSE.
//!
//! *Scope*: the translation between FUSE and [`alluvium_files::FileSystem`]; what the kernel may
//! cache; views of a mount in a namespace of their own.
//!
//! *Must not depend on*: how a file system keeps its files.
//!
//! Invariants:
//!
//! - **M1** The kernel caches nothing that another view of the files may change without a notice.
