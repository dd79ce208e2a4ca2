//! How the routine of a capsule was compiled: the settings that change code, and the target.

use std::fmt;

use codegen_core::{Caps, DTypeSet, Transcendental, Workgroups};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tnode::DType;

use crate::settings::{LoadedSettings, Settings, SettingsError};

/// Settings that change the results of code, and the widest vectors. Whether routines log is recorded too,
/// and not the folder for it.
const KEYS: [&str; 6] =
    ["approximate_functions", "half_constant_cutoff", "numerics", "tensor_cores", "tf32", "vector"];

/// The folder for logs in the settings of a capsule whose routine logs.
const LOGS: &str = "arrayjit_logs";

/// How the routine of a capsule was compiled. A file without these lines, which a person may have written,
/// has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapsuleCompilation {
    /// The settings that change code, as keys and values.
    settings: Vec<(String, String)>,
    caps: Option<Caps>,
}

/// A line of a capsule that does not say how the routine was compiled, although it begins like one.
#[derive(thiserror::Error)]
#[error("line {line}: `; {word}: {found}` is not what a capsule has there: {why}")]
pub struct CapsuleError {
    /// The number of the line, counted from 1.
    line: usize,
    word: &'static str,
    found: String,
    why: String,
}

impl CapsuleCompilation {
    /// The settings of a backend, and the target of its code generator.
    pub(super) fn new(settings: &Settings, caps: &Caps) -> CapsuleCompilation {
        let all = serde_json::to_value(settings).unwrap_or_default();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let recorded = KEYS.iter().filter_map(|&key| Some((key.to_owned(), text(all.get(key)?))));
        let logs = if settings.has_logs() { LOGS } else { "" };
        let settings = recorded.chain([("logs".to_owned(), logs.to_owned())]).collect();
        CapsuleCompilation { settings, caps: Some(caps.clone()) }
    }

    /// Reads the lines of a capsule's text that begin with `; settings:` and `; caps:`.
    ///
    /// # Errors
    ///
    /// [`CapsuleError`] for the first such line that is not as a capsule has it.
    pub fn parse(text: &str) -> Result<CapsuleCompilation, CapsuleError> {
        let mut compilation = CapsuleCompilation::default();
        for (line, text) in (1..).zip(text.lines()) {
            let rejected = |word, found: &str, why: String| {
                let found = found.chars().take(80).collect();
                CapsuleError { line, word, found, why }
            };
            if let Some(settings) = text.strip_prefix("; settings: ") {
                let pair = |word: &str| {
                    let (key, value) = word.split_once('=').ok_or_else(|| {
                        rejected("settings", settings, format!("expected KEY=VALUE, found `{word}`"))
                    })?;
                    Ok((key.to_owned(), value.to_owned()))
                };
                compilation.settings = settings.split_whitespace().map(pair).collect::<Result<_, _>>()?;
            } else if let Some(caps) = text.strip_prefix("; caps: ") {
                compilation.caps = Some(parse_caps(caps).map_err(|why| rejected("caps", caps, why))?);
            }
        }
        Ok(compilation)
    }

    /// Loads the settings of this process like [`Settings::load`], except that the settings of the capsule
    /// override the environment and the file. Arguments override the capsule.
    ///
    /// # Errors
    ///
    /// Fails like [`Settings::load`].
    pub fn settings(&self) -> Result<LoadedSettings, SettingsError> {
        Settings::load_with(&self.settings)
    }

    /// The capabilities of the target, if the file has them.
    pub fn caps(&self) -> Option<&Caps> {
        self.caps.as_ref()
    }
}

/// The lines that [`CapsuleCompilation::parse`] reads back.
impl fmt::Display for CapsuleCompilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !settings.is_empty() {
            writeln!(f, "; settings: {}", settings.join(" "))?;
        }
        let caps = self.caps.as_ref().map(|caps| serde_json::to_string(&RecordedCaps::of(caps)));
        caps.and_then(Result::ok).map_or(Ok(()), |caps| writeln!(f, "; caps: {caps}"))
    }
}

fn parse_caps(text: &str) -> Result<Caps, String> {
    let recorded: RecordedCaps = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let caps = recorded.caps()?;
    caps.check().map_err(|error| error.to_string())?;
    Ok(caps)
}

/// [`Caps`] as a capsule has it. Element types are their names.
#[derive(Serialize, Deserialize)]
struct RecordedCaps {
    target: String,
    storage: Vec<String>,
    arithmetic: Vec<String>,
    #[serde(default)]
    conversions: Vec<String>,
    transcendental: RecordedTranscendental,
    vector_bytes: usize,
    vector_registers: usize,
    contractions: Vec<String>,
    fma: bool,
    l1_bytes: usize,
    l2_bytes: usize,
    threads: usize,
    alignment: usize,
    index: String,
    workgroups: Option<RecordedWorkgroups>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Transcendental", rename_all = "snake_case")]
enum TranscendentalNames {
    Expanded,
    Approximate,
    Native,
}

#[derive(Serialize, Deserialize)]
struct RecordedTranscendental(#[serde(with = "TranscendentalNames")] Transcendental);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Workgroups")]
struct WorkgroupsFields {
    threads: u32,
    memory_bytes: usize,
    registers: u32,
    subgroup_size: u32,
    element_bytes: usize,
}

#[derive(Serialize, Deserialize)]
struct RecordedWorkgroups(#[serde(with = "WorkgroupsFields")] Workgroups);

impl RecordedCaps {
    fn of(caps: &Caps) -> RecordedCaps {
        let names = |set: DTypeSet| {
            DType::ALL
                .into_iter()
                .filter(|&dtype| set.contains(dtype))
                .map(|dtype| dtype.to_string())
                .collect()
        };
        RecordedCaps {
            target: caps.target.clone(),
            storage: names(caps.storage),
            arithmetic: names(caps.arithmetic),
            conversions: names(caps.conversions),
            transcendental: RecordedTranscendental(caps.transcendental),
            vector_bytes: caps.vector_bytes,
            vector_registers: caps.vector_registers,
            contractions: names(caps.contractions),
            fma: caps.fma,
            l1_bytes: caps.l1_bytes,
            l2_bytes: caps.l2_bytes,
            threads: caps.threads,
            alignment: caps.alignment,
            index: caps.index.to_string(),
            workgroups: caps.workgroups.map(RecordedWorkgroups),
        }
    }

    fn caps(self) -> Result<Caps, String> {
        let dtype = |name: &String| name.parse::<DType>().map_err(|error| error.to_string());
        let set = |names: &[String]| names.iter().map(dtype).collect::<Result<DTypeSet, String>>();
        Ok(Caps {
            storage: set(&self.storage)?,
            arithmetic: set(&self.arithmetic)?,
            conversions: set(&self.conversions)?,
            transcendental: self.transcendental.0,
            vector_bytes: self.vector_bytes,
            vector_registers: self.vector_registers,
            contractions: set(&self.contractions)?,
            fma: self.fma,
            l1_bytes: self.l1_bytes,
            l2_bytes: self.l2_bytes,
            threads: self.threads,
            alignment: self.alignment,
            index: dtype(&self.index)?,
            workgroups: self.workgroups.map(|RecordedWorkgroups(workgroups)| workgroups),
            target: self.target,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::NumericClass;

    #[test]
    fn settings_and_caps_are_read_back() {
        let mut settings =
            Settings { numerics: NumericClass::Real, half_constant_cutoff: 0.5, ..Settings::default() };
        settings.gpu.tf32 = true;
        settings.debugging.logs = "a folder".to_owned();
        let gpu = Caps::gpu("a GPU", Workgroups { subgroup_size: 32, ..Workgroups::new(256, 16 << 10) });
        let approximate = Caps { transcendental: Transcendental::Approximate, ..Caps::host("a CPU") };
        for caps in [gpu, approximate] {
            let compilation = CapsuleCompilation::new(&settings, &caps);
            let text = format!("test run\n{compilation}");
            let read = CapsuleCompilation::parse(&text).unwrap();
            assert_eq!((&read, read.caps()), (&compilation, Some(&caps)), "{text}");
            let loaded = read.settings().unwrap().settings;
            assert_eq!((loaded.numerics, loaded.half_constant_cutoff), (NumericClass::Real, 0.5));
            assert!(loaded.gpu.tf32 && loaded.debugging.logs == LOGS);
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let error = |text: &str| CapsuleCompilation::parse(text).unwrap_err().to_string();
        let found = error("test run\n; settings: fma");
        assert!(found.starts_with("line 2: `; settings: fma` is not what a capsule has there: "), "{found}");
        let found = error("; caps: Caps");
        assert!(found.starts_with("line 1: `; caps: Caps` is not what"), "{found}");
        let caps = CapsuleCompilation::new(&Settings::default(), &Caps::host("a CPU")).to_string();
        let found = error(&caps.replace("\"threads\":1", "\"threads\":0"));
        assert!(found.contains("`Caps::threads` is 0, expected at least 1"), "{found}");
        assert!(
            error(&caps.replace("\"index\":\"i64\"", "\"index\":\"x\"")).contains("`x` is no element type")
        );
    }
}
