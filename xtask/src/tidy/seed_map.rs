//! Checks the tables of `docs/seed-map.md` against the sources: the files that a row names define the items
//! of that row.
//!
//! A row has three cells: names of the original interface, their counterparts here, and the test that proves
//! the correspondence. The second cell is a list of paths in backticks, each followed by the names of items,
//! as `Type`, `Type::member`, `function` or `module`. The items are public, so that a reader can use them. A
//! row without items says why, beginning with *not here*. That the tests exist is checked in every document;
//! here, each of them must mention an item of its row by the item's own name, or a word that the third cell
//! lists after *through*: a name by which the tests reach the items, such as that of an operator's function.
//! A test mentions what it and the functions that it calls in its file mention.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use syn::{ImplItem, Item, TraitItem, Type, Visibility};

use super::{
    cited::Functions,
    docs::{ROOTS, named_tests},
};

const DOCUMENT: &str = "docs/seed-map.md";

/// The names that each file defines, for the files read so far.
type SourceNames = BTreeMap<String, PublicNames>;

/// Names, each with whether it is public: an item if it has `pub`, a member if it and its owner are public.
type PublicNames = BTreeMap<String, bool>;

/// Findings about rows that name missing or private items.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let text = std::fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("reading {DOCUMENT}"))?;
    check_text(&text, &root, &Functions::read(&root)?)
}

fn check_text(text: &str, root: &Path, functions: &Functions) -> Result<Vec<String>> {
    let mut sources = SourceNames::new();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        for wrong in check_row(line, root, functions, &mut sources)? {
            findings.push(format!("{DOCUMENT}:{}: {wrong}", number + 1));
        }
    }
    Ok(findings)
}

/// The findings about a row; none for the head of a table.
fn check_row(
    line: &str,
    root: &Path,
    functions: &Functions,
    sources: &mut SourceNames,
) -> Result<Vec<String>> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [names, here, proof] = cells[..] else {
        return Ok(vec![format!("a row of {} cells, not of 3", cells.len())]);
    };
    if names.starts_with("---") || here == "Here" {
        return Ok(vec![]);
    }
    let mut wrong = Vec::new();
    if !names.contains('`') {
        wrong.push("the first cell names nothing".to_owned());
    }
    let items = items(here);
    if items.is_empty() && !here.starts_with("not here: ") {
        wrong.push("the second cell has no item, and does not say why there is none".to_owned());
    }
    if !items.is_empty() && named_tests(proof).is_empty() {
        wrong.push("the third cell names no test".to_owned());
    }
    for test in named_tests(proof).into_iter().filter(|_| !items.is_empty()) {
        if !functions.mentions(test, &names_of(&items, proof)) {
            wrong.push(format!("test `{test}` mentions no item of the row"));
        }
    }
    for (path, item) in items {
        let source = root.join(path);
        if !source.is_file() {
            wrong.push(format!("`{path}` is no file"));
            continue;
        }
        match is_public(defined(path, &source, sources)?, item) {
            None => wrong.push(format!("`{path}` does not define `{item}`")),
            Some(false) => wrong.push(format!("`{item}` of `{path}` is not public")),
            Some(true) => {}
        }
    }
    Ok(wrong)
}

/// The items of a cell, each with the path before it.
fn items(cell: &str) -> Vec<(&str, &str)> {
    let mut path = None;
    let mut items = Vec::new();
    for word in cell.split('`').skip(1).step_by(2) {
        if ROOTS.iter().any(|root| word.starts_with(root)) {
            path = Some(word);
        } else if let Some(path) = path {
            items.push((path, word));
        }
    }
    items
}

/// The names by which a test may mention the items of a row: their last parts, and the words of the third
/// cell after *through*.
fn names_of<'r>(items: &[(&str, &'r str)], proof: &'r str) -> Vec<&'r str> {
    let own = items.iter().map(|(_, item)| item.rsplit("::").next().unwrap_or_default());
    let through = proof.split_once("; through ").map_or("", |(_, words)| words);
    own.chain(through.split('`').skip(1).step_by(2)).collect()
}

/// Whether the item is public, if it is defined.
fn is_public(names: &PublicNames, item: &str) -> Option<bool> {
    let own = *names.get(item)?;
    // The owner of the member may be defined in another file.
    let owner = item.split_once("::").and_then(|(owner, _)| names.get(owner));
    Some(own && owner.copied().unwrap_or(true))
}

fn defined<'s>(path: &str, source: &Path, sources: &'s mut SourceNames) -> Result<&'s PublicNames> {
    if !sources.contains_key(path) {
        let text = std::fs::read_to_string(source).with_context(|| format!("reading {path}"))?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {path}"))?;
        let mut names = PublicNames::new();
        file.items.iter().for_each(|item| enter(item, &mut names));
        sources.insert(path.to_owned(), names);
    }
    Ok(&sources[path])
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Adds the names that an item defines: its own, and its members as `Type::member`.
fn enter(item: &Item, names: &mut PublicNames) {
    let mut member = |owner: &dyn ToString, name: &dyn ToString, public: bool| {
        let name = format!("{}::{}", owner.to_string(), name.to_string());
        *names.entry(name).or_default() |= public;
    };
    let own = match item {
        Item::Fn(item) => Some((item.sig.ident.to_string(), is_pub(&item.vis))),
        Item::Const(item) => Some((item.ident.to_string(), is_pub(&item.vis))),
        Item::Static(item) => Some((item.ident.to_string(), is_pub(&item.vis))),
        Item::Type(item) => Some((item.ident.to_string(), is_pub(&item.vis))),
        Item::Struct(item) => {
            let fields = item.fields.iter().filter_map(|field| Some((field.ident.as_ref()?, &field.vis)));
            fields.for_each(|(field, visibility)| member(&item.ident, field, is_pub(visibility)));
            Some((item.ident.to_string(), is_pub(&item.vis)))
        }
        Item::Enum(item) => {
            item.variants.iter().for_each(|variant| member(&item.ident, &variant.ident, true));
            Some((item.ident.to_string(), is_pub(&item.vis)))
        }
        Item::Trait(item) => {
            item.items.iter().filter_map(of_trait).for_each(|name| member(&item.ident, &name, true));
            Some((item.ident.to_string(), is_pub(&item.vis)))
        }
        Item::Impl(item) => {
            if let Some(owner) = self_name(&item.self_ty) {
                let of_trait = item.trait_.is_some();
                let members = item.items.iter().filter_map(of_impl);
                members.for_each(|(name, public)| member(&owner, &name, public || of_trait));
            }
            None
        }
        Item::Mod(item) => {
            item.content.iter().flat_map(|(_, items)| items).for_each(|item| enter(item, names));
            Some((item.ident.to_string(), is_pub(&item.vis)))
        }
        // A macro that defines items names them in its arguments.
        Item::Macro(item) => {
            let arguments = item.mac.tokens.to_string();
            let words = arguments.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.extend(words.filter(|word| !word.is_empty()).map(|word| (word.to_owned(), true)));
            item.ident.as_ref().map(|ident| (ident.to_string(), true))
        }
        _ => None,
    };
    names.extend(own);
}

fn self_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    Some(path.path.segments.last()?.ident.to_string())
}

fn of_trait(item: &TraitItem) -> Option<String> {
    match item {
        TraitItem::Fn(item) => Some(item.sig.ident.to_string()),
        TraitItem::Type(item) => Some(item.ident.to_string()),
        TraitItem::Const(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn of_impl(item: &ImplItem) -> Option<(String, bool)> {
    match item {
        ImplItem::Fn(item) => Some((item.sig.ident.to_string(), is_pub(&item.vis))),
        ImplItem::Type(item) => Some((item.ident.to_string(), is_pub(&item.vis))),
        ImplItem::Const(item) => Some((item.ident.to_string(), is_pub(&item.vis))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str) -> Vec<String> {
        let table = format!("| Name | Here | Proof |\n|---|---|---|\n{row}\n");
        let mut functions = Functions::default();
        functions.add("fn t() { x(nothing, named_tests, Fn, check_row) } fn u() { Padding.and(wait) }");
        check_text(&table, &crate::root(), &functions).unwrap()
    }

    #[test]
    fn rows_that_are_true_pass() {
        let here =
            "`crates/tnode/src/padding.rs` `Padding`, `MAX_RANK`; `crates/tnode/src/registry.rs` `Registry`";
        assert_eq!(findings(&format!("| `a` | {here} | test `u` |")), [""; 0]);
        let driver = "`crates/device-runtime/src/driver.rs` `Driver::wait`, `Location::offset`, `WaitKind::Data`, `PoolHandle`";
        assert_eq!(findings(&format!("| `a`, `b` | {driver} | tests `t`, `u`; through `x` |")), [""; 0]);
        assert_eq!(findings("| `a` | not here: nobody needs it | |"), [""; 0]);
    }

    #[test]
    fn each_defect_of_a_row_is_found() {
        let (file, public) = ("`xtask/src/tidy/seed_map.rs`", "`crates/tnode/src/padding.rs` `Padding`");
        let rows = [
            ("| `a` | `xtask/src/tidy/nowhere.rs` `x` | test `t` |".to_owned(), "is no file"),
            (format!("| `a` | {file} `nothing` | test `t` |"), "does not define `nothing`"),
            // The file uses the function and does not define it.
            (format!("| `a` | {file} `named_tests` | test `t` |"), "does not define `named_tests`"),
            (format!("| `a` | {file} `Item::Fn` | test `t` |"), "does not define `Item::Fn`"),
            (
                format!("| `a` | {file} `check_row` | test `t` |"),
                "`check_row` of `xtask/src/tidy/seed_map.rs` is not public",
            ),
            (format!("| `a` | {public} | by its type |"), "names no test"),
            (format!("| `a` | {public} | tests `t`, `u` |"), "test `t` mentions no item of the row"),
            (format!("| `a` | {public} | tests `t`, `u`; through `y` |"), "test `t` mentions no item"),
            (format!("| `a` | {file} | test `t` |"), "has no item"),
            ("| `a` | somewhere | test `t` |".to_owned(), "has no item"),
            (format!("| a | {public} | test `u` |"), "names nothing"),
            ("| `a` | not here: it is not |".to_owned(), "a row of 2 cells"),
        ];
        for (row, expected) in rows {
            let findings = findings(&row);
            assert!(findings.len() == 1 && findings[0].contains(expected), "{row}: {findings:?}");
            assert!(findings[0].starts_with("docs/seed-map.md:3: "), "{findings:?}");
        }
    }
}
