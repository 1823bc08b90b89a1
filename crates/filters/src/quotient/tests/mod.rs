mod format;
mod geometry;
