//! Finds facts in a PTX text: its version, its entry points, and the entry point of a line.
//!
//! This is not a parser: it finds these facts in texts that an assembler accepts, and may find nothing in
//! others.

/// An entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryPoint {
    pub(crate) name: String,
    /// The line of its name, counted from 1.
    pub(crate) line: usize,
    /// The sizes of its parameters in bytes; 0 if a declaration is not understood.
    pub(crate) params: Vec<usize>,
}

/// The entry points of a text, in order.
pub(crate) fn entries(text: &str) -> Vec<EntryPoint> {
    let mut entries: Vec<EntryPoint> = Vec::new();
    // The parameter list of the last entry point, while lines continue it.
    let mut list: Option<String> = None;
    for (line, code) in (1..).zip(text.lines().map(without_comment)) {
        let mut rest = code;
        if let Some((_, behind)) = code.split_once(".entry") {
            let behind = behind.trim_start();
            let end = behind.find(|c: char| !is_name(c)).unwrap_or(behind.len());
            entries.push(EntryPoint { name: behind[..end].to_owned(), line, params: Vec::new() });
            (rest, list) = (&behind[end..], Some(String::new()));
        }
        let Some(open) = &mut list else { continue };
        let end = rest.find([')', '{']);
        *open += &rest[..end.unwrap_or(rest.len())];
        *open += " ";
        if let (Some(entry), Some(_)) = (entries.last_mut(), end) {
            entry.params = open.split(".param").skip(1).map(|one| bytes_of_param(one).unwrap_or(0)).collect();
            list = None;
        }
    }
    entries
}

/// The size of a parameter in bytes, from its declaration: attributes, a type, a name, and the length of an
/// array.
fn bytes_of_param(declaration: &str) -> Option<usize> {
    let ty = declaration.split_whitespace().find_map(|word| {
        let bits = word.strip_prefix('.')?.trim_start_matches(['b', 'u', 's', 'f']);
        bits.parse::<usize>().ok()
    })?;
    let length = match declaration.split_once('[') {
        Some((_, rest)) => rest.split_once(']')?.0.trim().parse().ok()?,
        None => 1,
    };
    (ty / 8).checked_mul(length)
}

/// The PTX version of a text.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().map(without_comment).find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first line number in an assembler's message.
pub(crate) fn line_in(log: &str) -> Option<usize> {
    log.match_indices("line ").find_map(|(at, word)| {
        let number = &log[at + word.len()..];
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse().ok()
    })
}

/// The entry point that contains a line.
pub(crate) fn entry_at(entries: &[EntryPoint], line: usize) -> Option<&EntryPoint> {
    entries.iter().rev().find(|entry| entry.line <= line)
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// .entry no
.version 8.0
.target sm_80
.visible .entry add(.param .u64 p0, .param .u64 p1,
    .param .ptr .align 4 .s32 p2, // .param
    .param .align 64 .b8 m[128], .param .b64 odd[) {
    ld.param.u64 %rd1, [p0];
    ret;
}
.entry none() { ret; }
.visible .entry
odd";

    #[test]
    fn entry_points_are_found_with_their_parameters() {
        let found = entries(TEXT);
        let names: Vec<_> =
            found.iter().map(|entry| (entry.name.as_str(), entry.line, entry.params.as_slice())).collect();
        let expected: [(_, _, &[usize]); 3] =
            [("add", 4, &[8, 8, 4, 128, 0]), ("none", 10, &[]), ("", 11, &[])];
        assert_eq!(names, expected);
        assert_eq!(entry_at(&found, 7).map(|entry| entry.name.as_str()), Some("add"));
        assert_eq!(entry_at(&found, 2), None);
        assert!(entries("").is_empty());
    }

    #[test]
    fn versions_and_lines_are_read() {
        assert_eq!(version(TEXT), Some((8, 0)));
        assert_eq!(version("// .version 7.0\n.version 12.10"), Some((12, 10)));
        assert_eq!([version(""), version(".version x.1"), version(".version 8")], [None; 3]);
        let log = "ptxas application ptx input, line 7; error   : Arguments mismatch for instruction 'ld'";
        assert_eq!(line_in(log), Some(7));
        assert_eq!([line_in("no line at all"), line_in("")], [None; 2]);
    }
}
