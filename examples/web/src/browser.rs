//! Opens a page in a headless Chromium with its software adapter and returns the page's report.
//!
//! The browser has a folder of its own, which is deleted afterwards. It connects only to the server of the
//! page, and it ends before the call returns.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{page::Outcome, server::Server};

/// Arguments for a browser without a window, with the software adapter, and without background activity.
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
    /// The browser that the environment variable `CHROMIUM` names, or else the first that is found; `None` if
    /// there is none.
    pub fn find() -> Option<Browser> {
        xtask::gpu_tools::find_chromium().map(|tool| Browser { program: tool.path })
    }

    /// Opens a page and waits for its report.
    ///
    /// # Errors
    ///
    /// The browser does not start, it ends early, or the page does not report in time.
    pub fn run(&self, html: &str, patience: Duration) -> Result<Outcome> {
        let server = Server::open()?;
        let mut running = Running::start(&self.program, &format!("http://{}/?report", server.address()?))?;
        let report = server.report(html, patience, || running.is_alive())?;
        serde_json::from_str(&report).context("the page's report does not read")
    }
}

/// A running browser with its folder. Dropping this ends the browser and deletes the folder.
struct Running {
    child: Child,
    profile: Option<TempDir>,
}

impl Running {
    fn start(program: &Path, url: &str) -> Result<Running> {
        let profile = tempfile::tempdir().context("making a folder for the browser")?;
        let mut command = Command::new(program);
        command.args(ARGUMENTS).arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
        // The browser also puts its sockets into this folder.
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
        // On Unix, the browser's helper processes belong to its process group, and an error of `kill` means
        // that all have ended. On other systems they end when they notice that the browser has ended.
        #[cfg(unix)]
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).output();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Ending processes may still write into the folder, so deleting it is tried several times.
        let Some(folder) = self.profile.take().map(TempDir::keep) else { return };
        for _ in 0..100 {
            if std::fs::remove_dir_all(&folder).is_ok() || !folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
