//! Renders a public item as users see it, without documentation or bodies.

use super::crate_source::{CrateSource, ModulePath, ResolvedName, is_public};
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type};

pub(super) struct RenderedItem {
    pub(super) text: String,
    /// Items of inner crates that this item mentions but the crate does not re-export.
    pub(super) foreign: Vec<String>,
}

/// Renders the item `name` of the module `home`, with its methods and trait implementations.
pub(super) fn item(source: &CrateSource, home: &ModulePath, name: &str) -> Result<RenderedItem> {
    let found = source.items(home)?.iter().find(|item| is_named(item, name));
    let own = stripped(found.context("the item is gone")?.clone());
    let mut foreign = foreign(source, home, own.clone());
    let mut text = pretty(own)?;
    let (mut own_methods, mut traits) = (Vec::new(), Vec::new());
    for (module, items) in source.modules() {
        for item in items {
            let Item::Impl(block) = item else { continue };
            if !is_of(source, module, block, home, name) {
                continue;
            }
            match &block.trait_ {
                Some((_, path, _)) => {
                    let (generics, kind) = (&block.generics, &block.self_ty);
                    traits.push(pretty(quote!(impl #generics #path for #kind {}))?);
                }
                None => {
                    let found = methods(block);
                    foreign.extend(
                        found
                            .iter()
                            .flat_map(|method| self::foreign(source, module, method.clone())),
                    );
                    if !found.is_empty() {
                        let (generics, kind) = (&block.generics, &block.self_ty);
                        own_methods.push(pretty(quote!(impl #generics #kind { #(#found)* }))?);
                    }
                }
            }
        }
    }
    traits.sort();
    text.extend(own_methods.into_iter().chain(traits));
    Ok(RenderedItem { text, foreign })
}

/// Returns whether an impl block belongs to the type `name` defined in `home`.
fn is_of(source: &CrateSource, module: &ModulePath, block: &ItemImpl, home: &ModulePath, name: &str) -> bool {
    let Type::Path(path) = &*block.self_ty else {
        return false;
    };
    let Some(last) = path.path.segments.last() else {
        return false;
    };
    let is_derived = block
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("cfg"));
    !is_derived
        && matches!(
            source.meaning(module, &last.ident.to_string()),
            Some(ResolvedName::Item(at, found)) if at == *home && found == name
        )
}

/// Returns the public functions and constants of an impl block, with empty bodies.
fn methods(block: &ItemImpl) -> Vec<TokenStream> {
    let mut methods = Vec::new();
    for item in &block.items {
        match item {
            ImplItem::Fn(method) if is_public(&method.vis) => {
                let signature = &method.sig;
                methods.push(quote!(pub #signature {}));
            }
            ImplItem::Const(constant) if is_public(&constant.vis) => {
                let (name, kind) = (&constant.ident, &constant.ty);
                methods.push(quote!(pub const #name: #kind = _;));
            }
            _ => {}
        }
    }
    methods
}

fn is_named(item: &Item, name: &str) -> bool {
    match item {
        Item::Struct(item) => item.ident == name,
        Item::Enum(item) => item.ident == name,
        Item::Trait(item) => item.ident == name,
        Item::Type(item) => item.ident == name,
        Item::Const(item) => item.ident == name,
        Item::Fn(item) => item.sig.ident == name,
        _ => false,
    }
}

/// Keeps derives and `non_exhaustive`, which are visible to users, and drops all other attributes.
fn kept(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let is_seen = |attribute: &Attribute| {
        ["derive", "non_exhaustive"]
            .iter()
            .any(|name| attribute.path().is_ident(name))
    };
    attributes.into_iter().filter(is_seen).collect()
}

fn only_public(fields: &mut Fields) {
    match fields {
        Fields::Named(named) => {
            named.named = named
                .named
                .iter()
                .filter(|field| is_public(&field.vis))
                .cloned()
                .collect();
        }
        // The position of an unnamed field matters, so private ones stay, without their types.
        Fields::Unnamed(unnamed) if unnamed.unnamed.iter().all(|field| !is_public(&field.vis)) => {
            *fields = Fields::Unit;
        }
        Fields::Unnamed(_) | Fields::Unit => {}
    }
    fields.iter_mut().for_each(|field| field.attrs.clear());
}

/// Returns an item without documentation, private fields and function bodies.
fn stripped(item: Item) -> TokenStream {
    match item {
        Item::Struct(mut item) => {
            item.attrs = kept(item.attrs);
            only_public(&mut item.fields);
            item.semi_token = item.semi_token.or(Some(Default::default()));
            item.to_token_stream()
        }
        Item::Enum(mut item) => {
            item.attrs = kept(item.attrs);
            for variant in &mut item.variants {
                variant.attrs.clear();
                variant.fields.iter_mut().for_each(|field| field.attrs.clear());
            }
            item.to_token_stream()
        }
        Item::Trait(mut item) => {
            item.attrs = kept(item.attrs);
            for part in &mut item.items {
                if let TraitItem::Fn(method) = part {
                    method.attrs.clear();
                    if method.default.take().is_some() {
                        method.semi_token = Some(Default::default());
                    }
                }
            }
            item.to_token_stream()
        }
        Item::Type(mut item) => {
            item.attrs.clear();
            item.to_token_stream()
        }
        Item::Const(item) => {
            let (name, kind) = (&item.ident, &item.ty);
            quote!(pub const #name: #kind = _;)
        }
        Item::Fn(item) => {
            let signature = &item.sig;
            quote!(pub #signature {})
        }
        other => other.to_token_stream(),
    }
}

/// Returns the items of inner crates that the tokens mention but the crate does not re-export.
fn foreign(source: &CrateSource, module: &ModulePath, tokens: TokenStream) -> Vec<String> {
    let exported: Vec<String> = source
        .exports(&[])
        .unwrap_or_default()
        .into_iter()
        .filter_map(|export| match export.target {
            ResolvedName::Foreign(path) => Some(path),
            _ => None,
        })
        .collect();
    let mut names = Vec::new();
    identifiers(tokens, &mut names);
    names
        .into_iter()
        .filter_map(|name| {
            if name.starts_with("alluvium_") {
                return Some(name);
            }
            match source.meaning(module, &name)? {
                ResolvedName::Foreign(path) if path.starts_with("alluvium_") => Some(path),
                _ => None,
            }
        })
        // A crate may offer an item under several paths, whose last components agree.
        .filter(|path| {
            let last = |path: &str| path.rsplit("::").next().map(str::to_owned);
            !exported.iter().any(|known| last(known) == last(path))
        })
        .collect()
}

fn identifiers(tokens: TokenStream, names: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => names.push(name.to_string()),
            TokenTree::Group(group) => identifiers(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Formats items in rustfmt style.
fn pretty(items: TokenStream) -> Result<String> {
    let file: syn::File = syn::parse2(items).context("what is listed is not Rust")?;
    Ok(prettyplease::unparse(&file))
}
