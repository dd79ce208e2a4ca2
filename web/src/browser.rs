//! Opens a page in a headless Chromium with its software adapter and brings back what the page reports.
//!
//! The browser gets a folder of its own that is deleted with it, talks to nobody but the server, and does not
//! outlive the call.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{page::Outcome, server::Server};

/// No window, the software adapter, and nothing in the background.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
];

/// A Chromium on this machine.
#[derive(Clone, Debug)]
pub struct Browser {
    program: PathBuf,
}

impl Browser {
    /// The one that the environment variable `CHROMIUM` names, or the first that is found; `None` where there
    /// is none.
    pub fn find() -> Option<Browser> {
        xtask::gpu_tools::find_chromium().map(|tool| Browser { program: tool.path })
    }

    /// Opens a page and waits for its report.
    ///
    /// # Errors
    ///
    /// Where the browser does not start, ends early, or the page does not report in time.
    pub fn run(&self, html: &str, patience: Duration) -> Result<Outcome> {
        let server = Server::open()?;
        let mut running = Running::start(&self.program, &format!("http://{}/?report", server.address()?))?;
        let report = server.report(html, patience, || running.is_alive())?;
        serde_json::from_str(&report).context("the page's report does not read")
    }
}

/// A browser with its folder. Both are gone when this is dropped.
struct Running {
    child: Child,
    profile: Option<TempDir>,
}

impl Running {
    fn start(program: &Path, url: &str) -> Result<Running> {
        let profile = tempfile::tempdir().context("making a folder for the browser")?;
        let mut command = Command::new(program);
        command.args(ARGUMENTS).arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
        // Its sockets go there too.
        command.env("TMPDIR", profile.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().with_context(|| format!("starting `{}`", program.display()))?;
        Ok(Running { child, profile: Some(profile) })
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its helper processes are in its group; elsewhere they end when they notice that it has. Failing
        // means that all have ended.
        #[cfg(unix)]
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).output();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What is being ended may still write into the folder.
        let Some(folder) = self.profile.take().map(TempDir::keep) else { return };
        for _ in 0..100 {
            if std::fs::remove_dir_all(&folder).is_ok() || !folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
