//! The tests of processes: starts itself under `mpirun`, as programs that end well and as some that do not.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(clippy::print_stdout, reason = "ranks print their results for the test that started them")]

#[path = "support/mpirun.rs"]
mod mpirun;
mod program;

use std::{
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use arrayjit::{Backend, HostArray, TensorNode};
use arrayjit_collectives::{Group, HostGroup, Reduction, Transport, mpi};
use program::Outcome;

/// The variable that says which program a process is.
const SCENARIO: &str = "COLLECTIVES_SCENARIO";

fn main() -> ExitCode {
    if let Ok(scenario) = std::env::var(SCENARIO) {
        mpi::run(|transport| rank(transport, &scenario)).unwrap();
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 4] = [
        ("processes_give_the_bits_of_one_process", processes_give_the_bits_of_one_process),
        ("an_error_ends_the_job_with_its_rank", || ends("error", "rank 1 of 2: no data")),
        ("a_panic_ends_the_job_with_its_rank", || ends("panic", "rank 1 of 2: panicked")),
        ("ranks_that_stop_are_named", || {
            ends("late", "`all_reduce by sum as f32 of x (16 bytes) #0`: no call of rank 1 within");
            ends("killed", "process rank 1");
            // It depends on the moment whether the other rank waits for the call or for the bytes.
            ends("stopped", "of 2: `all_reduce");
        }),
    ];
    mpirun::run_tests(&tests)
}

/// Starts this program on several processes; returns whether all ended well, and what they printed.
fn mpirun(ranks: usize, scenario: &str) -> (bool, String) {
    let start = Instant::now();
    let output = mpirun::command(ranks, &[(SCENARIO, scenario)]).output().expect("mpirun starts");
    assert!(start.elapsed() < Duration::from_secs(120), "{scenario} took {:?}", start.elapsed());
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

fn processes_give_the_bits_of_one_process() {
    for ranks in [1, 2, 4] {
        let (succeeds, printed) = mpirun(ranks, "program");
        assert!(succeeds, "{printed}");
        for (rank, expected) in program::model(ranks, 5, 24).iter().enumerate() {
            let line = format!("rank {rank}: {}", digest(expected));
            assert!(printed.contains(&line), "{ranks} ranks: expected {line}, found\n{printed}");
        }
    }
}

/// The scenario fails and says why.
fn ends(scenario: &str, expected: &str) {
    let (succeeds, printed) = mpirun(2, scenario);
    assert!(!succeeds && printed.contains(expected), "{scenario}: {printed}");
}

fn digest(arrays: &[HostArray]) -> String {
    let digests = arrays.iter().map(|array| xxhash_rust::xxh3::xxh3_64(array.bytes()));
    digests.map(|digest| format!("{digest:016x}")).collect()
}

/// What a process does.
fn rank(transport: mpi::MpiTransport, scenario: &str) -> Outcome<()> {
    let rank = transport.rank();
    if scenario == "program" {
        println!("rank {rank}: {}", digest(&program::run(transport, "multicore", 5, 24)?));
        return Ok(());
    }
    let backend = Backend::open("multicore")?;
    let group = HostGroup::new(transport, backend.new_stream()?).with_timeout(Duration::from_secs(2));
    let x = TensorNode::builder("x").dims([4]).build()?;
    let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1f32; 4], [4])?)?;
    match (scenario, rank) {
        ("error", 1) => return Err("no data".into()),
        ("panic", 1) => panic!("no data"),
        ("stopped", _) => {
            if rank == 1 {
                std::thread::spawn(|| {
                    std::thread::sleep(Duration::from_millis(300));
                    let own = std::process::id().to_string();
                    drop(Command::new("kill").args(["-STOP", &own]).status());
                });
            }
            loop {
                let event = group.all_reduce(&context, std::slice::from_ref(&x), Reduction::Sum)?;
                event
                    .sync()
                    .map_err(|error| group.failure().map_or_else(|| error.to_string(), |e| e.to_string()))?;
            }
        }
        ("late", 1) => std::thread::sleep(Duration::from_secs(60)),
        // The signal that no process can handle.
        ("killed", 1) => {
            let own = std::process::id().to_string();
            Command::new("kill").args(["-KILL", &own]).status()?;
        }
        _ => {}
    }
    let event = group.all_reduce(&context, &[x], Reduction::Sum)?;
    event.sync().map_err(|error| group.failure().map_or_else(|| error.into(), Box::from))
}
