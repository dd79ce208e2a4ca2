//! How many cases random tests run: the environment variable `EFFORT`.
//!
//! A random test states how many cases it runs for every change. `EFFORT=20` multiplies the number by 20 and
//! begins at a seed that no run had before, which is printed; `EFFORT=20@SEED` begins at that seed, and so
//! repeats a run.

use std::{env, ops::Range, sync::OnceLock, time::SystemTime};

/// The factor and the first seed that the variable states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effort {
    factor: u64,
    first_seed: u64,
}

/// The effort of this process.
///
/// # Panics
///
/// If the variable is not of the form `FACTOR` or `FACTOR@SEED`: a misspelled effort must not pass as a long
/// test.
fn effort() -> Effort {
    static EFFORT: OnceLock<Effort> = OnceLock::new();
    *EFFORT.get_or_init(|| {
        let Some(text) = env::var_os("EFFORT") else { return Effort { factor: 1, first_seed: 0 } };
        let text = text.to_string_lossy();
        let effort = parse(&text, fresh_seed)
            .unwrap_or_else(|| panic!("EFFORT is `{text}`, expected FACTOR or FACTOR@SEED"));
        if effort.factor > 1 {
            eprintln!("EFFORT={}@{} repeats these random cases", effort.factor, effort.first_seed);
        }
        effort
    })
}

/// Parses the variable; a large factor without a seed begins at `fresh`.
fn parse(text: &str, fresh: impl FnOnce() -> u64) -> Option<Effort> {
    let (factor, seed) = text.split_once('@').map_or((text, None), |(factor, seed)| (factor, Some(seed)));
    let factor = factor.parse().ok().filter(|&factor| factor > 0)?;
    let first_seed = match seed {
        Some(seed) => seed.parse().ok()?,
        None if factor == 1 => 0,
        None => fresh(),
    };
    Some(Effort { factor, first_seed })
}

/// A seed from the time, with room for large ranges above it.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() << 20) | u64::from(since.subsec_micros())
}

/// The seeds of a random test that runs `count` cases for every change.
///
/// ```
/// for seed in random_programs::effort::seeds(3) {
///     let bytes = random_programs::bytes_of_seed(seed, 40);
///     assert_eq!(bytes.len(), 40);
/// }
/// ```
pub fn seeds(count: u64) -> Range<u64> {
    let Effort { first_seed, .. } = effort();
    first_seed..first_seed + cases(count)
}

/// The number of cases of a random test that runs `count` cases for every change.
pub fn cases(count: u64) -> u64 {
    count * effort().factor
}

#[cfg(test)]
mod tests {
    use super::{Effort, parse};

    #[test]
    fn an_effort_is_a_factor_and_a_seed() {
        let of = |text| parse(text, || 7).map(|Effort { factor, first_seed }| (factor, first_seed));
        assert_eq!(of("1"), Some((1, 0)), "the cases of every change are the same in every run");
        assert_eq!(of("20"), Some((20, 7)));
        assert_eq!(of("20@3"), Some((20, 3)));
        assert_eq!(of("1@3"), Some((1, 3)));
        for wrong in ["", "0", "full", "20@", "@3", "-1", "20@x"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
