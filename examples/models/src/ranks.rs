//! The ranks that a program trains on, as its option `--ranks` says: threads or processes.

use std::{path::Path, str::FromStr};

use anyhow::{Context as _, Result};
use arrayjit_collectives::{Transport, local};
use digits::command_line::traced;

/// The ranks of a program, as its option `--ranks` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankSource {
    /// This number of threads.
    Threads(usize),
    /// The processes that MPI started.
    Mpi,
}

impl FromStr for RankSource {
    type Err = String;

    fn from_str(text: &str) -> Result<RankSource, String> {
        match text.parse() {
            Ok(count) if (1..=MOST_THREADS).contains(&count) => Ok(RankSource::Threads(count)),
            _ if text == "mpi" && cfg!(feature = "mpi") => Ok(RankSource::Mpi),
            _ if text == "mpi" => Err("this build has no MPI; build with `--features mpi`".into()),
            _ => Err(format!("expected `mpi` or a number from 1 to {MOST_THREADS}")),
        }
    }
}

/// The most ranks of one process.
const MOST_THREADS: usize = 64;

impl RankSource {
    /// Calls a function on each rank, and returns the result of rank 0, or of the process with MPI. The first
    /// error ends all ranks. If a path is given, one file gets the timelines of all ranks.
    ///
    /// # Errors
    ///
    /// An error of the function, of MPI, or of the file.
    pub fn run<T: Send>(
        self,
        trace: Option<&Path>,
        body: impl Fn(Box<dyn Transport>) -> Result<T> + Sync,
    ) -> Result<T> {
        match self {
            RankSource::Threads(count) => traced(trace, || {
                let results = local::run(count, |transport| body(Box::new(transport)));
                let mut results = results.into_iter().collect::<Result<Vec<_>>>()?;
                (!results.is_empty()).then(|| results.swap_remove(0)).context("no ranks")
            }),
            RankSource::Mpi => on_processes(trace, body),
        }
    }
}

/// Each process writes a timeline of its own, which rank 0 then joins.
#[cfg(feature = "mpi")]
fn on_processes<T>(trace: Option<&Path>, body: impl Fn(Box<dyn Transport>) -> Result<T>) -> Result<T> {
    use arrayjit_collectives::{join_timelines, mpi};

    const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(60);
    let result = mpi::run(|transport| {
        let Some(joined) = trace else { return body(Box::new(transport)) };
        let own = joined.with_extension(format!("{}.json", transport.rank()));
        let result = traced(Some(&own), || body(Box::new(transport.clone())))?;
        join_timelines(&transport, LONGEST_WAIT, &own, joined)?;
        std::fs::remove_file(&own)?;
        anyhow::Ok(result)
    });
    Ok(result?)
}

#[cfg(not(feature = "mpi"))]
fn on_processes<T>(_: Option<&Path>, _: impl Fn(Box<dyn Transport>) -> Result<T>) -> Result<T> {
    anyhow::bail!("this build has no MPI")
}
