//! The kinds of tests: what a `test` line can ask for. Each kind is one file.

mod cat;
mod legalise;
mod log;
mod pass;
mod run;
mod schedule;
mod verify;

use crate::File;

/// A kind of test with its arguments.
pub trait Kind {
    /// Runs the test on a file, and gives the text of its section, if the kind has one.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    fn run(&self, file: &File) -> Result<Option<String>, String>;
}

/// The test that a `test` line asks for.
///
/// # Errors
///
/// When there is no such kind, or it does not take the arguments.
pub fn by_name(name: &str, args: &[&str]) -> Result<Box<dyn Kind>, String> {
    match name {
        "cat" => none(args).map(|()| Box::new(cat::Cat) as Box<dyn Kind>),
        "verify" => none(args).map(|()| Box::new(verify::Verify) as Box<dyn Kind>),
        "run" => none(args).map(|()| Box::new(run::Run) as Box<dyn Kind>),
        "log" => none(args).map(|()| Box::new(log::Log) as Box<dyn Kind>),
        "pass" => pass::Pass::new(args).map(|kind| Box::new(kind) as Box<dyn Kind>),
        "legalise" => legalise::Legalise::new(args).map(|kind| Box::new(kind) as Box<dyn Kind>),
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
