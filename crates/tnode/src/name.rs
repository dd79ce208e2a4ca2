//! Identifiers for nodes: readable, valid in code, and stable from run to run.
//!
//! Everything here is a pure function of id, label and code name. A first label part `grad` marks a gradient.
//! A gradient without an identifier uses the id of the preceding node, because by convention that node is the
//! value whose gradient it is.

use std::collections::{BTreeMap, BTreeSet};

/// How a node is named in code and dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentStyle {
    /// `n12`.
    NameOnly,
    /// `n12_w`.
    NameAndLabel,
    /// The label alone if it is unambiguous, with gradients as `w.grad`.
    HeuristicDotGrad,
    /// The label alone if it is unambiguous, with gradients as `w_grad`.
    HeuristicUnderGrad,
}

/// Identifiers that must not be used without an id: identifiers that several nodes have, and reserved words
/// of a language.
#[derive(Clone, Debug, Default)]
pub struct AmbiguousIdents {
    values: BTreeSet<String>,
    gradients: BTreeSet<String>,
}

impl AmbiguousIdents {
    /// The identifiers that more than one of `labels` has, together with `reserved`.
    pub fn among<'a>(labels: impl IntoIterator<Item = &'a [String]>, reserved: &[&str]) -> AmbiguousIdents {
        let mut counts: BTreeMap<(bool, String), usize> = BTreeMap::new();
        for (is_grad, ident) in labels.into_iter().map(no_grad_ident_label) {
            if let Some(ident) = ident {
                *counts.entry((is_grad, ident)).or_default() += 1;
            }
        }
        let repeated = |grad| {
            let twice = counts.iter().filter(move |((g, _), n)| *g == grad && **n > 1);
            twice.map(|((_, ident), _)| ident.clone())
        };
        let values = repeated(false).chain(reserved.iter().map(|&word| word.to_owned())).collect();
        AmbiguousIdents { values, gradients: repeated(true).collect() }
    }
}

/// Whether the label marks a gradient, and the identifier its remaining parts make, if any.
///
/// Parts that are not alphanumeric are left out, repeats in a row become a count, parts that begin with a
/// digit go last, and an identifier that still begins with a digit gets a leading `_`.
pub(crate) fn no_grad_ident_label(label: &[String]) -> (bool, Option<String>) {
    let (is_grad, parts) = match label.split_first() {
        Some((first, rest)) if first == "grad" => (true, rest),
        _ => (false, label),
    };
    let usable = || parts.iter().map(String::as_str).filter(|part| is_ident_part(part));
    let (letters, digits) =
        (usable().filter(|part| !starts_with_digit(part)), usable().filter(|part| starts_with_digit(part)));
    let mut ordered = letters.chain(digits).peekable();
    let mut ident = String::new();
    while let Some(part) = ordered.next() {
        if !ident.is_empty() || starts_with_digit(part) {
            ident.push('_');
        }
        ident.push_str(part);
        let mut count = 1;
        while ordered.next_if_eq(&part).is_some() {
            count += 1;
        }
        if count > 1 {
            ident += &count.to_string();
        }
    }
    (is_grad, Some(ident).filter(|ident| !ident.is_empty()))
}

fn is_ident_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

fn starts_with_digit(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
}

/// The name for messages: the code name, else the label's identifier, else the id; gradients end in `.grad`.
pub(crate) fn debug_name(id: u64, label: &[String], code_name: Option<&str>) -> String {
    if let Some(code_name) = code_name {
        return match code_name.strip_suffix("_grad") {
            Some(value) => format!("{value}.grad"),
            None => code_name.to_owned(),
        };
    }
    let (is_grad, ident) = no_grad_ident_label(label);
    let base = ident.unwrap_or_else(|| format!("n{}", value_id(id, is_grad)));
    if is_grad { base + ".grad" } else { base }
}

fn value_id(id: u64, is_grad: bool) -> u64 {
    if is_grad { id.saturating_sub(1) } else { id }
}

/// The identifier of a node in the given style.
pub(crate) fn styled_ident(
    id: u64,
    label: &[String],
    style: IdentStyle,
    ambiguous: &AmbiguousIdents,
) -> String {
    let (is_grad, ident) = no_grad_ident_label(label);
    let suffix = match style {
        IdentStyle::NameOnly => return format!("n{id}"),
        IdentStyle::NameAndLabel => {
            let grad = if is_grad { "_grad" } else { "" };
            return ident.map_or_else(|| format!("n{id}{grad}"), |ident| format!("n{id}_{ident}{grad}"));
        }
        IdentStyle::HeuristicDotGrad if is_grad => ".grad",
        IdentStyle::HeuristicUnderGrad if is_grad => "_grad",
        IdentStyle::HeuristicDotGrad | IdentStyle::HeuristicUnderGrad => "",
    };
    let id = value_id(id, is_grad);
    let repeated = if is_grad { &ambiguous.gradients } else { &ambiguous.values };
    match ident {
        None => format!("n{id}{suffix}"),
        Some(ident) if repeated.contains(&ident) => format!("n{id}_{ident}{suffix}"),
        Some(ident) => ident + suffix,
    }
}
