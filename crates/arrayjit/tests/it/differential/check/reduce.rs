//! Reduces a failing program to a smaller one that fails in the same way.

use random_programs::RandomProgram;

use super::run;

/// Removes routines, statements and rounds as long as the program fails in the same way, and returns the
/// failure of the smallest one.
pub(crate) fn reduced(mut program: RandomProgram, mut error: String) -> String {
    while let Some((smaller, its_error)) = smaller(&program).into_iter().find_map(|smaller| {
        let its_error = run::check(&smaller).err()?;
        (kind(&its_error) == kind(&error)).then_some((smaller, its_error))
    }) {
        (program, error) = (smaller, its_error);
    }
    error
}

/// Extracts the configuration and the step that failed.
fn kind(error: &str) -> Option<String> {
    let line = error.lines().next()?;
    let words = line.split([' ', ':']).filter(|word| !word.chars().any(|c| c.is_ascii_digit()));
    Some(words.take(9).collect::<Vec<_>>().join(" "))
}

fn smaller(program: &RandomProgram) -> Vec<RandomProgram> {
    let mut all = Vec::new();
    for routine in 0..program.routines.len() {
        let mut without = program.clone();
        without.routines.remove(routine);
        all.push(without);
        for statement in 0..program.routines[routine].len() {
            let mut without = program.clone();
            without.routines[routine].remove(statement);
            all.push(without);
        }
    }
    for round in 0..program.rounds.len() {
        let mut without = program.clone();
        without.rounds.remove(round);
        all.push(without);
    }
    all.retain(|program| program.routines.iter().all(|routine| !routine.is_empty()));
    all
}
