//! The Python package of Alluvium: classes over the handles of `alluvium-handles`.
//!
//! The classes here take and return bytes. Mappings, codecs, `shelve`, `dbm` and asyncio are in
//! Python, in `python/alluvium`.
//!
//! *Scope*: conversions between Python and Rust; the interpreter's lock, which each call of the
//! store releases.
//!
//! *Must not depend on*: codecs, the contents of stores.
//!
//! Invariants:
//!
//! - **P1** No call of the store is made, and no handle of it is dropped, while the thread is
//!   attached to the interpreter.
//! - **P2** An error of the store becomes the exception of its kind.

mod batch;
mod detached;
mod errors;
mod keyspace;
mod pending;
mod scan;
mod snapshot;
mod store;
mod transaction;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _alluvium(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ERROR_KINDS", errors::names())?;
    module.add_class::<store::RawStore>()?;
    module.add_class::<keyspace::RawKeyspace>()?;
    module.add_class::<batch::RawBatch>()?;
    module.add_class::<batch::RawIngest>()?;
    module.add_class::<snapshot::RawSnapshot>()?;
    module.add_class::<transaction::RawTransaction>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<pending::Pending>()?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    module.add_function(wrap_pyfunction!(store::repair, module)?)?;
    Ok(())
}
