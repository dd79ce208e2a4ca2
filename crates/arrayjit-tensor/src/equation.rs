//! Equations of einsum: names of axes.

use std::collections::BTreeMap;

use crate::error::{Result, misfit};

/// The names of axes of an einsum, as indices of texts.
pub struct NamedAxes {
    /// The indices of each operand.
    pub(crate) operands: Vec<Vec<String>>,
    /// The indices of the result.
    pub(crate) result: Vec<String>,
    shape: Vec<usize>,
}

impl NamedAxes {
    /// The equation of operands with these names and shapes. `...` stands for the axes that names leave, and
    /// axes of size 1 broadcast. Without `->`, the result has the axes of `...` and, sorted, the names that
    /// occur once.
    ///
    /// # Errors
    /// An equation that does not fit the ranks, or a name with two sizes.
    pub fn parse(text: &str, inputs: &[(String, &[usize])]) -> Result<NamedAxes> {
        let wrong = |expected: String| misfit("equation", format!("`{text}`"), expected);
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text, None),
        };
        let parts: Vec<&str> = left.split(',').collect();
        if parts.len() != inputs.len() {
            return Err(wrong(format!("{} operands before `->`", inputs.len())));
        }
        let is_words = is_in_words(&parts, inputs);
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        let mut all = Vec::new();
        for (part, (name, shape)) in parts.iter().zip(inputs) {
            let axes = names(part, is_words, |given| shape.len().checked_sub(given));
            let axes = axes.filter(|axes| axes.len() == shape.len());
            let axes =
                axes.ok_or_else(|| wrong(format!("{} names for {name} of shape {shape:?}", shape.len())))?;
            for (name, &size) in axes.iter().zip(*shape) {
                let known = sizes.entry(name.clone()).or_insert(size);
                match (*known, size) {
                    (a, b) if a == b || b == 1 => {}
                    (1, b) => *known = b,
                    (a, b) => return Err(wrong(format!("one size of `{name}`, which has {a} and {b}"))),
                }
            }
            all.push(axes);
        }
        let is_name = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == REST);
        if let Some(name) = sizes.keys().find(|name| !is_name(name)) {
            return Err(wrong(format!("names of letters and digits, found `{name}`")));
        }
        let rest = sizes.keys().filter(|name| name.starts_with(REST)).count();
        let result = match right {
            Some(right) => names(right, is_words, |_| Some(rest)).unwrap_or_default(),
            None => {
                let count = |name: &String| all.iter().flatten().filter(|other| *other == name).count();
                let once = sizes.keys().filter(|name| !name.starts_with(REST) && count(name) == 1);
                rest_of(rest).chain(once.cloned()).collect()
            }
        };
        if let Some(name) = result.iter().find(|name| !sizes.contains_key(*name)) {
            return Err(wrong(format!("names of operands behind `->`, found `{name}`")));
        }
        if let Some((at, name)) = result.iter().enumerate().find(|(at, name)| result[..*at].contains(name)) {
            return Err(wrong(format!("each name once behind `->`, found `{name}` again at position {at}")));
        }
        let index = |(name, &own): (&String, &usize)| match own {
            1 if sizes[name] != 1 => "0".to_owned(),
            _ => letter(name),
        };
        let operands = all.iter().zip(inputs);
        let operands = operands.map(|(axes, (_, shape))| axes.iter().zip(*shape).map(index).collect());
        let shape = result.iter().map(|name| sizes[name]).collect();
        Ok(NamedAxes {
            operands: operands.collect(),
            result: result.iter().map(|name| letter(name)).collect(),
            shape,
        })
    }

    /// The shape of the result.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

/// Begins the names of axes that `...` stands for.
const REST: char = '.';

/// Whether names are words with spaces between them, and not single letters. If each word is a letter, as in
/// `i,j->ij`, the operands have the same names both ways, and the result may have no spaces.
fn is_in_words(parts: &[&str], inputs: &[(String, &[usize])]) -> bool {
    let words = |part: &str| part.replace("...", " ").split_whitespace().count();
    let is_word = |word: &str| word.chars().count() > 1;
    match parts.iter().any(|part| part.contains("...")) {
        true => parts.iter().any(|part| words(part) > 1),
        false => {
            parts.iter().zip(inputs).all(|(part, (_, shape))| words(part) == shape.len())
                && parts.iter().any(|part| part.split_whitespace().any(is_word))
        }
    }
}

/// The names of axes that `...` stands for, which are aligned at the last.
fn rest_of(count: usize) -> impl Iterator<Item = String> {
    (0..count).rev().map(|at| format!("{REST}{at}"))
}

/// The names of an operand or of the result. `rest` is the number of axes of `...` beside so many names.
fn names(part: &str, is_words: bool, rest: impl FnOnce(usize) -> Option<usize>) -> Option<Vec<String>> {
    let split = |part: &str| -> Vec<String> {
        match is_words {
            true => part.split_whitespace().map(str::to_owned).collect(),
            false => part.chars().filter(|c| !c.is_whitespace()).map(String::from).collect(),
        }
    };
    let Some((front, back)) = part.split_once("...") else { return Some(split(part)) };
    let (front, back) = (split(front), split(back));
    let rest = rest(front.len() + back.len())?;
    Some(front.into_iter().chain(rest_of(rest)).chain(back).collect())
}

/// The name as an index: prefixed, so that no name is a word of the language or starts with a digit.
fn letter(name: &str) -> String {
    let plain = |c: char| if c.is_ascii() { c.to_string() } else { format!("u{:x}", u32::from(c)) };
    format!("a_{}", name.chars().filter(|&c| c != REST).map(plain).collect::<String>())
}
