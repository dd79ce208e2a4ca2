//! Checks that no two crates have public types of the same name, and that no public function begins with
//! `get_`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use syn::{Attribute, Ident, Item, Visibility};

use super::modules::collect;

/// Findings about public types that share their name, and about getters.
pub(super) fn check() -> Result<Vec<String>> {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut findings = Vec::new();
    for path in super::files::packages(&crate::root())? {
        let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files = Vec::new();
        collect(&path.join("src"), &mut files)?;
        for file in files {
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            findings.extend(getters(&text).map(|name| format!("{}: `{name}` is a getter", file.display())));
            let file = syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
            for name in file.items.iter().flat_map(public_types) {
                names.entry(name.to_string()).or_default().insert(own.clone());
            }
        }
    }
    findings.extend(shared(&names));
    Ok(findings)
}

/// The names of public functions that begin with `get_`.
fn getters(text: &str) -> impl Iterator<Item = &str> {
    let public = text.lines().filter(|line| line.trim_start().starts_with("pub "));
    let names = public.filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next());
    names.filter(|name| name.starts_with("get_"))
}

/// Reports each name that several crates share.
fn shared(names: &BTreeMap<String, BTreeSet<String>>) -> impl Iterator<Item = String> {
    names.iter().filter(|(_, crates)| crates.len() > 1).map(|(name, crates)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        format!("crates: the public type `{name}` is in {}", crates.join(", "))
    })
}

/// The names of the public types that an item defines, including items of a module in it, except tests.
fn public_types(item: &Item) -> Vec<&Ident> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Mod(item) if !item.attrs.iter().any(is_test) => {
            return item.content.iter().flat_map(|(_, items)| items).flat_map(public_types).collect();
        }
        _ => return Vec::new(),
    };
    if matches!(visibility, Visibility::Public(_)) { vec![name] } else { Vec::new() }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_crates_are_found() {
        let crates = |crates: &[&str]| crates.iter().map(|&own| own.to_owned()).collect();
        let names = [("Access", crates(&["a", "b"])), ("Only", crates(&["a"]))];
        let names: BTreeMap<String, BTreeSet<String>> =
            names.map(|(name, own)| (name.to_owned(), own)).into();
        assert_eq!(shared(&names).collect::<Vec<_>>(), ["crates: the public type `Access` is in a, b"]);
    }

    #[test]
    fn getters_are_found() {
        let text = "pub fn get_a() {}\n    pub const unsafe fn get_b<T>() {}\nfn get_c() {}\npub fn get() {}";
        assert_eq!(getters(text).collect::<Vec<_>>(), ["get_a", "get_b"]);
    }

    #[test]
    fn public_types_of_a_file() {
        let text = "pub struct A; pub(crate) struct B; struct C; pub mod m { pub enum D {} }
            #[cfg(test)] mod tests { pub struct E; } pub type F = u8; pub trait G { type H; } pub fn i() {}";
        let file = syn::parse_file(text).unwrap();
        let names: Vec<String> = file.items.iter().flat_map(public_types).map(Ident::to_string).collect();
        assert_eq!(names, ["A", "D", "F", "G"]);
    }
}
