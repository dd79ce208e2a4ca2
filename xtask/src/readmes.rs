//! The README of each published crate: the front page of its documentation, for people who find the crate in
//! a registry or browse the repository. `cargo xtask readmes` writes the files and `tidy` compares them, so
//! that nobody maintains a text twice.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::packages::{Package, published};

/// Writes the README of every published crate.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn write() -> Result<()> {
    for package in published()? {
        let path = package.folder.join("README.md");
        fs::write(&path, text(&package)?).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The READMEs that differ from the front page of their crate, as findings.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in published()? {
        let path = package.folder.join("README.md");
        if fs::read_to_string(&path).ok() != Some(text(&package)?) {
            findings.push(format!(
                "{}: differs from the front page of its crate; run `cargo xtask readmes`",
                path.display()
            ));
        }
    }
    Ok(findings)
}

fn text(package: &Package) -> Result<String> {
    let page = front_page(&package.folder.join("src/lib.rs"))?;
    let (name, repository) = (&package.name, &package.repository);
    Ok(format!(
        "<!-- Written by `cargo xtask readmes` from src/lib.rs. -->\n\n# {name}\n\n{}\nThis crate is part of \
         [arrayjit]({repository}), licensed under MIT or Apache-2.0 at your option.\n",
        markdown(&page)
    ))
}

/// The text of the `//!` comments and included documents at the top of a file.
fn front_page(path: &Path) -> Result<String> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let mut page = String::new();
    for line in read(path)?.lines() {
        let included = line.strip_prefix("#![doc = include_str!(\"").and_then(|l| l.strip_suffix("\")]"));
        if let Some(text) = line.strip_prefix("//!") {
            page.push_str(text.strip_prefix(' ').unwrap_or(text));
            page.push('\n');
        } else if let Some(included) = included {
            page.push_str(&read(&path.with_file_name(included))?);
        } else if !line.is_empty() && !line.starts_with("#!") {
            break;
        }
    }
    Ok(page)
}

/// Rewrites rustdoc's Markdown for other readers: headings one level lower, code marked as Rust and without
/// hidden lines, and links to items as plain names.
fn markdown(page: &str) -> String {
    // Every second part is a listing.
    let parts = page.split("```").enumerate();
    parts
        .map(|(at, part)| if at % 2 == 0 { prose(part) } else { format!("```{}```", listing(part)) })
        .collect()
}

fn prose(text: &str) -> String {
    let lower = |line: &str| if line.starts_with('#') { format!("#{line}") } else { line.to_owned() };
    without_item_links(&text.split('\n').map(lower).collect::<Vec<_>>().join("\n"))
}

/// The language and the lines between two fences.
fn listing(text: &str) -> String {
    let (language, lines) = text.split_once('\n').unwrap_or((text, ""));
    let language = if language.is_empty() { "rust" } else { language };
    let shown = lines.split('\n').filter(|line| *line != "#" && !line.starts_with("# "));
    format!("{language}\n{}", shown.collect::<Vec<_>>().join("\n"))
}

/// Replaces `[name]` and `[name](path::of::item)` by `name`. Links to pages stay.
fn without_item_links(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, label, target, after)) = first_link(rest) {
        result.push_str(before);
        match target {
            Some(page) if page.starts_with("http") => result.push_str(&format!("[{label}]({page})")),
            _ => result.push_str(label),
        }
        rest = after;
    }
    result + rest
}

/// The text before the first link, its label, its target if it is written out, and the text after it.
/// Brackets within code are no link.
fn first_link(text: &str) -> Option<(&str, &str, Option<&str>, &str)> {
    let mut in_code = false;
    let (start, _) = text.char_indices().find(|&(_, c)| {
        in_code ^= c == '`';
        c == '[' && !in_code
    })?;
    let (before, rest) = text.split_at(start);
    let (label, rest) = rest[1..].split_once(']')?;
    match rest.strip_prefix('(').and_then(|target| target.split_once(')')) {
        // A call in the target, as in `check()`, has parentheses of its own.
        Some((target, after)) if target.ends_with('(') => {
            Some((before, label, None, after.strip_prefix(')')?))
        }
        Some((target, after)) => Some((before, label, Some(target), after)),
        None => Some((before, label, None, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_items_become_names_and_links_to_pages_stay() {
        for (line, expected) in [
            ("[`run`] stops", "`run` stops"),
            ("[`check()`] and [`print`](mod@print).", "`check()` and `print`."),
            ("See [the verifier](lowered_ir::verify)!", "See the verifier!"),
            ("See [PTX](https://docs.nvidia.com/cuda).", "See [PTX](https://docs.nvidia.com/cuda)."),
            ("`y[i]` is code, [`x`] a link", "`y[i]` is code, `x` a link"),
            ("no link", "no link"),
            ("`; run:\nx` [`y`] and [a long\nname](x::y)", "`; run:\nx` `y` and a long\nname"),
        ] {
            assert_eq!(without_item_links(line), expected);
        }
    }

    #[test]
    fn code_loses_hidden_lines_and_headings_move_down() {
        let page = "First.\n\n# Example\n\n```\n# use x;\nlet y = a[0];\n# Ok(())\n```\n";
        assert_eq!(markdown(page), "First.\n\n## Example\n\n```rust\nlet y = a[0];\n```\n");
    }
}
