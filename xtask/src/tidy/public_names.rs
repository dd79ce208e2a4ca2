//! Checks that no two crates have public types of the same name, and that no public function begins with
//! `get_`. The exceptions are names that parallel crates, such as the drivers, share for a reason.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use syn::{Attribute, Ident, Item, Visibility};

use super::modules::collect;

/// A name that several crates may have, with these crates and the reason.
type Exception = (&'static str, &'static [&'static str], &'static str);

const EXCEPTIONS: &[Exception] = &[
    (
        "Config",
        &["device-cuda", "device-wgpu", "scheduler-multicore"],
        "each driver has one, and a program opens a device with that of its driver's crate",
    ),
    (
        "Error",
        &["arrayjit-tensor", "tnode"],
        "each is the only error of its crate, with which programs name it, as they do with those of `std`",
    ),
    (
        "OpenError",
        &["arrayjit", "device-cuda", "device-wgpu"],
        "each has the reasons why its own device does not open",
    ),
    (
        "Routine",
        &["arrayjit", "lowered-ir"],
        "a program links and runs one; the compiler transforms the other, which has the same name, nodes and symbols",
    ),
    ("Rendered", &["codegen-ptx", "codegen-wgsl"], "each codegen of texts has the texts of its own language"),
];

/// Findings about public types that share their name, about exceptions without use, and about getters.
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
    findings.extend(shared(&names, EXCEPTIONS));
    Ok(findings)
}

/// The names of public functions that begin with `get_`.
fn getters(text: &str) -> impl Iterator<Item = &str> {
    let public = text.lines().filter(|line| line.trim_start().starts_with("pub "));
    let names = public.filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next());
    names.filter(|name| name.starts_with("get_"))
}

/// Reports each name that several crates share without an exception, and each crate of an exception that has
/// no public type of the exception's name.
fn shared(names: &BTreeMap<String, BTreeSet<String>>, exceptions: &[Exception]) -> Vec<String> {
    let is_allowed = |name: &str, crates: &BTreeSet<String>| {
        let mut exceptions = exceptions.iter().filter(|(own, ..)| *own == name);
        exceptions.any(|(_, allowed, _)| crates.iter().all(|own| allowed.contains(&own.as_str())))
    };
    let several = |name: &&String| names[*name].len() > 1;
    let mut findings: Vec<String> = names
        .keys()
        .filter(several)
        .filter(|name| !is_allowed(name, &names[*name]))
        .map(|name| {
            let crates: Vec<&str> = names[name].iter().map(String::as_str).collect();
            format!("crates: the public type `{name}` is in {}", crates.join(", "))
        })
        .collect();
    for (name, crates, _) in exceptions {
        let holders = names.get(*name);
        for own in crates.iter().filter(|own| !holders.is_some_and(|holders| holders.contains(**own))) {
            findings.push(format!("xtask/src/tidy/public_names.rs: `{own}` has no public type `{name}`"));
        }
    }
    findings
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

    fn names(rows: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let crates = |crates: &[&str]| crates.iter().map(|&own| own.to_owned()).collect();
        rows.iter().map(|(name, own)| ((*name).to_owned(), crates(own))).collect()
    }

    #[test]
    fn names_of_two_crates_are_found() {
        let names = names(&[("Access", &["a", "b"]), ("Stream", &["c", "d"]), ("Only", &["a"])]);
        let exceptions: &[Exception] = &[("Stream", &["c", "d"], "parallel drivers")];
        assert_eq!(shared(&names, exceptions), ["crates: the public type `Access` is in a, b"]);
        assert_eq!(shared(&names, &[]).len(), 2);
    }

    #[test]
    fn exceptions_are_as_narrow_as_can_be() {
        let names = names(&[("Stream", &["a", "c", "d"])]);
        let narrow: &[Exception] = &[("Stream", &["c", "d"], "parallel drivers")];
        assert_eq!(shared(&names, narrow), ["crates: the public type `Stream` is in a, c, d"]);
        let wide: &[Exception] = &[("Stream", &["a", "b", "c", "d"], "parallel drivers")];
        assert_eq!(shared(&names, wide), ["xtask/src/tidy/public_names.rs: `b` has no public type `Stream`"]);
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
