//! Reports profiles that no program asked for: as a table on standard error, and as files.

use std::{
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use super::profile::Profile;

/// The profiles of dropped routines of a backend, if the program collects them.
#[derive(Debug, Default)]
pub(crate) struct CollectedProfiles(Mutex<Option<Vec<Profile>>>);

impl CollectedProfiles {
    /// Collects profiles from now on.
    pub(crate) fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    }

    /// Adds a profile, or returns it if profiles are not collected.
    pub(super) fn push(&self, profile: Profile) -> Option<Profile> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(profiles) => {
                profiles.push(profile);
                None
            }
            None => Some(profile),
        }
    }

    /// Returns the profiles collected so far, in the order in which the routines were dropped.
    pub(crate) fn take(&self) -> Vec<Profile> {
        let mut profiles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        profiles.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Prints the table on standard error if `folder` is empty. Otherwise writes `ROUTINE.json` and
/// `ROUTINE.html` to the folder, or `ROUTINE-2.json` and so on if the name is taken.
pub(super) fn report(profile: &Profile, folder: &str) {
    if folder.is_empty() {
        eprint!("arrayjit: {}", profile.to_table());
    } else if let Err(error) = write(profile, folder.as_ref()) {
        eprintln!("arrayjit: profile of {} in `{folder}`: {error}", profile.routine);
    }
}

fn write(profile: &Profile, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let stem = crate::observe::log::sanitized(&profile.routine);
    let mut number = 1;
    let stem = loop {
        let stem = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
        // Whoever creates the file has the name.
        match fs::File::create_new(folder.join(format!("{stem}.json"))) {
            Ok(_) => break stem,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    };
    fs::write(folder.join(format!("{stem}.json")), profile.to_json() + "\n")?;
    fs::write(folder.join(format!("{stem}.html")), profile.to_html())
}
