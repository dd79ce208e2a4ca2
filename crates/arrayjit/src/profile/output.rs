//! Reports profiles that no program asked for: as a table on standard error, and as files.

use std::{fs, io, path::Path};

use super::profile::Profile;

/// Prints the table on standard error. With a folder, writes `ROUTINE.json` and `ROUTINE.html` to it instead,
/// or `ROUTINE-2.json` and so on if the name is taken.
pub(super) fn report(profile: &Profile, folder: Option<&Path>) {
    match folder {
        None => eprint!("arrayjit: {}", profile.to_table()),
        Some(folder) => {
            if let Err(error) = write(profile, folder) {
                eprintln!("arrayjit: profile of {} in `{}`: {error}", profile.routine, folder.display());
            }
        }
    }
}

fn write(profile: &Profile, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let stem = crate::log::sanitised(&profile.routine);
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
