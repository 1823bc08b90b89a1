//! The modules of a crate, the exports of each module, and name resolution within the crate.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::{Item, UseTree, Visibility};

/// Path of a module from the crate root.
pub(super) type ModulePath = Vec<String>;

pub(super) struct CrateSource {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

/// A public name of a module.
pub(super) struct ModuleExport {
    pub(super) name: String,
    pub(super) target: ResolvedName,
}

/// The item that a public name refers to.
pub(super) enum ResolvedName {
    Module(ModulePath),
    /// An item of this crate: the defining module, and the item's name there.
    Item(ModulePath, String),
    /// An item of another crate.
    Foreign(String),
}

impl CrateSource {
    pub(super) fn read(src: &Path) -> Result<CrateSource> {
        let mut source = CrateSource {
            modules: BTreeMap::new(),
        };
        source.add_file(&src.join("lib.rs"), src, Vec::new())?;
        Ok(source)
    }

    fn add_file(&mut self, file: &Path, folder: &Path, module: ModulePath) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
        self.add_items(parsed.items, folder, module)
    }

    fn add_items(&mut self, items: Vec<Item>, folder: &Path, module: ModulePath) -> Result<()> {
        for item in &items {
            let Item::Mod(inner) = item else { continue };
            if is_for_tests(&inner.attrs) {
                continue;
            }
            let name = inner.ident.to_string();
            let mut path = module.clone();
            path.push(name.clone());
            match &inner.content {
                Some((_, items)) => self.add_items(items.clone(), &folder.join(&name), path)?,
                None => {
                    let own = folder.join(&name);
                    let file = [own.join("mod.rs"), PathBuf::from(format!("{}.rs", own.display()))]
                        .into_iter()
                        .find(|file| file.exists())
                        .with_context(|| format!("there is no file for the module {name}"))?;
                    self.add_file(&file, &own, path)?;
                }
            }
        }
        self.modules.insert(module, items);
        Ok(())
    }

    /// Returns every module with its items.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&ModulePath, &[Item])> {
        self.modules.iter().map(|(path, items)| (path, items.as_slice()))
    }

    /// Returns the items of a module.
    pub(super) fn items(&self, module: &[String]) -> Result<&[Item]> {
        let items = self.modules.get(module);
        items
            .map(Vec::as_slice)
            .with_context(|| format!("there is no module {}", module.join("::")))
    }

    /// Returns the public names of a module.
    pub(super) fn exports(&self, module: &[String]) -> Result<Vec<ModuleExport>> {
        let mut exports = Vec::new();
        for item in self.items(module)? {
            if let Item::Use(used) = item
                && is_public(&used.vis)
            {
                for (name, path) in leaves(&used.tree) {
                    if name == "*" {
                        let from = self.absolute(module, &path[..path.len() - 1]);
                        exports.extend(self.exports(&from[1..])?);
                        continue;
                    }
                    let target = self.resolve(module, &path)?;
                    exports.push(ModuleExport { name, target });
                }
            } else if let Item::Mod(inner) = item
                && is_public(&inner.vis)
            {
                let mut path = module.to_vec();
                path.push(inner.ident.to_string());
                exports.push(ModuleExport {
                    name: inner.ident.to_string(),
                    target: ResolvedName::Module(path),
                });
            } else if let Some(name) = public_name(item) {
                let target = ResolvedName::Item(module.to_vec(), name.clone());
                exports.push(ModuleExport { name, target });
            }
        }
        Ok(exports)
    }

    /// Resolves a path in the scope of a module.
    pub(super) fn resolve(&self, module: &[String], path: &[String]) -> Result<ResolvedName> {
        let full = self.absolute(module, path);
        if full.first().map(String::as_str) != Some("crate") {
            return Ok(ResolvedName::Foreign(full.join("::")));
        }
        let full = &full[1..];
        if self.modules.contains_key(full) {
            return Ok(ResolvedName::Module(full.to_vec()));
        }
        let Some((name, home)) = full.split_last() else {
            bail!("{} names nothing", path.join("::"));
        };
        for item in self.items(home)? {
            if defined_name(item).as_ref() == Some(name) {
                return Ok(ResolvedName::Item(home.to_vec(), name.clone()));
            }
            if let Item::Use(used) = item
                && let Some((_, inner)) = leaves(&used.tree)
                    .into_iter()
                    .find(|(as_name, _)| as_name == name)
            {
                return self.resolve(home, &inner);
            }
        }
        bail!("{} is not found in {}", name, home.join("::"))
    }

    /// Resolves a single name in a module. Returns `None` if the module neither defines nor imports
    /// it.
    pub(super) fn meaning(&self, module: &[String], name: &str) -> Option<ResolvedName> {
        for item in self.items(module).ok()? {
            if defined_name(item).as_deref() == Some(name) {
                return Some(ResolvedName::Item(module.to_vec(), name.to_owned()));
            }
            if let Item::Use(used) = item
                && let Some((_, path)) = leaves(&used.tree)
                    .into_iter()
                    .find(|(as_name, _)| as_name == name)
            {
                return self.resolve(module, &path).ok();
            }
        }
        None
    }

    /// Expands `self`, `super` and names of sibling modules into a path that starts at `crate`.
    fn absolute(&self, module: &[String], path: &[String]) -> Vec<String> {
        let from = |module: &[String], rest: &[String]| {
            let mut full = vec!["crate".to_owned()];
            full.extend_from_slice(module);
            full.extend_from_slice(rest);
            full
        };
        match path.first().map(String::as_str) {
            Some("crate") => path.to_vec(),
            Some("self") => from(module, &path[1..]),
            Some("super") => {
                let up = path.iter().take_while(|part| *part == "super").count();
                from(&module[..module.len().saturating_sub(up)], &path[up..])
            }
            Some(first) => {
                let mut inner = module.to_vec();
                inner.push(first.to_owned());
                match self.modules.contains_key(&inner) {
                    true => from(module, path),
                    false => path.to_vec(),
                }
            }
            None => Vec::new(),
        }
    }
}

/// Returns whether an item is fully public (`pub`).
pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

/// Returns the names that a `use` declaration imports, each with its full path.
fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    match tree {
        UseTree::Path(path) => {
            let below = leaves(&path.tree).into_iter();
            let first = path.ident.to_string();
            below
                .map(|(name, rest)| {
                    let is_itself = rest == ["self"];
                    let mut whole = vec![first.clone()];
                    whole.extend(rest.into_iter().filter(|part| part != "self"));
                    (if is_itself { first.clone() } else { name }, whole)
                })
                .collect()
        }
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(renamed) => vec![(renamed.rename.to_string(), vec![renamed.ident.to_string()])],
        UseTree::Glob(_) => vec![("*".to_owned(), vec!["*".to_owned()])],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

fn defined_name(item: &Item) -> Option<String> {
    Some(named(item)?.1)
}

fn public_name(item: &Item) -> Option<String> {
    let (visibility, name) = named(item)?;
    is_public(visibility).then_some(name)
}

fn named(item: &Item) -> Option<(&Visibility, String)> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        _ => return None,
    };
    Some((visibility, name.to_string()))
}
