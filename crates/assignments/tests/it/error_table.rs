//! Tables of mistakes: the files in `tests/errors`. A row has a name, a text, and the whole message of its
//! error.

use std::fmt::Write;

use expect_test::ExpectFile;

/// Compares the message of every row with the result of `error_of` for the row's text. `None` means that the
/// text has no error.
pub(crate) fn check(table: &ExpectFile, error_of: impl Fn(&str) -> Option<String>) {
    let written = table.data();
    let mut rows = written.split("\n== ");
    let mut found = rows.next().expect("the lines before the first row").to_owned();
    let mut differ = Vec::new();
    for row in rows {
        let (name, text, message) =
            fields(row).unwrap_or_else(|| panic!("expected name, text, `--`, message:\n{row}"));
        let error = error_of(text).unwrap_or_else(|| panic!("row {name:?} has no error:\n{text}"));
        if error != message {
            differ.push(name);
        }
        write!(found, "\n== {name}\n{text}\n--\n{error}\n").expect("a string takes everything");
    }
    assert!(found.len() > 200, "expected rows, found\n{written}");
    if !differ.is_empty() {
        eprintln!("rows with other messages: {differ:#?}");
    }
    table.assert_eq(&found);
}

/// The name, the text and the message of a row.
fn fields(row: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = row.split_once('\n')?;
    let (text, message) = rest.split_once("\n--\n")?;
    Some((name, text, message.trim_end_matches('\n')))
}
