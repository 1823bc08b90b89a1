//! Statistics of in-place updated pages as JSON, for the web page and the command `inspect`.

use alluvium::{Db, PagedLevel, PagedOutline};
use serde_json::{Value, json};

/// Formats page statistics as JSON, listing the levels from the leaves to the root.
pub(crate) fn outline(of: &PagedOutline) -> Value {
    let level = |level: &PagedLevel| {
        json!({
            "nodes": level.nodes,
            "entries": level.entries,
            "most_entries": level.most_entries,
            "messages": level.messages,
            "most_messages": level.most_messages,
        })
    };
    json!({
        "page_bytes": of.page_bytes,
        "value_pages": of.value_pages,
        "free_pages": of.free_pages,
        "levels": of.levels.iter().map(level).collect::<Vec<Value>>(),
    })
}

/// Returns the statistics of in-place updated pages. Returns `None` if there are none, or if there
/// are more than `most_pages`, because every node must be read.
pub(crate) fn outline_within(db: &Db, most_pages: u64) -> alluvium::Result<Option<Value>> {
    let pages = db.stats().paged.pages;
    if pages == 0 || pages > most_pages {
        return Ok(None);
    }
    Ok(db.outline_pages()?.as_ref().map(outline))
}
