//! A child process that runs cases, so that a code generator that ends its process fails one case by name.
//!
//! The child is the test binary itself, with the name of one test as its filter and an environment variable
//! by which the test knows its part. It reads requests from its standard input, one per line, and answers
//! each on its standard output with a line that begins with a mark; other lines are output of the code under
//! test. A request is `case NUMBER`, `lir FILE` or `source FILE`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::report::Outcome;

/// The environment variable of a child process.
pub(crate) const CHILD: &str = "CONFORMANCE_CHILD";
/// The beginning of an answer.
const MARK: &str = "\u{2}conformance ";
/// The least time for a child to start, in which it reads all cases.
const START: Duration = Duration::from_secs(60);

/// A child process that waits for requests.
pub(crate) struct Worker {
    process: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    errors: File,
}

/// A request to a child.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    /// A case by its position.
    Case(usize),
    /// The first run of a test file.
    Lir(&'a Path),
    /// The source that the code generator writes for the first run of a test file.
    Source(&'a Path),
}

impl Worker {
    /// Starts a child that runs one test of this binary. It may take as long as a case with the limit, or
    /// [`START`].
    pub(crate) fn start(test: &str, limit: Duration) -> io::Result<Worker> {
        let errors = tempfile::tempfile()?;
        let mut process = Command::new(std::env::current_exe()?)
            .args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (requests, output) = pipes.ok_or_else(|| io::Error::other("a child process without pipes"))?;
        let (send, answers) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
            let answers = lines.filter_map(|line| parse(&String::from_utf8_lossy(&line)));
            // The receiver is gone if the child was given up.
            answers.for_each(|answer| drop(send.send(answer)));
        });
        let mut worker = Worker { process, requests, answers, errors };
        match worker.answers.recv_timeout(limit.max(START)) {
            Ok(_ready) => Ok(worker),
            Err(_) => {
                let end = worker.end();
                Err(io::Error::other(format!("no test `{test}` started in a child process: {end}")))
            }
        }
    }

    /// The answer to a request within a time limit; `Err` with the end of the child otherwise.
    pub(crate) fn ask(&mut self, request: Request<'_>, limit: Duration) -> Result<Value, String> {
        let line = match request {
            Request::Case(number) => format!("case {number}\n"),
            Request::Lir(path) => format!("lir {}\n", path.display()),
            Request::Source(path) => format!("source {}\n", path.display()),
        };
        if let Err(error) = self.requests.write_all(line.as_bytes()).and_then(|()| self.requests.flush()) {
            return Err(format!("died: {} ({error})", self.end()));
        }
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                Err(format!("timed out: no result after {} s", limit.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("died: {}", self.end())),
        }
    }

    /// Ends the child, if it has not ended, and says how it ended, with its last error messages.
    fn end(&mut self) -> String {
        let running = matches!(self.process.try_wait(), Ok(None));
        if running {
            // A child that closes its output ends; one that hangs does not.
            thread::sleep(Duration::from_millis(50));
        }
        if let Ok(None) = self.process.try_wait() {
            drop(self.process.kill());
        }
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let mut errors = Vec::new();
        let read = self.errors.seek(SeekFrom::Start(0)).and_then(|_| self.errors.read_to_end(&mut errors));
        let errors = read.map(|_| String::from_utf8_lossy(&errors).into_owned()).unwrap_or_default();
        let last: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
        format!("{status}\n{}", last[last.len().saturating_sub(4)..].join("\n")).trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn parse(line: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

/// Serves requests until the parent closes the pipe. `answer` takes the words of a request.
pub(crate) fn serve(mut answer: impl FnMut(&str, &str) -> Value) {
    reply(&json!("ready"));
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (kind, argument) = line.split_once(' ').unwrap_or((&line, ""));
        reply(&answer(kind, argument));
    }
}

fn reply(answer: &Value) {
    let mut out = io::stdout().lock();
    // The code under test may have begun a line. If the parent is gone, nobody is interested in the answer.
    drop(write!(out, "\n{MARK}{answer}\n").and_then(|()| out.flush()));
}

/// An outcome as an answer.
pub(crate) fn encode(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Passed => json!({ "passed": "" }),
        Outcome::Skipped(why) => json!({ "skipped": why }),
        Outcome::Failed(how) => json!({ "failed": how }),
    }
}

/// The outcome of an answer.
pub(crate) fn decode(answer: &Value) -> Outcome {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    match (text("passed"), text("skipped"), text("failed")) {
        (Some(_), ..) => Outcome::Passed,
        (_, Some(why), _) => Outcome::Skipped(why),
        (.., Some(how)) => Outcome::Failed(how),
        _ => Outcome::Failed(format!("unexpected answer {answer} of a child process")),
    }
}
