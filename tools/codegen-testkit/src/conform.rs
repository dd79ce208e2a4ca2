//! The test that [`conformance!`](crate::conformance) makes: runs all cases in child processes, scores them,
//! and shrinks failures.

use std::{
    env, fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use codegen_core::Codegen;
use filetests::RunCase;
use scheduling::{ScheduleOptions, schedule};
use serde_json::{Value, json};

use crate::{
    case::{Case, cases},
    child::{self, CHILD, Request, Worker, decode, encode},
    level::Level,
    remembered::Remembered,
    report::Outcome,
    score::{Conformance, LevelScore, judge},
    small_case::{judge_run, shrink_with},
};

/// The environment variable with the folder for `conformance.json` and shrunk failures. The default is
/// `conformance` beside the build profile's folder.
pub const DIR: &str = "CONFORMANCE_DIR";
/// The environment variable with a test file that is run instead of the cases, in the test's own process.
pub const LIR: &str = "CONFORMANCE_LIR";
/// The environment variable with a part of the names of the cases to run.
pub const CASE: &str = "CONFORMANCE_CASE";
/// The environment variable with the time limit of a case in seconds, which slow machines need. A child
/// process may take as long to start.
pub const SECONDS: &str = "CONFORMANCE_SECONDS";
/// The environment variable with the number of child processes that run cases at the same time. The default
/// is one for each core.
pub const JOBS: &str = "CONFORMANCE_JOBS";

/// The time for one case. Slow machines need far less.
const LIMIT: Duration = Duration::from_secs(60);
/// The most children that may die before the rest of the cases is given up.
const DEATHS: usize = 20;
/// The cases that a child takes at a time: neighbors often have the same kernels.
const CHUNK: usize = 8;
/// Failures that are shrunk.
const SHRUNK: usize = 2;
/// The time for one case while it is shrunk.
const SHRINKING_LIMIT: Duration = Duration::from_secs(3);

/// A test of a code generator: where it is, and how long a case may take.
#[derive(Clone, Debug)]
pub struct ConformanceTest {
    name: String,
    package: &'static str,
    limit: Duration,
    jobs: usize,
    only: String,
    is_towards: bool,
}

impl ConformanceTest {
    /// The test `name` in a module (`module_path!()`) of a package.
    pub fn new(module: &str, name: &str, package: &'static str) -> ConformanceTest {
        let name = match module.split_once("::") {
            Some((_, module)) => format!("{module}::{name}"),
            None => name.to_owned(),
        };
        let number = |variable| env::var(variable).ok().and_then(|number| number.parse::<u64>().ok());
        let limit = number(SECONDS).map_or(LIMIT, Duration::from_secs);
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let jobs = number(JOBS).map_or_else(cores, |jobs| jobs.max(1) as usize);
        let only = env::var(CASE).unwrap_or_default();
        ConformanceTest { name, package, limit, jobs, only, is_towards: false }
    }

    /// The same test with a time limit for each case.
    #[must_use]
    pub fn limit(self, limit: Duration) -> ConformanceTest {
        ConformanceTest { limit, ..self }
    }

    /// The same test with only the cases whose names contain the text.
    #[must_use]
    pub fn only(self, text: &str) -> ConformanceTest {
        ConformanceTest { only: text.to_owned(), ..self }
    }

    /// The same test for a code generator that may reject cases of the expected level, but not all.
    #[must_use]
    pub fn towards(self) -> ConformanceTest {
        ConformanceTest { is_towards: true, ..self }
    }

    fn dir(&self) -> PathBuf {
        let beside = || {
            let exe = env::current_exe().ok()?;
            Some(exe.ancestors().nth(2)?.join("conformance"))
        };
        let dir = env::var_os(DIR).map(PathBuf::from).or_else(beside).unwrap_or_else(env::temp_dir);
        dir.join(self.package).join(self.name.replace("::", "-"))
    }
}

/// Scores a code generator in child processes, prints the score with the coverage matrix, and writes
/// `conformance.json`.
///
/// # Panics
///
/// If the code generator does not have the level, or any case fails. If the test is
/// [`towards`](ConformanceTest::towards) the level, a passed case of the level is enough.
pub fn conform<C: Codegen>(test: &ConformanceTest, make: impl Fn() -> C, level: Level) {
    if is_child() {
        return work(&make());
    }
    if let Some(path) = env::var_os(LIR) {
        return replay(&make(), &PathBuf::from(path));
    }
    let score = measure(test, &make());
    report(&score.matrix());
    write(test, &score);
    // The last lines of the output, just above the message of the panic.
    report(&score.to_string());
    if test.is_towards {
        let LevelScore { passed, needed, .. } = score.level(level);
        report(&format!(
            "towards {level}: {passed} of {needed} cases pass; a fallback backend runs the others"
        ));
        assert!(
            score.begins(level),
            "expected a beginning of {level}
{}",
            shrunk(test, &score)
        );
        return;
    }
    let awarded = score.awarded().map_or("no level".to_owned(), |level| level.to_string());
    let failed = score.failures().count();
    let found = format!("expected {level}, found {awarded} and {failed} failed cases; see the list above");
    assert!(
        score.conforms(level),
        "{found}
{}",
        shrunk(test, &score)
    );
}

/// Whether this process is a child that runs cases: [`conform`] then serves its parent.
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Runs every case in children and returns the score.
pub fn measure(test: &ConformanceTest, codegen: &dyn Codegen) -> Conformance {
    let mut score = Conformance::new(codegen);
    if !score.is_schedulable() {
        return score;
    }
    let cases = cases(codegen.caps()).into_iter().enumerate();
    let chosen: Vec<(usize, Case)> = cases.filter(|(_, case)| case.name.contains(&test.only)).collect();
    let numbers: Vec<usize> = chosen.iter().map(|(number, _)| *number).collect();
    let outcomes = outcomes(test, &numbers);
    for ((_, case), outcome) in chosen.into_iter().zip(outcomes) {
        score.record(codegen.caps(), case, outcome);
    }
    score
}

/// The outcomes of the cases with these numbers, in order. Several children share them.
fn outcomes(test: &ConformanceTest, numbers: &[usize]) -> Vec<Outcome> {
    let (next, deaths) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let share = || {
        let (mut worker, mut outcomes) = (None, Vec::new());
        while let Some(chunk) = numbers.chunks(CHUNK).nth(next.fetch_add(1, Ordering::Relaxed)) {
            for number in chunk {
                let outcome = match deaths.load(Ordering::Relaxed) < DEATHS {
                    true => ask(test, &mut worker, Request::Case(*number), test.limit),
                    false => Outcome::Failed(format!("not run: {DEATHS} child processes died before")),
                };
                deaths.fetch_add(usize::from(worker.is_none()), Ordering::Relaxed);
                outcomes.push((*number, outcome));
            }
        }
        outcomes
    };
    let children = test.jobs.min(numbers.len().div_ceil(CHUNK));
    let mut outcomes: Vec<(usize, Outcome)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..children).map(|_| scope.spawn(share)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("`ask` does not panic")).collect()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Asks the child, or a new one if there is none; a child that dies is gone, and names its end.
fn ask(
    test: &ConformanceTest,
    worker: &mut Option<Worker>,
    request: Request<'_>,
    limit: Duration,
) -> Outcome {
    let started = match worker.take().map_or_else(|| Worker::start(&test.name, test.limit), Ok) {
        Ok(started) => worker.insert(started),
        Err(error) => return Outcome::Failed(format!("no child process: {error}")),
    };
    match started.ask(request, limit) {
        Ok(answer) => decode(&answer),
        Err(end) => {
            *worker = None;
            Outcome::Failed(end)
        }
    }
}

/// The child's side: runs cases in this process.
fn work(codegen: &dyn Codegen) {
    let codegen = &Remembered::new(codegen);
    let cases = cases(codegen.caps());
    child::serve(|kind, argument| match kind {
        "case" => {
            let case = argument.parse().ok().and_then(|number: usize| cases.get(number));
            case.map_or_else(|| json!("no such case"), |case| encode(&judge(codegen, case)))
        }
        "lir" => encode(&run_file(codegen, argument)),
        _ => source(codegen, argument),
    });
}

/// Runs the first run of a test file.
fn run_file(codegen: &dyn Codegen, path: &str) -> Outcome {
    match read(path) {
        Ok(run) => judge_run(codegen, &run),
        Err(error) => Outcome::Failed(format!("reading {path}: {error}")),
    }
}

fn read(path: &str) -> Result<RunCase, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    RunCase::parse_all(path, &text)?.into_iter().next().ok_or_else(|| "it has no run".to_owned())
}

/// The source of the kernels of a test file's first run, as the code generator shows it.
fn source(codegen: &dyn Codegen, path: &str) -> Value {
    let sources = || -> Option<String> {
        let scheduled = schedule(&read(path).ok()?.routine, codegen, &ScheduleOptions::default()).ok()?;
        let listings = scheduled.kernels().iter().map(|kernel| Some(codegen.listing(kernel).ok()?.source));
        Some(listings.collect::<Option<Vec<_>>>()?.join("\n"))
    };
    json!(sources().unwrap_or_default())
}

fn replay(codegen: &dyn Codegen, path: &std::path::Path) {
    let outcome = run_file(codegen, &path.display().to_string());
    report(&format!("{}: {outcome:?}\n", path.display()));
    assert!(!matches!(outcome, Outcome::Failed(_)), "{}: {outcome:?}", path.display());
}

/// Prints to the test's output.
#[allow(clippy::print_stdout, reason = "the score is for people who run the test")]
fn report(text: &str) {
    println!("{text}");
}

fn write(test: &ConformanceTest, score: &Conformance) {
    let path = test.dir().join("conformance.json");
    let written =
        fs::create_dir_all(test.dir()).and_then(|()| fs::write(&path, format!("{:#}\n", score.to_json())));
    match written {
        Ok(()) => report(&format!("written to {}", path.display())),
        Err(error) => report(&format!("{} could not be written: {error}", path.display())),
    }
}

/// The first failures, reduced to small test files.
fn shrunk(test: &ConformanceTest, score: &Conformance) -> String {
    let first = score.failures().take(SHRUNK);
    first.map(|(case, how)| shrink(test, case, how)).collect::<Vec<_>>().join("\n")
}

/// Shrinks a failure in child processes, writes the test file, and describes it.
fn shrink(test: &ConformanceTest, case: &Case, how: &str) -> String {
    let name: String = case.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = test.dir().join(format!("{name}.lir"));
    let mut worker = None;
    let small = shrink_with(case, how, &mut |candidate| match fs::write(&path, candidate.to_lir()) {
        Ok(()) => ask(test, &mut worker, Request::Lir(&path), SHRINKING_LIMIT.min(test.limit)),
        Err(error) => Outcome::Skipped(error.to_string()),
    });
    let text = small.run.to_lir();
    if let Err(error) = fs::write(&path, &text) {
        return format!("{} could not be written: {error}\n", path.display());
    }
    let source = worker.or_else(|| Worker::start(&test.name, test.limit).ok()).and_then(|mut worker| {
        let source = worker.ask(Request::Source(&path), SHRINKING_LIMIT).ok()?;
        source.as_str().filter(|source| !source.is_empty()).map(|source| format!("rendered as\n{source}\n"))
    });
    format!(
        "\n{}, shrunk: {}\n{text}{}replay: {LIR}={} cargo test -p {} {} -- --exact\n",
        case.name,
        small.how,
        source.unwrap_or_default(),
        path.display(),
        test.package,
        test.name,
    )
}
