//! No file uses a retired phrase, and no type, module or file has a retired name.
//!
//! The table of `retired.md` is the data.
//!
//! A *phrase* is looked for in comments, string literals, documents, identifiers and file names, regardless
//! of case and of line ends; its last word may have a plural `s`. An identifier contains a phrase if its
//! words do: `copy_engine` and `CopyEngine` contain "copy engine". Words of two identifiers never form a
//! phrase. A *type* is the exact name of a type or trait, where it is defined. A *module* is the exact name
//! of a module where it is declared, or of a Rust file or a folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
};

use anyhow::{Context, Result, bail};

use super::{
    files::{TextFile, text_files},
    regions::{RegionKind, regions},
};

const TABLE: &str = "xtask/src/tidy/retired.md";
/// The path of this file, which is not checked, since its tests contain retired phrases.
const OWN_SOURCE: &str = "xtask/src/tidy/retired.rs";
/// Keywords that the name of a type follows where it is defined.
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];
/// The keyword that the name of a module follows where it is declared.
const MODULE_KEYWORDS: &[&str] = &["mod"];
/// Characters that may stand between two words of a phrase: spaces, line ends and comment markers.
const GAP: &[char] = &[' ', '\n', '\r', '\t', '/', '!', '\\', '-', '_', '#', ';', '>'];

/// The pattern of a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// Words in lower case, in sequence.
    Phrase(Vec<String>),
    /// The exact name of a type or trait.
    Type(String),
    /// The exact name of a module, Rust file or folder.
    Module(String),
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RetiredEntry {
    pattern: Pattern,
    replacement: String,
    reason: String,
}

impl fmt::Display for RetiredEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Phrase(words) => write!(f, "phrase \"{}\"", words.join(" "))?,
            Pattern::Type(name) => write!(f, "type `{name}`")?,
            Pattern::Module(name) => write!(f, "module `{name}`")?,
        }
        write!(f, " is retired, use {} ({})", self.replacement, self.reason)
    }
}

/// Findings about each use of a retired phrase or name.
pub(super) fn check() -> Result<Vec<String>> {
    let entries = table()?;
    let found = uses(&entries)?;
    Ok(found.into_iter().map(|(entry, place)| format!("{place}: {}", entries[entry])).collect())
}

/// The position of an entry, and where it is used as `path:line` or `path`.
type EntryUse = (usize, String);

fn uses(entries: &[RetiredEntry]) -> Result<Vec<EntryUse>> {
    let phrases = phrases(entries);
    let mut found = Vec::new();
    for file in text_files(&crate::root())? {
        if file.path != TABLE && file.path != OWN_SOURCE {
            found.extend(uses_in(entries, &phrases, &file));
        }
    }
    Ok(found)
}

fn table() -> Result<Vec<RetiredEntry>> {
    let path = crate::root().join(TABLE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {TABLE}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<RetiredEntry>> {
    let mut table = Vec::new();
    let mut section = "";
    for (number, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let Some(row) = line.strip_prefix("| ") else { continue };
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        if cells.first() == Some(&"Kind") {
            continue;
        }
        let entry = entry(&cells).with_context(|| format!("{TABLE}:{}", number + 1))?;
        if section != "Retired" {
            bail!("{TABLE}:{}: a row outside the section Retired", number + 1);
        }
        table.push(entry);
    }
    Ok(table)
}

fn entry(cells: &[&str]) -> Result<RetiredEntry> {
    let &[kind, name, replacement, reason] = cells else { bail!("a row of {} cells", cells.len()) };
    if name.is_empty() || replacement.is_empty() || reason.is_empty() {
        bail!("an empty cell");
    }
    let pattern = match kind {
        "phrase" => Pattern::Phrase(name.split_whitespace().map(str::to_lowercase).collect()),
        "type" => Pattern::Type(name.trim_matches('`').to_owned()),
        "module" => Pattern::Module(name.trim_matches('`').to_owned()),
        _ => bail!("`{kind}` is no kind"),
    };
    Ok(RetiredEntry { pattern, replacement: replacement.to_owned(), reason: reason.to_owned() })
}

/// Phrases by their first word, each with the position of its entry; phrases of one word by their plural too.
type Phrases<'e> = BTreeMap<String, Vec<(usize, &'e [String])>>;

fn phrases(entries: &[RetiredEntry]) -> Phrases<'_> {
    let mut phrases = Phrases::new();
    for (at, entry) in entries.iter().enumerate() {
        let Pattern::Phrase(phrase) = &entry.pattern else { continue };
        let Some(first) = phrase.first() else { continue };
        phrases.entry(first.clone()).or_default().push((at, phrase));
        if phrase.len() == 1 {
            phrases.entry(format!("{first}s")).or_default().push((at, phrase));
        }
    }
    phrases
}

fn uses_in(entries: &[RetiredEntry], phrases: &Phrases<'_>, file: &TextFile) -> Vec<EntryUse> {
    let mut found: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (start, segment) in segments(file) {
        found.extend(phrases_in(segment, phrases).map(|(at, entry)| (start + at, entry)));
    }
    let (types, modules) = (definitions(file, TYPE_KEYWORDS), definitions(file, MODULE_KEYWORDS));
    for (entry, RetiredEntry { pattern, .. }) in entries.iter().enumerate() {
        let (definitions, name) = match pattern {
            Pattern::Phrase(_) => continue,
            Pattern::Type(name) => (&types, name),
            Pattern::Module(name) => (&modules, name),
        };
        found.extend(definitions.iter().filter(|(_, own)| own == name).map(|(at, _)| (*at, entry)));
    }
    let line = |at: usize| file.text[..at].matches('\n').count() + 1;
    let mut uses: Vec<EntryUse> =
        found.into_iter().map(|(at, entry)| (entry, format!("{}:{}", file.path, line(at)))).collect();
    uses.extend(names_in(entries, phrases, &file.path).into_iter().map(|entry| (entry, file.path.clone())));
    uses.dedup();
    uses
}

/// The entries that the names of the path's folders and file contain.
fn names_in(entries: &[RetiredEntry], phrases: &Phrases<'_>, path: &str) -> BTreeSet<usize> {
    let stems = path.split('/').map(|name| name.split('.').next().unwrap_or(name));
    let mut found = BTreeSet::new();
    for stem in stems {
        found.extend(phrases_in(stem, phrases).map(|(_, entry)| entry));
        if path.ends_with(".rs") {
            let is_module =
                |entry: &RetiredEntry| matches!(&entry.pattern, Pattern::Module(name) if name == stem);
            found.extend((0..entries.len()).filter(|at| is_module(&entries[*at])));
        }
    }
    found
}

/// The texts in which phrases are looked for, each with its offset. In a Rust file these are the identifiers,
/// the string literals and the runs of comments; any other file is a single text.
fn segments(file: &TextFile) -> Vec<(usize, &str)> {
    let text = &file.text;
    if !file.path.ends_with(".rs") {
        return vec![(0, text)];
    }
    let mut segments: Vec<(usize, &str)> = Vec::new();
    let mut comment: Option<Range<usize>> = None;
    for (kind, range) in regions(text) {
        match kind {
            RegionKind::Comment => match &mut comment {
                Some(comment) => comment.end = range.end,
                None => comment = Some(range),
            },
            RegionKind::Code if text[range.clone()].trim().is_empty() => {}
            RegionKind::Code | RegionKind::Text => {
                segments.extend(comment.take().map(|range| (range.start, &text[range])));
                if kind == RegionKind::Text {
                    segments.push((range.start, &text[range]));
                } else {
                    segments.extend(identifiers(text, range));
                }
            }
        }
    }
    segments.extend(comment.map(|range| (range.start, &text[range])));
    segments
}

fn identifiers(text: &str, range: Range<usize>) -> impl Iterator<Item = (usize, &str)> {
    let code = &text[range.clone()];
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(move |word| (range.start + (word.as_ptr() as usize - code.as_ptr() as usize), word))
}

/// The names that follow one of the keywords in a Rust file, each with its offset.
fn definitions<'f>(file: &'f TextFile, keywords: &[&str]) -> Vec<(usize, &'f str)> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut names = Vec::new();
    for (kind, range) in regions(&file.text) {
        if kind == RegionKind::Code {
            let words: Vec<(usize, &str)> = identifiers(&file.text, range).collect();
            let pairs = words.windows(2).filter(|pair| keywords.contains(&pair[0].1));
            names.extend(pairs.map(|pair| pair[1]));
        }
    }
    names
}

/// A word of a text.
struct TextWord {
    /// The bytes of the text that it takes.
    range: Range<usize>,
    /// The word in lower case.
    text: String,
}

/// The words of a text. `copyEngine2` has the words "copy" and "engine2".
fn words(text: &str) -> Vec<TextWord> {
    let mut words: Vec<TextWord> = Vec::new();
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        let is_first = !is_letter(last) || (c.is_uppercase() && last.is_lowercase());
        if is_letter(c) {
            if is_first {
                words.push(TextWord { range: at..at, text: String::new() });
            }
            if let Some(word) = words.last_mut() {
                word.range.end = at + c.len_utf8();
                word.text.extend(c.to_lowercase());
            }
        }
        last = c;
    }
    words
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '\''
}

/// The offsets at which phrases stand, with the positions of their entries.
fn phrases_in(text: &str, phrases: &Phrases<'_>) -> impl Iterator<Item = (usize, usize)> {
    let words = words(text);
    let is_gap = |pair: &[TextWord]| {
        let gap = &text[pair[0].range.end..pair[1].range.start];
        gap.chars().all(|c| GAP.contains(&c))
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        for (entry, phrase) in phrases.get(&word.text).into_iter().flatten() {
            let Some(window) = words.get(at..at + phrase.len()) else { continue };
            if is_phrase(window, phrase) && window.windows(2).all(is_gap) {
                found.push((word.range.start, *entry));
            }
        }
    }
    found.into_iter()
}

/// Whether the words match the phrase; the last one may have a plural `s`.
fn is_phrase(words: &[TextWord], phrase: &[String]) -> bool {
    let Some((last, others)) = phrase.split_last() else { return false };
    let Some((last_word, other_words)) = words.split_last() else { return false };
    let is_last = last_word.text == *last || last_word.text.strip_suffix('s') == Some(last);
    is_last && other_words.iter().map(|word| &word.text).eq(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "## Retired\n\n| Kind | Retired | Use | Reason |\n|---|---|---|---|\n\
        | phrase | copy engine | TMA | the vendor's name |\n\
        | phrase | in step | lockstep | the field's word |\n\
        | type | `Shelf` | `StagingTile` | private |\n\
        | module | `shelf` | `staging_tile` | private |\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let entries = parse(DATA).unwrap();
        let uses = uses_in(&entries, &phrases(&entries), &file);
        uses.into_iter().map(|(entry, place)| format!("{place}: {}", entries[entry])).collect()
    }

    #[test]
    fn phrases_are_found_wherever_they_stand() {
        let expected = ["a.rs:1: phrase \"copy engine\" is retired, use TMA (the vendor's name)"];
        for text in [
            "// Copy engines copy.",
            "/// by the copy\n/// engine",
            "/* copy\n * copy\n engine */",
            "fn copy_engine_of() {}",
            "struct CopyEngine;",
            "f(\"the copy-engine\");",
            "f(\"the copy \\\n    engine\");",
        ] {
            let found = findings("a.rs", text);
            assert!(found.len() == 1 && found[0].ends_with(&expected[0][8..]), "{text}: {found:?}");
        }
        assert_eq!(findings("a.rs", "// x\n\n// y, copy engine")[0].split(' ').next(), Some("a.rs:3:"));
        assert_eq!(findings("docs/a.md", "The copy\nengine.").len(), 1);
        assert_eq!(findings("crates/copy_engine/src/lib.rs", "").len(), 1);
    }

    #[test]
    fn words_that_form_no_phrase_pass() {
        for text in [
            "for step in steps { f(in_steps) }",
            "// a copy. Engines run",
            "// one step in\nlet step = 1;",
            "fn copy() {} // engine",
            "// instep",
            "f(copy, engine)",
        ] {
            let found = findings("a.rs", text);
            let names = text.contains("in_steps");
            assert_eq!(found.len(), usize::from(names), "{text}: {found:?}");
        }
        assert_eq!(findings("a.rs", "for x in step {}"), [""; 0]);
    }

    #[test]
    fn types_and_modules_are_found_where_they_are_defined() {
        for text in ["struct Shelf(u8);", "pub(crate) enum Shelf {}", "type Shelf = u8;", "trait Shelf {}"] {
            let found = findings("a.rs", text);
            assert_eq!(found, ["a.rs:1: type `Shelf` is retired, use `StagingTile` (private)"], "{text}");
        }
        for text in
            ["use a::Shelf;", "// struct Shelf", "enum A { Shelf }", "struct Shelfs;", "fn shelf() {}"]
        {
            assert_eq!(findings("a.rs", text), [""; 0], "{text}");
        }
        assert_eq!(findings("a.rs", "pub mod shelf;").len(), 1);
        assert_eq!(findings("a/shelf.rs", "").len(), 1);
        assert_eq!(findings("a/shelf/b.rs", "").len(), 1);
        assert_eq!(findings("a/shelf.lir", ""), [""; 0]);
    }

    #[test]
    fn defects_of_the_table_are_errors() {
        let row = |row: &str| parse(&format!("## Retired\n{row}\n"));
        assert_eq!(parse(DATA).unwrap().len(), 4);
        assert!(row("| phrase | a | b |").is_err());
        assert!(row("| phrase | a | | c |").is_err());
        assert!(row("| word | a | b | c |").is_err());
        assert!(parse("| phrase | a | b | c |").is_err());
    }

    #[test]
    fn the_table_reads() {
        let entries = table().unwrap();
        assert!(entries.len() > 50, "{}", entries.len());
        for (at, entry) in entries.iter().enumerate() {
            assert!(!entries[..at].iter().any(|other| other.pattern == entry.pattern), "twice: {entry}");
        }
    }
}
