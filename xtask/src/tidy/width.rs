//! No line of a comment or of a Markdown document is wider than the limit for code, except in tables, links
//! and listings.

use anyhow::Result;

use super::{
    files::{TextFile, text_files},
    regions::{RegionKind, regions},
};

/// The most columns of a line, as `rustfmt.toml` has it for code.
const COLUMNS: usize = 110;

/// Findings about wide lines.
pub(super) fn check() -> Result<Vec<String>> {
    Ok(text_files(&crate::root())?.iter().flat_map(wide_lines).collect())
}

fn wide_lines(file: &TextFile) -> Vec<String> {
    let numbers = match file.path.rsplit_once('.') {
        Some((_, "rs")) => wide_comments(&file.text),
        Some((_, "md")) => wide_paragraphs(&file.text),
        _ => Vec::new(),
    };
    let finding = |number| format!("{}:{number}: more than {COLUMNS} columns", file.path);
    numbers.into_iter().map(finding).collect()
}

/// The numbers of the wide lines that contain a comment or a part of one.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for (_, range) in regions(text).into_iter().filter(|(kind, _)| *kind == RegionKind::Comment) {
        let first = text[..range.start].matches('\n').count() + 1;
        let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        for (offset, line) in text[start..range.end].lines().enumerate() {
            let content = line.trim_start().trim_start_matches(['/', '!', '*']).trim_start();
            if is_wide(line, content) {
                numbers.push(first + offset);
            }
        }
    }
    numbers
}

/// The numbers of the wide lines outside listings; listings are code or output of a program.
fn wide_paragraphs(text: &str) -> Vec<usize> {
    let mut in_listing = false;
    let mut numbers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_listing = !in_listing;
        } else if !in_listing && is_wide(line, line.trim_start()) {
            numbers.push(at + 1);
        }
    }
    numbers
}

/// Whether the line is too wide, without the targets of its links; rows of tables are not.
fn is_wide(line: &str, content: &str) -> bool {
    line.chars().count() > COLUMNS && !content.starts_with('|') && without_links(line) > COLUMNS
}

/// The width of the line in columns, without addresses and the targets of links.
fn without_links(line: &str) -> usize {
    let mut columns = line.chars().count();
    for start in ["](", "://", "]: "] {
        for (at, _) in line.match_indices(start) {
            let rest = &line[at + start.len()..];
            let length = rest.find([' ', ')', '>']).unwrap_or(rest.len());
            columns -= rest[..length].chars().count().min(columns);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_of_comments_and_documents_are_found() {
        let long = "word ".repeat(22);
        let narrow = "w".repeat(107);
        let file = |path: &str, text: String| TextFile { path: path.to_owned(), text };
        let lines = |path: &str, text: String| wide_lines(&file(path, text));
        assert_eq!(lines("a.rs", format!("// {long}x")), ["a.rs:1: more than 110 columns"]);
        assert_eq!(lines("a.rs", format!("// {narrow}")), [""; 0]);
        assert_eq!(lines("a.rs", format!("x;\n    f(); // {long}")), ["a.rs:2: more than 110 columns"]);
        assert_eq!(lines("a.rs", format!("/* x\n   {long}\n*/")), ["a.rs:2: more than 110 columns"]);
        assert_eq!(lines("a.md", format!("x\n\n{long}x")), ["a.md:3: more than 110 columns"]);
    }

    #[test]
    fn tables_links_and_code_may_be_wide() {
        let long = "word ".repeat(22);
        let address = "x".repeat(100);
        let lines = |path: &str, text: String| wide_lines(&TextFile { path: path.to_owned(), text });
        assert_eq!(
            lines("a.rs", format!("f(\"{long}\");\n/// | {long} |\n//! <https://{address}>")),
            [""; 0]
        );
        assert_eq!(
            lines("a.md", format!("| {long} |\nsee [this]({address})\n[a]: {address}yyyyyyyyy")),
            [""; 0]
        );
        assert_eq!(lines("a.md", format!("x\n```text\n{long}x\n```\n{long}x")).len(), 1);
        assert_eq!(lines("a.toml", format!("# {long}x")), [""; 0]);
        assert_eq!(lines("a.md", format!("{long} [this]({address})")).len(), 1);
    }
}
