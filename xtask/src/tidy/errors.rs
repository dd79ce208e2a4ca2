//! Every public error type prints its message as `Debug` too: its crate names it in `debug_as_display!`.
//!
//! The compiler checks the rest: every error type must implement `Debug`, and no type can implement it twice.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use syn::{Attribute, File, Ident, Item, Meta, Path as TypePath, Visibility};

use super::modules::collect;

/// The macro that implements `Debug` by `Display`.
const MACRO: &str = "debug_as_display";

/// Findings about public error types whose `Debug` shows fields.
pub(super) fn check() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in super::files::packages(&crate::root())? {
        findings.extend(check_crate(&package)?);
    }
    findings.sort();
    Ok(findings)
}

fn check_crate(folder: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    collect(&folder.join("src"), &mut paths)?;
    let mut files = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        files.push((path.strip_prefix(crate::root()).unwrap_or(&path).display().to_string(), file));
    }
    Ok(unprinted(&files))
}

/// Reports each public error type that none of the files names in [`MACRO`].
fn unprinted(files: &[(String, File)]) -> Vec<String> {
    let mut errors = BTreeMap::new();
    let mut printed = Vec::new();
    for (path, file) in files {
        let public: Vec<&Ident> = file.items.iter().filter_map(public_type).map(|(name, _)| name).collect();
        for item in &file.items {
            if let Some(name) = error_type(item, &public) {
                errors.insert(name.to_string(), path);
            }
            printed.extend(printed_types(item));
        }
    }
    errors.retain(|name, _| !printed.contains(name));
    let finding = |(name, path): (&String, &&String)| {
        format!("{path}: error `{name}` is not in `{MACRO}!` of its crate")
    };
    errors.iter().map(finding).collect()
}

/// The name of the error type that an item defines: a public type that derives `Error`, or one with an `impl`
/// of it.
fn error_type<'i>(item: &'i Item, public: &[&Ident]) -> Option<&'i Ident> {
    if let Item::Impl(item) = item {
        let (implemented, _) = item.trait_.as_ref()?;
        let syn::Type::Path(own) = &*item.self_ty else { return None };
        let own = &own.path.segments.last()?.ident;
        return (ends_with_error(implemented) && public.contains(&own)).then_some(own);
    }
    let (name, attributes) = public_type(item)?;
    attributes.iter().any(derives_error).then_some(name)
}

fn public_type(item: &Item) -> Option<(&Ident, &[Attribute])> {
    let (visibility, name, attributes) = match item {
        Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
        Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
        _ => return None,
    };
    matches!(visibility, Visibility::Public(_)).then_some((name, attributes))
}

fn derives_error(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let mut found = false;
    if list.path.is_ident("derive") {
        // The compiler reports a derive that does not parse.
        let _ = list.parse_nested_meta(|derived| {
            found |= ends_with_error(&derived.path);
            Ok(())
        });
    }
    found
}

fn ends_with_error(path: &TypePath) -> bool {
    path.segments.last().is_some_and(|last| last.ident == "Error")
}

/// The types that an item names in [`MACRO`], by their last segment.
fn printed_types(item: &Item) -> Vec<String> {
    let Item::Macro(item) = item else { return Vec::new() };
    if item.mac.path.segments.last().is_none_or(|last| last.ident != MACRO) {
        return Vec::new();
    }
    let arguments = item.mac.tokens.to_string();
    let last_segment = |path: &str| path.rsplit("::").next().unwrap_or(path).trim().to_owned();
    arguments.split(',').map(last_segment).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(texts: &[&str]) -> Vec<String> {
        let parsed = texts.iter().map(|text| ("a.rs".to_owned(), syn::parse_file(text).unwrap()));
        unprinted(&parsed.collect::<Vec<_>>())
    }

    #[test]
    fn errors_that_show_fields_are_found() {
        let derived = "#[derive(Debug, thiserror::Error)] #[error(\"x\")] pub enum Wrong { X }";
        assert_eq!(findings(&[derived]), ["a.rs: error `Wrong` is not in `debug_as_display!` of its crate"]);
        let by_hand = "#[derive(Debug)] pub struct Wrong(u8); impl std::error::Error for Wrong {}";
        assert_eq!(findings(&[by_hand]).len(), 1);
        assert_eq!(findings(&[derived, "tnode::debug_as_display!(Other, a::Others);"]).len(), 1);
    }

    #[test]
    fn errors_that_print_messages_pass() {
        let derived = "#[derive(Clone, thiserror::Error)] #[error(\"x\")] pub struct Wrong;";
        assert_eq!(findings(&[derived, "tnode::debug_as_display!(Other, parse::Wrong,);"]), [""; 0]);
        let private = "#[derive(Debug, thiserror::Error)] #[error(\"x\")] pub(crate) enum Reason { X }";
        assert_eq!(findings(&[private]), [""; 0]);
        assert_eq!(findings(&["#[derive(Debug)] pub struct Report;"]), [""; 0]);
    }
}
