//! Names near a misspelled one, for errors.

/// The names among `all` within a few edits of `name`, the nearest first, for errors about misspelled names.
pub fn similar(name: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let limit = 1 + name.chars().count() / 4;
    let near = by_distance(name, all).into_iter().take_while(|(distance, _)| *distance <= limit);
    near.map(|(_, name)| name).collect()
}

/// The similar names; if there are none, all names, or the nearest if there are many.
pub fn similar_or_nearest(name: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let all: Vec<String> = all.into_iter().collect();
    match similar(name, all.iter().cloned()) {
        near if !near.is_empty() => near,
        _ if all.len() <= MAX_NAMES => all,
        _ => by_distance(name, all).into_iter().take(MAX_NAMES).map(|(_, name)| name).collect(),
    }
}

/// The end of an error about a misspelled name: what was expected instead.
pub fn near_names(near: &[String]) -> String {
    match near {
        [] => "there are none".to_owned(),
        [name] => format!("expected {name}"),
        names => format!("expected one of {}", names.join(", ")),
    }
}

/// The largest number of names in an error.
const MAX_NAMES: usize = 6;

/// All names with their edit distance from `name`, case ignored, in increasing order.
fn by_distance(name: &str, all: impl IntoIterator<Item = String>) -> Vec<(usize, String)> {
    let lower = name.to_lowercase();
    let distance = |other: String| (strsim::osa_distance(&lower, &other.to_lowercase()), other);
    let mut all: Vec<(usize, String)> = all.into_iter().map(distance).collect();
    all.sort();
    all.dedup();
    all
}
