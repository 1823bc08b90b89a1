//! A folder must not import a crate or module that its header lists by bare name under *Must not
//! depend on*. Longer clauses ("what is in a node") describe meaning and cannot be checked in text.

use super::headers::paragraph;
use super::{SourceFile, TidyFinding, Workspace, crates};
use std::collections::BTreeMap;

const MUST_NOT_DEPEND: &str = "*Must not depend on*";

/// Checks the header of every library and every product folder against the imports of the files
/// below it.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let headers = workspace.sources.iter().filter(|source| {
        ["lib.rs", "mod.rs"].contains(&source.file_name())
            && !crates::is_workshop(Workspace::crate_of(&source.path))
            && source.path.contains("/src/")
            && !source.is_test(1)
    });
    headers.flat_map(|header| of_header(workspace, header)).collect()
}

fn of_header(workspace: &Workspace, header: &SourceFile) -> Vec<TidyFinding> {
    let Some((line, text)) = paragraph(header, MUST_NOT_DEPEND) else {
        return Vec::new();
    };
    let names = bare_names(&text);
    let folder = header.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let inside = |source: &&SourceFile| {
        let below = source
            .path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'));
        below && !source.is_test(1)
    };
    let mut imported: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for source in workspace.sources.iter().filter(inside) {
        for (module, at) in imports(source, folder) {
            imported.entry(module).or_insert((source.path.clone(), at));
        }
    }
    let known = names.iter().filter_map(|name| {
        let (module, at) = imported.iter().find(|(module, _)| is_same(module, name))?;
        let (path, import_line) = at;
        let text = format!(
            "the header forbids \"{name}\", and {path}:{import_line} imports {module}: name the part that is \
             forbidden, or remove the import"
        );
        Some(TidyFinding::new(&header.path, line, text))
    });
    known.collect()
}

/// Returns the one-word entries of a list, without articles: "keys, the tree; what a page means"
/// yields "keys" and "tree".
fn bare_names(text: &str) -> Vec<String> {
    let text = text.trim_end_matches('.').replace(". ", "; ");
    let clauses = text
        .split(';')
        .map(|clause| clause.trim().trim_start_matches(':').trim());
    // "That is the store's" names the owner rather than a module.
    let lists = clauses.filter(|clause| !clause.starts_with("that is") && !clause.starts_with("that are"));
    let items = lists
        .flat_map(|list| list.split(','))
        .flat_map(|item| item.split(" and "));
    let one_word = items.filter_map(|item| {
        let mut words = item.split_whitespace().filter(|word| {
            !["the", "a", "an", "any", "other", "and", "or"].contains(&word.to_lowercase().as_str())
        });
        let word = words.next()?.trim_matches(['`', '[', ']']).to_lowercase();
        let is_word = words.next().is_none() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        (is_word && !word.is_empty()).then_some(word)
    });
    one_word.collect()
}

/// Returns whether a word of prose names the module, in the singular or the plural.
fn is_same(module: &str, word: &str) -> bool {
    module == word || module.strip_suffix('s') == Some(word) || word.strip_suffix('s') == Some(module)
}

/// Returns what a file imports from outside its folder, with the lines: the short name of each
/// crate, and the first module of each path.
fn imports(source: &SourceFile, folder: &str) -> Vec<(String, usize)> {
    let own = folder
        .split("/src/")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    let path_at = |at: usize| {
        let colon = |index: usize| source.tokens.get(index).is_some_and(|token| token.is(':'));
        let next = source.tokens.get(at + 3).and_then(|token| token.word());
        next.filter(|_| colon(at + 1) && colon(at + 2))
    };
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let Some(word) = token.word().filter(|_| !source.is_test(token.line)) else {
            continue;
        };
        let Some(module) = path_at(at) else { continue };
        let is_module = module.starts_with(|c: char| c.is_ascii_lowercase());
        if let Some(name) = word.strip_prefix("alluvium_") {
            found.push((name.to_owned(), token.line));
            if is_module {
                found.push((module.to_owned(), token.line));
            }
        } else if word == "crate" && is_module && Some(module) != own && own.is_some() {
            found.push((module.to_owned(), token.line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    const HEADER: &str = "//! Records.\n//!\n//! *Scope*: bytes.\n//!\n//! *Must not depend on*: the tree, what a `page` means;\n\
        //! pages and any model.\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        lines(&check(&Workspace::planted(&[
            ("crates/db/src/engine/record_cache/mod.rs", HEADER),
            (path, text),
        ])))
    }

    #[test]
    fn forbidden_names_may_not_be_imported() {
        let text = "//! Forgetting.\nuse alluvium_trees::tiered::Schema;\n";
        let found = found("crates/db/src/engine/record_cache/invalidate.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/db/src/engine/record_cache/mod.rs:5: the header forbids"));
        assert!(
            found[0]
                .contains("\"tree\", and crates/db/src/engine/record_cache/invalidate.rs:2 imports trees")
        );
    }

    #[test]
    fn a_module_of_the_same_crate_counts_and_clauses_tests_and_other_folders_do_not() {
        assert_eq!(
            found(
                "crates/db/src/engine/record_cache/a.rs",
                "use crate::model::Cost;"
            )
            .len(),
            1
        );
        for (path, text) in [
            (
                "crates/db/src/engine/record_cache/a.rs",
                "use crate::engine::Cost;\nuse alluvium_storage::log;",
            ),
            (
                "crates/db/src/engine/record_cache/a.rs",
                "#[cfg(test)]\nuse alluvium_trees::run;\n// alluvium_trees::run",
            ),
            (
                "crates/db/src/engine/record_cache/tests.rs",
                "use alluvium_trees::run;",
            ),
            ("crates/db/src/engine/other.rs", "use alluvium_trees::run;"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
        let text = ": the tree, what a page means; that is `run.rs`, and the cache. Pages and any model.";
        assert_eq!(bare_names(text), ["tree", "pages", "model"]);
    }
}
