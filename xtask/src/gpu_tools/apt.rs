//! Debian's package manager: downloads packages of a release from the sources of this machine.
//!
//! Packages that are only unpacked are looked up in separate lists, in [`Archive::folder`], so that the
//! machine's own lists and packages are not changed and no privileges are needed. Only [`install`] changes
//! the machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

/// Suites of this machine's release, with separate package lists.
pub(super) struct Archive {
    folder: PathBuf,
}

/// A choice of suites of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suites {
    /// Newer packages built for the release.
    Backports,
    /// The suites from which the machine installs packages.
    Release,
}

/// The name of the release, such as `bookworm`; or the reason why this machine has none.
pub(crate) fn release() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    ensure!(
        runs("apt-get") && runs("dpkg-deb"),
        "the tools for tests come from Debian's packages, and this machine has no apt-get; on it, set VK_DRIVER_FILES \
         to the manifest of a Vulkan driver by hand"
    );
    let named = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = named.map(|name| name.trim_matches('"').to_owned()).filter(|name| !name.is_empty());
    name.context("/etc/os-release names no release (VERSION_CODENAME) to take packages of")
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

impl Archive {
    /// Fetches the package lists of the suites into `folder`.
    pub(super) fn open(folder: PathBuf, release: &str, suites: Suites) -> Result<Archive> {
        let parts = folder.join("sources.list.d");
        for folder in [&parts, &folder.join("lists/partial"), &folder.join("cache/archives/partial")] {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let mut count = 0;
        for (name, text) in machine_sources()? {
            let stanzas = match name.ends_with(".sources") {
                true => of_stanzas(&text, release, suites),
                false => of_lines(&text, release, suites),
            };
            count += stanzas.len();
            std::fs::write(parts.join(&name), stanzas.concat())?;
        }
        ensure!(count > 0, "no source in /etc/apt has the suite {release}");
        let archive = Archive { folder };
        archive.apt(&["-qq", "-oAPT::Update::Error-Mode=any", "update"], &archive.folder)?;
        Ok(archive)
    }

    /// Downloads a package into `folder` and returns the file.
    pub(super) fn download(&self, package: &str, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        self.apt(&["-qq", "download", package], folder)?;
        let mut files = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        let file = files.find(|path| path.extension().is_some_and(|e| e == "deb"));
        file.with_context(|| format!("apt-get downloaded no file for {package}"))
    }

    fn apt(&self, args: &[&str], at: &Path) -> Result<String> {
        let here = self.folder.display();
        let options = [
            "-oDir::Etc::sourcelist=/dev/null".to_owned(),
            format!("-oDir::Etc::sourceparts={here}/sources.list.d"),
            format!("-oDir::State::Lists={here}/lists"),
            format!("-oDir::Cache={here}/cache"),
            "-oDir::Cache::pkgcache=".to_owned(),
            "-oDir::Cache::srcpkgcache=".to_owned(),
            // The user that apt switches to for downloads may not write here.
            "-oAPT::Sandbox::User=root".to_owned(),
        ];
        output(Command::new("apt-get").args(options).args(args).current_dir(at))
    }
}

/// Installs packages on this machine.
///
/// # Errors
///
/// If the user lacks the privileges, the error has the command to run as an administrator; otherwise it has
/// the message of the package manager.
pub(crate) fn install(packages: &[String]) -> Result<()> {
    let command = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    let user = output(Command::new("id").arg("-u"))?;
    ensure!(user.trim() == "0", "packages are missing and only root may install them: `{command}`");
    eprintln!("installing {}", packages.join(", "));
    // An unrelated source may be unreachable; only the result of the installation matters.
    let updated = output(Command::new("apt-get").args(["-qq", "update"]));
    let mut install = Command::new("apt-get");
    install.args(["-qq", "-y", "--no-install-recommends", "install"]).args(packages);
    let installed = output(install.env("DEBIAN_FRONTEND", "noninteractive"));
    match (installed, updated) {
        (Ok(_), _) => Ok(()),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(update)) => Err(error.context(format!("the package lists are old: {update:#}"))),
    }
}

/// The output of a command.
///
/// # Errors
///
/// The command does not start, or fails; with its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The machine's files of package sources: names and texts.
fn machine_sources() -> Result<Vec<(String, String)>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = std::fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    let is_source = |path: &PathBuf| path.extension().is_some_and(|e| e == "list" || e == "sources");
    let readable = files.into_iter().filter(|path| is_source(path) && path.is_file()).map(|path| {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((name.context("a file without a name")?, text))
    });
    readable.collect()
}

/// Selects the suites to use from the suites `found` of a package source; `None` if the source does not
/// belong to the release.
fn choose(found: &[&str], release: &str, suites: Suites) -> Option<String> {
    let of_release = |suite: &&str| suite.split(['-', '/']).next() == Some(release);
    match suites {
        Suites::Backports => found.contains(&release).then(|| format!("{release}-backports")),
        Suites::Release => found.iter().any(of_release).then(|| found.join(" ")),
    }
}

/// The stanzas of a deb822 file that belong to the release, with the suites replaced.
fn of_stanzas(text: &str, release: &str, suites: Suites) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stanzas = lines.split(|line| line.trim().is_empty()).filter(|stanza| !stanza.is_empty());
    let chosen = stanzas.filter_map(|stanza| {
        let fields = fields(stanza);
        let words = |name: &str| -> Vec<&str> {
            let field = fields.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            field.map_or(Vec::new(), |(_, value)| value.split_whitespace().collect())
        };
        let off = words("Enabled").first().is_some_and(|word| word.eq_ignore_ascii_case("no"));
        let suites = choose(&words("Suites"), release, suites)?;
        let lines = fields.iter().map(|(name, value)| match name.eq_ignore_ascii_case("Suites") {
            true => format!("Suites: {suites}\n"),
            false => format!("{name}:{value}\n"),
        });
        (!off && words("Types").contains(&"deb")).then(|| lines.collect::<String>() + "\n")
    });
    chosen.collect()
}

/// Names and values of fields; a value includes its continuation lines.
fn fields(stanza: &[&str]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in stanza {
        match (line.starts_with([' ', '\t']), fields.last_mut(), line.split_once(':')) {
            (true, Some((_, value)), _) => value.extend(["\n", line]),
            (_, _, Some((name, value))) => fields.push((name.trim().to_owned(), value.to_owned())),
            // Neither a field nor a continuation line: apt itself reports such a file.
            (_, _, None) => {}
        }
    }
    fields
}

/// The lines `deb [options] uri suite components…` that belong to the release, with the suite replaced.
fn of_lines(text: &str, release: &str, suites: Suites) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (format!("[{options}] "), rest),
            None => (String::new(), rest),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        let components = words.collect::<Vec<_>>().join(" ");
        let suite = choose(&[suite], release, suites)?;
        Some(format!("deb {options}{uri} {suite} {components}\n"))
    });
    lines.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing step fails the test")]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb deb-src\n# a comment\nURIs: http://mirror.test/d\nSuites: old old-updates\n\
        Components: main\nSigned-By:\n -----BEGIN\n .\n -----END\n\n\
        Types: deb\nURIs: http://mirror.test/s\nSuites: old-security\nComponents: main\n\n\
        Enabled: no\nTypes: deb\nURIs: http://mirror.test/x\nSuites: old\nComponents: main\n\n\
        Types: deb\nURIs: http://other.test\nSuites: stable\nComponents: main\n";

    #[test]
    fn stanzas_of_the_release_become_backports() {
        let found = of_stanzas(STANZAS, "old", Suites::Backports);
        let expected = "Types: deb deb-src\nURIs: http://mirror.test/d\nSuites: old-backports\nComponents: main\n\
            Signed-By:\n -----BEGIN\n .\n -----END\n\n";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn the_release_keeps_its_suites() {
        let found = of_stanzas(STANZAS, "old", Suites::Release);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("Suites: old old-updates\n"));
        assert!(found[1].contains("Suites: old-security\n"));
    }

    #[test]
    fn lines_are_read_with_and_without_options() {
        let text = "# deb http://no.test old main\ndeb [arch=amd64 signed-by=/k] http://a.test/d old main contrib # why\n\
            deb-src http://a.test/d old main\ndeb http://a.test/d old-updates main\ndeb http://b.test/ stable main\n";
        let expected = ["deb [arch=amd64 signed-by=/k] http://a.test/d old-backports main contrib\n"];
        assert_eq!(of_lines(text, "old", Suites::Backports), expected);
        assert_eq!(of_lines(text, "old", Suites::Release).len(), 2);
    }

    #[test]
    fn a_failing_command_says_what_it_said() {
        let error = output(Command::new("sh").args(["-c", "echo no such mirror >&2; exit 3"])).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("no such mirror") && message.contains('3'), "{message}");
    }
}
