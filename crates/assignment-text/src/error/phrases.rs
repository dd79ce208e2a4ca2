//! Parts of messages.

use std::fmt;

use crate::synonyms::Synonym;
use assignments::spelling::near_names;

pub(super) fn axes_text(axes: &str) -> String {
    match axes {
        "" => "no axes".to_owned(),
        axes if axes.contains(',') => format!("the axes `{axes}`"),
        axis => format!("the axis `{axis}`"),
    }
}

pub(super) fn sum_text(parts: &[i64]) -> String {
    parts.iter().map(i64::to_string).collect::<Vec<_>>().join(" + ")
}

pub(super) fn where_runs(letters: &[String]) -> String {
    match letters {
        [] => String::new(),
        letters => format!(" where {} runs", found_list(letters)),
    }
}

pub(super) fn found_list(found: &[String]) -> String {
    match found {
        [] => "none".to_owned(),
        found => found.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and "),
    }
}

/// The number of indices that a node needs, with an example for an access that has none.
pub(super) fn indices(node: &str, rank: usize, found: usize) -> String {
    let count = counted(rank, "index", "indices");
    let letters: Vec<String> =
        (b'i'..=b'z').take(rank).map(|letter| char::from(letter).to_string()).collect();
    if found > 0 || letters.is_empty() || letters.len() < rank {
        return count;
    }
    format!("{count}, as in `{node}[{}]`", letters.join(","))
}

pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub(crate) fn counted_elements<N: fmt::Display + PartialEq + From<u8>>(count: N) -> String {
    format!("{count} {}", if count == N::from(1) { "element" } else { "elements" })
}

/// What may be meant by a letter that the target lacks.
pub(super) fn instead_of_letter(letter: &str, is_node: bool) -> String {
    match is_node {
        true => format!(
            "`{letter}[]` as the index, for the value of node {letter}, or an accumulation such as `:+=`"
        ),
        false => "an accumulation such as `:+=`".into(),
    }
}

pub(super) fn similar_names(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [name] => format!("; a similar name is {name}"),
        near => format!("; similar names are {}", near.join(", ")),
    }
}

/// Where dimensions come from; the example has the closing mark.
pub(super) fn dims_origin(line: usize, example: &str) -> String {
    format!("; its dimensions are those of line {line}, which writes it first; declare it, as in `{example}")
}

pub(super) fn function_hint(near: &[String], instead: Option<Synonym>) -> String {
    match (instead, near) {
        (Some(synonym), _) => format!("; {synonym}"),
        (None, []) => ", and none has a similar name".to_owned(),
        (None, near) => format!("; {}", near_names(near)),
    }
}
