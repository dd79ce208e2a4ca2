//! The text of a file of choices: one kernel a line, see [`crate::tune`].

use std::{collections::BTreeMap, fmt, path::Path};

use codegen_core::{Kernel, KernelChoice};

use super::TuneError;
use crate::cache::kernel_text;

/// The first line without the version.
const MAGIC: &str = "arrayjit tune ";
const VERSION: &str = "1";
/// The word for a kernel without a choice.
const HEURISTICS: &str = "heuristics";
/// The comment of a new file.
const HEADING: &str = "# kernel, machine, choice # routine, how many times as fast as the heuristics";

/// A kernel on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KernelKey {
    target: String,
    hash: u128,
}

impl KernelKey {
    pub(super) fn new(target: &str, kernel: &Kernel) -> KernelKey {
        KernelKey { target: target.to_owned(), hash: hash(&kernel_text(kernel)) }
    }
}

/// XXH3 with 128 bits, because hashes of the standard library differ between versions. If two kernels had the
/// same hash, the choice for one would be checked against the other, or be slow.
fn hash(text: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128(text.as_bytes())
}

/// The choice for a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TuneEntry {
    /// `None` for the heuristics.
    pub(super) choice: Option<KernelChoice>,
    /// The comment at the end of the line.
    pub(super) note: String,
    /// The line in the file, from 1; 0 for an entry that is not in a file yet.
    pub(super) line: usize,
}

/// The entries of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct TuneFile {
    /// Lines of comments, which precede the entries.
    comments: Vec<String>,
    entries: BTreeMap<KernelKey, TuneEntry>,
}

impl TuneFile {
    /// Reads the bytes of a file; an empty file has no entries.
    ///
    /// # Errors
    ///
    /// [`TuneError`] with the path and the line.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<TuneFile, TuneError> {
        let foreign = || TuneError::Foreign { path: path.to_owned() };
        let fault = |line, why: String| TuneError::Line { path: path.to_owned(), line, why };
        let mut file = TuneFile::default();
        if bytes.is_empty() {
            return Ok(file);
        }
        if !bytes.starts_with(MAGIC.as_bytes()) {
            return Err(foreign());
        }
        let mut lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
        let first = lines.next().map_or(&[][..], |(_, line)| line);
        let version = String::from_utf8_lossy(&first[MAGIC.len()..]).trim().to_owned();
        if version != VERSION {
            return Err(TuneError::Version { path: path.to_owned(), found: version });
        }
        for (number, line) in lines {
            let line = std::str::from_utf8(line).map_err(|_| fault(number, "it is not UTF-8".into()))?.trim();
            match line {
                "" => {}
                _ if line.starts_with('#') => file.comments.push(line.to_owned()),
                _ => {
                    let (key, entry) = entry(line, number).map_err(|why| fault(number, why))?;
                    if let Some(first) = file.entries.insert(key, entry) {
                        return Err(fault(number, format!("line {} is about the same kernel", first.line)));
                    }
                }
            }
        }
        Ok(file)
    }

    pub(super) fn get(&self, key: &KernelKey) -> Option<&TuneEntry> {
        self.entries.get(key)
    }

    pub(super) fn insert(&mut self, key: KernelKey, entry: TuneEntry) {
        self.entries.insert(key, entry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds the entries of another file for kernels that this file lacks.
    pub(super) fn merged(mut self, others: TuneFile) -> TuneFile {
        for (key, entry) in others.entries {
            self.entries.entry(key).or_insert(entry);
        }
        self
    }
}

fn entry(line: &str, number: usize) -> Result<(KernelKey, TuneEntry), String> {
    let (words, note) = line.split_once('#').unwrap_or((line, ""));
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let [hash, target, choice] = words[..] else {
        return Err(format!("expected a kernel, a machine and a choice, found {} words", words.len()));
    };
    let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some(hash) = u128::from_str_radix(hash, 16).ok().filter(|_| is_hash) else {
        return Err(format!("expected 32 hexadecimal digits, found `{hash}`"));
    };
    let choice = match choice {
        HEURISTICS => None,
        _ => Some(KernelChoice::new(choice).ok_or_else(|| format!("`{choice}` is no choice"))?),
    };
    let key = KernelKey { target: target.to_owned(), hash };
    Ok((key, TuneEntry { choice, note: note.trim().to_owned(), line: number }))
}

impl fmt::Display for TuneFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}{VERSION}")?;
        if self.comments.is_empty() {
            writeln!(f, "{HEADING}")?;
        }
        self.comments.iter().try_for_each(|comment| writeln!(f, "{comment}"))?;
        for (KernelKey { target, hash }, TuneEntry { choice, note, .. }) in &self.entries {
            write!(f, "{hash:032x} {target} ")?;
            match choice {
                Some(choice) => write!(f, "{choice}")?,
                None => f.write_str(HEURISTICS)?,
            }
            if note.is_empty() { writeln!(f)? } else { writeln!(f, " # {note}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TuneFile, String> {
        TuneFile::parse(Path::new("my.tune"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_read_as_they_are_written() {
        let text = format!(
            "arrayjit tune 1\n# a comment\n{0:032x} a-machine heuristics # y.k0\n{1:032x} a-machine gemm0=x\n",
            7,
            u128::MAX
        );
        assert_eq!(parse(&text).expect("a valid file").to_string(), text);
        assert!(parse("").expect("an empty file").is_empty());
    }

    #[test]
    fn faults_name_the_file_and_the_line() {
        let hash = format!("{:032x}", 1);
        let fault = |text: &str| parse(text).expect_err(text).replacen("setting `tune`: ", "", 1);
        assert_eq!(
            fault("[package]\n"),
            "`my.tune`, line 1: expected `arrayjit tune 1`; the file is left as it is"
        );
        assert_eq!(
            fault("arrayjit tune 2\n"),
            "`my.tune`, line 1: it has version `2`, and this arrayjit reads version 1"
        );
        let in_line_3 = [
            ("one two".to_owned(), "expected a kernel, a machine and a choice, found 2 words"),
            (format!("{hash} m gemm0=x more"), "expected a kernel, a machine and a choice, found 4 words"),
            ("12 m heuristics".to_owned(), "expected 32 hexadecimal digits, found `12`"),
            (format!("+{} m heuristics", &hash[1..]), "expected 32 hexadecimal digits, found `+"),
            (format!("{hash} m µ"), "`µ` is no choice"),
            (format!("{hash} m x\n{hash} m y"), "line 3 is about the same kernel"),
        ];
        for (line, why) in in_line_3 {
            let found = fault(&format!("arrayjit tune 1\n\n{line}\n"));
            let at = 3 + line.matches('\n').count();
            assert!(found.starts_with(&format!("`my.tune`, line {at}: {why}")), "{found}");
        }
        let error = TuneFile::parse(Path::new("b"), b"arrayjit tune 1\n\xff\n").expect_err("not UTF-8");
        assert_eq!(error.to_string(), "setting `tune`: `b`, line 2: it is not UTF-8");
    }

    /// The hash is part of files, so it must never change.
    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(hash(""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
        assert_eq!(hash("a"), 0xa96f_af70_5af1_6834_e6c6_32b6_1e96_4e1f);
    }
}
