//! Every word has one spelling, that of the standard library: `-ize` and `-ization`, `color`, `neighbor`.
//! Words are looked for in all text and in file names, and in the parts of identifiers.

use anyhow::Result;

use super::files::{TextFile, text_files};

/// This file, which has the other spellings.
const OWN_SOURCE: &str = "xtask/src/tidy/spelling.rs";
/// What may follow `-is` in the forms of a verb in `-ise`.
const ENDINGS: [&str; 8] = ["e", "ed", "es", "er", "ers", "ing", "ation", "ations"];
/// Words that end in `-ise` in every spelling, besides those in `-wise`.
const ALWAYS_ISE: &str = "advertise advise arise comprise compromise concise cruise demise devise disguise \
    enterprise excise exercise expertise fadvise guise imprecise improvise madvise noise paradise poise praise \
    precise premise promise raise revise rise supervise surprise unsupervise";
/// Beginnings of words that have another spelling here.
const OTHERS: [&str; 18] = [
    "analyse",
    "analysing",
    "artefact",
    "behaviour",
    "cancelled",
    "cancelling",
    "catalogue",
    "centre",
    "centring",
    "colour",
    "favour",
    "fibre",
    "grey",
    "honour",
    "labelled",
    "licence",
    "modelled",
    "neighbour",
];

/// Findings about words of another spelling.
pub(super) fn check() -> Result<Vec<String>> {
    let files = text_files(&crate::root())?;
    Ok(files.iter().filter(|file| file.path != OWN_SOURCE).flat_map(findings).collect())
}

fn findings(file: &TextFile) -> Vec<String> {
    let in_path =
        words(&file.path).filter(|word| is_other(word)).map(|word| format!("{}: `{word}`", file.path));
    let lines = (1..).zip(file.text.lines());
    let in_text = lines.flat_map(|(number, line)| words(line).map(move |word| (number, word)));
    let in_text = in_text.filter(|(_, word)| is_other(word));
    in_path.chain(in_text.map(|(number, word)| format!("{}:{number}: `{word}`", file.path))).collect()
}

/// The words of a text in lower case, with identifiers divided into theirs.
fn words(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|run| !run.is_empty());
    runs.flat_map(|run| {
        let is_start = |at: usize| {
            let is_lower = |at: usize| run.as_bytes().get(at).is_some_and(u8::is_ascii_lowercase);
            !is_lower(at) && (is_lower(at - 1) || is_lower(at + 1))
        };
        let mut starts = vec![0];
        starts.extend((1..run.len()).filter(|&at| is_start(at)));
        starts.push(run.len());
        starts.windows(2).map(|bounds| run[bounds[0]..bounds[1]].to_lowercase()).collect::<Vec<_>>()
    })
}

fn is_other(word: &str) -> bool {
    OTHERS.iter().any(|other| word.starts_with(other) && word != "analyses") || ends_in_ise(word)
}

/// Whether the word is a form of a verb in `-ise` that this project writes with `-ize`.
fn ends_in_ise(word: &str) -> bool {
    let verb =
        |ending: &&str| Some(format!("{}e", word.strip_suffix(*ending).filter(|s| s.ends_with("is"))?));
    let Some(verb) = ENDINGS.iter().find_map(verb) else { return false };
    let is_always =
        |verb: &str| verb.ends_with("wise") || ALWAYS_ISE.split_whitespace().any(|always| always == verb);
    verb.len() > 5 && !is_always(&verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_found_in_identifiers_too() {
        let path = "a/optimiser.rs".to_owned();
        let text = "fn normalise_all() {}\nstruct ModelledDevice; // the colours of a Centre\nDESERIALISED";
        let found = findings(&TextFile { path, text: text.to_owned() });
        let words = ["optimiser", "normalise", "modelled", "colours", "centre", "deserialised"];
        assert_eq!(found.len(), words.len());
        assert!(
            found.iter().zip(words).all(|(finding, word)| finding.ends_with(&format!("`{word}`"))),
            "{found:?}"
        );
    }

    #[test]
    fn words_of_one_spelling_pass() {
        for text in
            ["optimize", "otherwise", "raised", "promises", "lanewise", "disable", "analyses", "colormap"]
        {
            assert!(!words(text).any(|word| is_other(&word)), "{text}");
        }
    }
}
