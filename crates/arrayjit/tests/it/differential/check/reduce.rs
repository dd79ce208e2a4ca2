//! Reduces a failing program to a smaller one that fails in the same way.

use random_programs::{ProgramExpr, ProgramStatement, RandomProgram};

use super::run;

/// Removes routines, statements and rounds as long as the program fails in the same way, and returns the
/// failure of the smallest one.
pub(crate) fn reduced(mut program: RandomProgram, mut error: String, backend: Option<&str>) -> String {
    while let Some((smaller, its_error)) = smaller(&program).into_iter().find_map(|smaller| {
        let its_error = run::check(&smaller, backend).err()?;
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
    all.retain(|program| program.routines.iter().all(|routine| !routine.is_empty()) && gives_values(program));
    all
}

/// Whether every node that a statement reads has initial values or a statement that writes it. Without the
/// statement that makes a view, a program would be rejected for another reason than before.
fn gives_values(program: &RandomProgram) -> bool {
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for statement in program.routines.iter().flatten() {
        match statement {
            ProgramStatement::Assign(assign) => {
                written.extend(assign.targets.iter().map(|target| target.node));
                let mut note = |e: &ProgramExpr| {
                    if let ProgramExpr::Read(access) = e {
                        read.push(access.node);
                    }
                };
                assign.targets.iter().for_each(|target| target.walk(&mut note));
                assign.values.iter().for_each(|value| value.walk(&mut note));
            }
            ProgramStatement::Offsets { node } | ProgramStatement::Values { node, .. } => written.push(*node),
            ProgramStatement::Slice { node, source, .. } => {
                written.push(*node);
                read.push(*source);
            }
        }
    }
    read.iter().all(|node| program.nodes[*node].data.is_some() || written.contains(node))
}
