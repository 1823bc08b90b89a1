//! Chapter 5 of Lim's thesis: MICA's in-memory tables, in one process and over loopback.

mod modes;
mod requests;
mod tables;
mod transports;

use crate::entry::MeasurementProcedure;

/// All procedures of this chapter.
pub(super) const PROCEDURES: [&MeasurementProcedure; 11] = [
    &transports::M1,
    &transports::M2,
    &transports::M3,
    &modes::M4,
    &transports::M5,
    &transports::M6,
    &modes::M7,
    &transports::M8,
    &modes::M9,
    &modes::M10,
    &transports::M11,
];
