//! Divides a test file into test lines, routines and sections.

use std::path::{Path, PathBuf};

use lowered_ir::text::{ParseError, ParsedRoutine, parse_file};

/// The beginning of a section's first line.
const SECTION: &str = "; ---- ";

/// A test file.
#[derive(Clone, Debug)]
pub struct File {
    /// The path of the file.
    pub path: PathBuf,
    /// Everything before the sections, without blank lines at the end.
    pub source: String,
    /// The requested tests, in order.
    pub tests: Vec<TestLine>,
    /// The expected texts, in order.
    pub sections: Vec<Section>,
}

/// A `test` line, which requests a test of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestLine {
    /// The words after `test `, single-spaced; also the title of the test's section.
    pub title: String,
}

/// The expected text of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The title of the test it belongs to.
    pub title: String,
    /// The text, without blank lines around it.
    pub text: String,
}

/// A routine of a file with the annotations up to the next routine. Chunks are parsed separately, so that
/// each may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'f> {
    /// The line of the file where the text begins, counted from 1.
    pub first_line: usize,
    /// The text of the routine and its annotations.
    pub text: &'f str,
}

impl TestLine {
    /// The kind of test and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.title.split(' ')
    }
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(path: &Path) -> std::io::Result<File> {
        Ok(File::new(path, &std::fs::read_to_string(path)?))
    }

    /// Divides a file's text into its parts.
    pub fn new(path: impl Into<PathBuf>, text: &str) -> File {
        let (source, sections) = match find_line(text, |line| line.starts_with(SECTION)) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        File {
            path: path.into(),
            source: source.trim_end().to_owned(),
            tests: test_lines(source),
            sections: split_sections(sections),
        }
    }

    /// The chunks of the file, each with one unparsed routine.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let mut rest = find_line(&self.source, starts_routine).unwrap_or(self.source.len());
        std::iter::from_fn(move || {
            let text = self.source.get(rest..).filter(|text| !text.is_empty())?;
            let first_line = self.source[..rest].matches('\n').count() + 1;
            let after_first = text.find('\n').map_or(text.len(), |newline| newline + 1);
            let len =
                find_line(&text[after_first..], starts_routine).map_or(text.len(), |at| after_first + at);
            rest += len;
            Some(Chunk { first_line, text: &text[..len] })
        })
    }

    /// The parsed routines, with line numbers of the file.
    ///
    /// # Errors
    ///
    /// The first chunk that does not parse.
    pub fn routines(&self) -> Result<Vec<ParsedRoutine>, ParseError> {
        self.chunks().map(Chunk::parse).collect()
    }

    /// The text of the file with these sections instead of its own.
    pub fn with_sections(&self, sections: &[Section]) -> String {
        let mut text = format!("{}\n", self.source);
        for section in sections {
            text.push_str(&format!("\n{SECTION}{}\n{}\n", section.title, section.text.trim_end()));
        }
        text
    }
}

impl<'f> Chunk<'f> {
    /// Parses the routine, with line numbers of the file.
    ///
    /// # Errors
    ///
    /// The chunk does not parse.
    pub fn parse(self) -> Result<ParsedRoutine, ParseError> {
        let padded = format!("{}{}", "\n".repeat(self.first_line - 1), self.text);
        let mut routines = parse_file(&padded)?;
        match routines.len() {
            1 => Ok(routines.remove(0)),
            found => Err(ParseError {
                line: self.first_line,
                column: 1,
                expected: "one routine from here to the next line that begins with `routine`".into(),
                found: found.to_string(),
                source_line: String::new(),
                caret: 0,
            }),
        }
    }

    /// The comments of the chunk that begin with `word` and a colon: their lines, and the text after the
    /// colon.
    pub fn annotations(self, word: &str) -> impl Iterator<Item = (usize, &'f str)> {
        let lines = self.text.lines().enumerate().map(move |(i, line)| (self.first_line + i, line));
        lines.filter_map(move |(number, line)| {
            let (_, comment) = line.split_once(';')?;
            let text = comment.trim_start().strip_prefix(word)?.strip_prefix(':')?;
            Some((number, text.trim()))
        })
    }
}

fn starts_routine(line: &str) -> bool {
    line.starts_with("routine ")
}

/// The offset of the first line that satisfies `f`.
fn find_line(text: &str, f: impl Fn(&str) -> bool) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if f(line) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn test_lines(source: &str) -> Vec<TestLine> {
    let header = source.lines().take_while(|line| !starts_routine(line));
    let words = header.filter_map(|line| line.strip_prefix("test "));
    words.map(|words| TestLine { title: words.split_whitespace().collect::<Vec<_>>().join(" ") }).collect()
}

fn split_sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(SECTION), sections.last_mut()) {
            (Some(title), _) => {
                sections.push(Section { title: title.trim().to_owned(), text: String::new() })
            }
            (None, Some(section)) => section.text.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    for section in &mut sections {
        section.text = section.text.trim_matches('\n').to_owned();
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "test cat\ntest  pass   x\n; about\nroutine @a {\n}\n; run: => nothing\nroutine @b { ; error: bad\n}\n\n; ---- cat\nroutine\n\nend\n\n; ---- pass x\n";

    #[test]
    fn the_parts_are_found() {
        let file = File::new("f.lir", TEXT);
        let titles: Vec<&str> = file.tests.iter().map(|t| t.title.as_str()).collect();
        assert_eq!(titles, ["cat", "pass x"]);
        let chunks: Vec<Chunk<'_>> = file.chunks().collect();
        assert_eq!(chunks.iter().map(|c| c.first_line).collect::<Vec<_>>(), [4, 7]);
        assert_eq!(chunks[0].text, "routine @a {\n}\n; run: => nothing\n");
        assert_eq!(chunks[0].annotations("run").collect::<Vec<_>>(), [(6, "=> nothing")]);
        assert_eq!(chunks[1].annotations("error").collect::<Vec<_>>(), [(7, "bad")]);
        assert_eq!(file.sections[0], Section { title: "cat".into(), text: "routine\n\nend".into() });
        assert_eq!(file.routines().unwrap()[1].lines.routine, 7);
    }

    #[test]
    fn writing_the_sections_again_changes_nothing() {
        let file = File::new("f.lir", TEXT);
        let written = file.with_sections(&file.sections);
        assert_eq!(File::new("f.lir", &written).with_sections(&file.sections), written);
    }
}
