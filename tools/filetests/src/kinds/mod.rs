//! The kinds of test lines, one file for each.

mod cat;
mod legalize;
mod log;
mod pass;
mod run;
mod schedule;
mod verify;

use crate::File;

/// A kind of test with its arguments.
pub trait Kind {
    /// Runs the test on a file and returns the text of its section, if the kind has one.
    ///
    /// # Errors
    ///
    /// A description of the failure.
    fn run(&self, file: &File) -> Result<Option<String>, String>;
}

/// The test of a `test` line.
///
/// # Errors
///
/// An unknown kind, or arguments that it does not take.
pub fn by_name(name: &str, args: &[&str]) -> Result<Box<dyn Kind>, String> {
    match name {
        "cat" => none(args).map(|()| Box::new(cat::Cat) as Box<dyn Kind>),
        "verify" => none(args).map(|()| Box::new(verify::Verify) as Box<dyn Kind>),
        "run" => none(args).map(|()| Box::new(run::RunKind) as Box<dyn Kind>),
        "log" => none(args).map(|()| Box::new(log::Log) as Box<dyn Kind>),
        "pass" => pass::Pass::new(args).map(|kind| Box::new(kind) as Box<dyn Kind>),
        "legalize" => legalize::Legalize::new(args).map(|kind| Box::new(kind) as Box<dyn Kind>),
        "schedule" => schedule::Schedule::new(args).map(|kind| Box::new(kind) as Box<dyn Kind>),
        _ => Err(format!("there is no kind of test `{name}`")),
    }
}

fn none(args: &[&str]) -> Result<(), String> {
    if args.is_empty() { Ok(()) } else { Err(format!("unexpected `{}`", args.join(" "))) }
}

/// Joins the texts of routines.
fn joined(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().collect::<Vec<_>>().join("\n")
}
