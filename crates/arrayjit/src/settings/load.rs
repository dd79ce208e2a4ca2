//! Loads settings from arguments, the environment and the nearest `arrayjit.toml`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value};
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use super::{
    FallbackSetting, NumericClass, Settings, SuggestedStreams, TensorCoreSetting, VectorSetting,
    dump::{pass_names, unknown_pass},
    removed,
};

/// Loaded settings, with the origin of each value and the keys that were not understood.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    /// The values.
    pub settings: Settings,
    /// `setting KEY (from ORIGIN)` for each key that is no setting, and a line of the same form for a pass in
    /// `dump` that does not exist.
    pub unknown: Vec<String>,
    /// `(key, origin)` of each value that is not a default.
    pub origins: Vec<(String, String)>,
}

/// Why settings could not be loaded.
// The inner error is part of the message and therefore no source: a report of the whole chain would repeat
// it.
#[derive(thiserror::Error)]
#[error("settings: {0}")]
pub struct SettingsError(ConfigError);

impl From<ConfigError> for SettingsError {
    fn from(error: ConfigError) -> SettingsError {
        SettingsError(error)
    }
}

impl Settings {
    /// Loads from the process's arguments and environment and the nearest `arrayjit.toml`.
    ///
    /// # Errors
    ///
    /// A file that does not parse, a value of the wrong type, a setting that is gone, or one that is not
    /// UTF-8; the message names the key, its origin, and the expected type or the replacement. Arguments and
    /// variables that are no settings may be anything.
    pub fn load() -> Result<LoadedSettings, SettingsError> {
        Settings::load_with(&[])
    }

    /// [`Settings::load`] with settings of a capsule, as keys and values. Only arguments override them.
    pub(crate) fn load_with(capsule: &[(String, String)]) -> Result<LoadedSettings, SettingsError> {
        let here = std::env::current_dir().unwrap_or_default();
        let args = own_arguments(std::env::args_os().skip(1))?;
        let env = own_variables(std::env::vars_os())?;
        load_layers(args, capsule, env, &here)
    }

    /// Loads from the given arguments, environment and folder, for a program that has arguments and files of
    /// its own.
    ///
    /// ```
    /// use arrayjit::Settings;
    ///
    /// let folder = std::env::temp_dir();
    /// let loaded = Settings::load_from(["--arrayjit-threads=3".to_owned()], [], &folder)?;
    /// assert_eq!(loaded.settings.threads, 3);
    /// assert_eq!(loaded.origins[0].0, "threads");
    /// # Ok::<(), arrayjit::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Settings::load`].
    pub fn load_from(
        args: impl IntoIterator<Item = String>,
        env: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<LoadedSettings, SettingsError> {
        load_layers(args, &[], env, folder)
    }
}

/// Loads from each source; earlier parameters take precedence.
fn load_layers(
    args: impl IntoIterator<Item = String>,
    capsule: &[(String, String)],
    env: impl IntoIterator<Item = (String, String)>,
    folder: &Path,
) -> Result<LoadedSettings, SettingsError> {
    let file = nearest_file(folder);
    let mut layers: Vec<Map<String, Value>> = Vec::new();
    if let Some(path) = file {
        layers.push(File::from(path).format(FileFormat::Toml).collect()?);
    }
    layers.push(env.into_iter().filter_map(from_environment).collect());
    layers.push(capsule.iter().map(from_capsule).collect());
    layers.push(args.into_iter().filter_map(|arg| from_argument(&arg)).collect());
    merge(layers)
}

/// Merges the layers and collects unknown keys. Later layers take precedence.
fn merge(layers: Vec<Map<String, Value>>) -> Result<LoadedSettings, SettingsError> {
    let known = Settings::keys();
    let mut builder = Config::builder().add_source(Config::try_from(&Settings::default())?);
    let (mut unknown, mut origins) = (Vec::new(), BTreeMap::new());
    for (key, value) in layers.into_iter().flatten() {
        let origin = value.origin().unwrap_or("nowhere").to_string();
        if known.contains(&key) {
            origins.insert(key.clone(), origin);
            builder = builder.set_override(key, value)?;
        } else if let Some(replacement) = removed::replacement(&key) {
            let gone = format!("setting {key} (from {origin}) is gone: {replacement}");
            return Err(ConfigError::Message(gone).into());
        } else {
            unknown.push(format!("setting {key} (from {origin})"));
        }
    }
    let config = builder.build()?;
    check_words(&config, &origins)?;
    check_counts(&config, &origins)?;
    let settings = read(&config)?;
    if let Some(pass) = unknown_pass(&settings.debugging.dump) {
        let origin = origins.get("dump").map_or("nowhere", String::as_str);
        let known: Vec<_> = pass_names().collect();
        let known = known.join(", ");
        unknown.push(format!("pass `{pass}` in setting dump (from {origin}); the passes are {known}"));
    }
    unknown.sort();
    Ok(LoadedSettings { settings, unknown, origins: origins.into_iter().collect() })
}

/// Checks the settings whose values are words. The error that `config` has for other words names our types
/// and neither the words nor the origin.
fn check_words(config: &Config, origins: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    fn check<T: DeserializeOwned>(word: &str) -> Result<(), serde::de::value::Error> {
        T::deserialize(word.into_deserializer()).map(drop)
    }
    type Check = fn(&str) -> Result<(), serde::de::value::Error>;
    let settings: [(&str, Check); 5] = [
        ("numerics", check::<NumericClass>),
        ("vector", check::<VectorSetting>),
        ("fallback", check::<FallbackSetting>),
        ("streams", check::<SuggestedStreams>),
        ("tensor_cores", check::<TensorCoreSetting>),
    ];
    settings.into_iter().try_for_each(|(key, check)| {
        let origin = origins.get(key).map_or("nowhere", String::as_str);
        let explained = |error| ConfigError::Message(format!("setting {key} (from {origin}): {error}"));
        check(&config.get_string(key)?).map_err(explained)
    })
}

/// Checks the settings whose values are integers of 0 or more. The error that `config` has for other values
/// expects an integer, which -1 is.
fn check_counts(config: &Config, origins: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
    let mut counts = defaults.as_object().into_iter().flatten().filter(|(_, default)| default.is_u64());
    counts.try_for_each(|(key, _)| {
        let found = config.get_string(key)?;
        let origin = origins.get(key).map_or("nowhere", String::as_str);
        let wrong =
            format!("setting {key} (from {origin}): expected an integer of 0 or more, found `{found}`");
        found.trim().parse::<u64>().map(drop).map_err(|_| ConfigError::Message(wrong))
    })
}

/// Reads every setting from `config`, which has a value for each key. Each group is read by itself, because
/// text from the environment becomes a number only in a struct that serde does not flatten.
fn read(config: &Config) -> Result<Settings, ConfigError> {
    Ok(Settings {
        backend: config.get("backend")?,
        threads: config.get("threads")?,
        num_devices: config.get("num_devices")?,
        numerics: config.get("numerics")?,
        vector: config.get("vector")?,
        half_constant_cutoff: config.get("half_constant_cutoff")?,
        fallback: config.get("fallback")?,
        scan_gradient_bytes: config.get("scan_gradient_bytes")?,
        narrow_gradients: config.get("narrow_gradients")?,
        tuning: config.clone().try_deserialize()?,
        streams: config.get("streams")?,
        pool_bytes: config.get("pool_bytes")?,
        reject_unwritten_reads: config.get("reject_unwritten_reads")?,
        gpu: config.clone().try_deserialize()?,
        debugging: config.clone().try_deserialize()?,
        code_cache_bytes: config.get("code_cache_bytes")?,
        code_folder: config.get("code_folder")?,
        code_folder_bytes: config.get("code_folder_bytes")?,
    })
}

fn nearest_file(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|dir| dir.join("arrayjit.toml")).find(|path| path.is_file())
}

/// The arguments that are settings.
fn own_arguments(args: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, SettingsError> {
    let own = args.into_iter().filter(|arg| Settings::is_argument(&arg.to_string_lossy()));
    own.map(|arg| utf8(arg, |text| format!("argument {text}"))).collect()
}

/// The environment variables that are settings.
fn own_variables(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, SettingsError> {
    let own = env.into_iter().filter(|(name, _)| name.to_string_lossy().starts_with("ARRAYJIT_"));
    own.map(|(name, value)| {
        let name = utf8(name, |text| format!("environment variable {text}"))?;
        let value = utf8(value, |text| format!("environment variable {name}={text}"))?;
        Ok((name, value))
    })
    .collect()
}

fn utf8(text: OsString, origin: impl FnOnce(&str) -> String) -> Result<String, SettingsError> {
    text.into_string().map_err(|text| {
        let shown = origin(&text.to_string_lossy());
        ConfigError::Message(format!("{shown} is not UTF-8, as settings are")).into()
    })
}

fn from_environment((name, value): (String, String)) -> Option<(String, Value)> {
    // The perf map belongs to the codegen that writes it and is read there.
    let key = name.strip_prefix("ARRAYJIT_").filter(|key| *key != "PERF_MAP")?.to_lowercase();
    Some((key, Value::new(Some(&format!("environment variable {name}")), value)))
}

fn from_capsule((key, value): &(String, String)) -> (String, Value) {
    (key.clone(), Value::new(Some(&"the capsule".to_owned()), value.clone()))
}

fn from_argument(arg: &str) -> Option<(String, Value)> {
    let (name, value) = arg.strip_prefix("--arrayjit-")?.split_once('=')?;
    let key = name.replace('-', "_").to_lowercase();
    Some((key, Value::new(Some(&format!("argument --arrayjit-{name}")), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|s| (*s).to_string()).collect()
    }

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()
    }

    fn folder_with(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("arrayjit.toml"), text).unwrap();
        dir
    }

    #[test]
    fn each_source_overrides_the_one_below() {
        let dir = folder_with("threads = 3\nbackend = \"inline\"\nvector = \"none\"\n");
        let below = dir.path().join("deeper");
        std::fs::create_dir(&below).unwrap();
        let loaded = Settings::load_from(
            strings(&["--arrayjit-threads=5", "--unrelated=1"]),
            env(&[("ARRAYJIT_THREADS", "4"), ("ARRAYJIT_BACKEND", "interpreter"), ("HOME", "x")]),
            &below,
        )
        .unwrap();
        assert_eq!(loaded.settings.threads, 5, "arguments win");
        assert_eq!(loaded.settings.backend, "interpreter", "then the environment");
        assert_eq!(loaded.settings.vector, VectorSetting::None, "then the file");
        assert_eq!(loaded.settings.debugging.level, 0, "then the defaults");
        assert!(loaded.unknown.is_empty());
        let (key, origin) = &loaded.origins[2];
        assert_eq!(key, "vector");
        assert!(origin.ends_with("arrayjit.toml"), "{origin}");
    }

    #[test]
    fn a_word_that_is_no_value_is_reported_with_its_origin_and_the_words_that_are() {
        for key in ["numerics", "vector", "fallback", "streams", "tensor_cores"] {
            let variable = format!("ARRAYJIT_{}", key.to_uppercase());
            let error =
                load_layers(strings(&[]), &[], env(&[(&variable, "wrong")]), Path::new("/")).unwrap_err();
            let begin =
                format!("settings: setting {key} (from environment variable {variable}): unknown variant");
            let message = error.to_string();
            assert!(message.starts_with(&begin) && message.contains("expected one of `"), "{message}");
        }
        let level = load_layers(strings(&["--arrayjit-debug=300"]), &[], [], Path::new("/")).unwrap_err();
        assert!(level.to_string().contains("300 is not below 256"), "{level}");
        let folder = folder_with("vector = 512\n");
        let message = load_layers(strings(&[]), &[], [], folder.path()).unwrap_err().to_string();
        assert!(message.contains("arrayjit.toml") && message.contains("`512`"), "{message}");
    }

    #[test]
    fn a_number_that_is_no_count_is_reported_with_its_origin() {
        for key in [
            "threads",
            "num_devices",
            "scan_gradient_bytes",
            "debug",
            "code_cache_bytes",
            "code_folder_bytes",
        ] {
            for value in ["-1", "2.5", "many", ""] {
                let variable = format!("ARRAYJIT_{}", key.to_uppercase());
                let error = load_layers(strings(&[]), &[], env(&[(&variable, value)]), Path::new("/"));
                let expected = format!(
                    "settings: setting {key} (from environment variable {variable}): expected an integer of 0 or more, found `{value}`"
                );
                assert_eq!(error.unwrap_err().to_string(), expected);
            }
        }
        let folder = folder_with("threads = -1\n");
        let message = load_layers(strings(&[]), &[], [], folder.path()).unwrap_err().to_string();
        assert!(
            message.contains("arrayjit.toml): expected an integer of 0 or more, found `-1`"),
            "{message}"
        );
    }

    #[test]
    fn a_capsule_overrides_all_but_arguments() {
        let folder = folder_with("tf32 = false\n");
        let capsule = [("numerics", "strict"), ("tf32", "true"), ("vector", "128"), ("unknown", "1")];
        let loaded = load_layers(
            strings(&["--arrayjit-numerics=real"]),
            &env(&capsule),
            env(&[("ARRAYJIT_VECTOR", "none"), ("ARRAYJIT_THREADS", "2")]),
            folder.path(),
        );
        let LoadedSettings { settings, unknown, .. } = loaded.unwrap();
        assert_eq!(settings.numerics, NumericClass::Real);
        assert_eq!((settings.gpu.tf32, settings.vector), (true, VectorSetting::Bits128));
        assert_eq!(settings.threads, 2);
        assert_eq!(unknown, ["setting unknown (from the capsule)"]);
    }

    #[test]
    fn every_group_is_read_from_text() {
        let folder = folder_with("");
        let arguments = [
            ("threads", "3"),
            ("num-devices", "2"),
            ("numerics", "strict"),
            ("vector", "128"),
            ("half-constant-cutoff", "0.5"),
            ("scan-gradient-bytes", "6"),
            ("streams", "for_parallel_copying"),
            ("pool-bytes", "9"),
            ("tune", "a.tune"),
            ("tune-search", "false"),
            ("tf32", "true"),
            ("cuda-device", "4"),
            ("debug", "5"),
            ("logs", "values"),
            ("code-cache-bytes", "7"),
            ("code-folder", "here"),
            ("code-folder-bytes", "8"),
        ];
        let arguments = arguments.map(|(key, value)| format!("--arrayjit-{key}={value}"));
        let settings = Settings::load_from(arguments, [], folder.path()).unwrap().settings;
        let Settings { threads, num_devices, numerics, tuning, gpu, debugging, .. } = &settings;
        assert_eq!((threads, num_devices, numerics), (&3, &2, &NumericClass::Strict));
        assert_eq!((settings.vector, settings.half_constant_cutoff), (VectorSetting::Bits128, 0.5));
        assert_eq!((&*tuning.file, tuning.search), ("a.tune", false));
        assert_eq!(settings.scan_gradient_bytes, 6);
        assert_eq!((settings.streams, settings.pool_bytes), (SuggestedStreams::ForParallelCopying, 9));
        assert_eq!((gpu.tf32, &*gpu.cuda_device, debugging.level), (true, "4", 5));
        assert_eq!((&*debugging.logs, settings.code_cache_bytes), ("values", 7));
        assert_eq!((&*settings.code_folder, settings.code_folder_bytes), ("here", 8));
    }

    #[test]
    fn a_setting_that_is_gone_says_what_replaces_it() {
        let folder = folder_with("");
        let error = Settings::load_from([], env(&[("ARRAYJIT_FMA", "never")]), folder.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "settings: setting fma (from environment variable ARRAYJIT_FMA) is gone: `numerics` is `strict`, \
             `fast` or `real`, and decides this too"
        );
    }

    #[test]
    fn unknown_keys_are_reported_with_their_origin() {
        let dir = folder_with("thread = 3\n");
        let loaded =
            Settings::load_from(strings(&["--arrayjit-bakend=x"]), env(&[("ARRAYJIT_FOO", "1")]), dir.path())
                .unwrap();
        assert_eq!(loaded.settings, Settings::default());
        assert_eq!(loaded.unknown.len(), 3);
        assert!(loaded.unknown.contains(&"setting bakend (from argument --arrayjit-bakend)".to_string()));
        assert!(loaded.unknown.contains(&"setting foo (from environment variable ARRAYJIT_FOO)".to_string()));
    }

    /// Arguments and variables that are no settings may be anything; settings have to be text.
    #[cfg(unix)]
    #[test]
    fn only_settings_have_to_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let args = own_arguments([os(b"\xff"), os(b"--other=\xff"), os(b"--arrayjit-threads=3")]).unwrap();
        assert_eq!(args, ["--arrayjit-threads=3"]);
        let variables =
            [(os(b"LANG\xff"), os(b"x")), (os(b"HOME"), os(b"\xff")), (os(b"ARRAYJIT_DEBUG"), os(b"1"))];
        assert_eq!(own_variables(variables).unwrap(), env(&[("ARRAYJIT_DEBUG", "1")]));
        let says = |error: SettingsError, what: &str| {
            let (text, what) = (error.to_string(), format!("{what} is not UTF-8, as settings are"));
            assert!(text.contains(&what), "{text}");
        };
        let rejected = own_arguments([os(b"--arrayjit-trace=a\xff")]).unwrap_err();
        says(rejected, "argument --arrayjit-trace=a\u{fffd}");
        let rejected = own_variables([(os(b"ARRAYJIT_TRACE"), os(b"a\xff"))]).unwrap_err();
        says(rejected, "environment variable ARRAYJIT_TRACE=a\u{fffd}");
        let rejected = own_variables([(os(b"ARRAYJIT_\xff"), os(b"1"))]).unwrap_err();
        says(rejected, "environment variable ARRAYJIT_\u{fffd}");
    }

    #[test]
    fn passes_in_dump_that_do_not_exist_are_reported() {
        let folder = folder_with("");
        let unknown = |dump: &str| {
            Settings::load_from([], env(&[("ARRAYJIT_DUMP", dump)]), folder.path()).unwrap().unknown
        };
        for dump in [
            "",
            "*",
            "*@step",
            "virtualize@step",
            "lower",
            "optimize",
            "schedule@step",
            "legalize@*",
            "divide",
        ] {
            assert_eq!(unknown(dump), [""; 0], "{dump}");
        }
        let [report] = &unknown("vritualize@step")[..] else { panic!("one report") };
        let start = "pass `vritualize` in setting dump (from environment variable ARRAYJIT_DUMP); the passes are lower, ";
        assert!(report.starts_with(start) && report.contains("virtualize"), "{report}");
        assert_eq!(unknown("step").len(), 1, "a routine without a pass");
    }

    #[test]
    fn a_key_given_twice_or_of_the_wrong_type_is_an_error() {
        let twice = folder_with("threads = 3\nthreads = 4\n");
        assert!(Settings::load_from([], [], twice.path()).is_err());
        let here = folder_with("");
        let error = Settings::load_from(strings(&["--arrayjit-threads=many"]), [], here.path()).unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
        let error =
            Settings::load_from(strings(&["--arrayjit-numerics=sloppy"]), [], here.path()).unwrap_err();
        assert!(error.to_string().contains("sloppy"), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "a source would repeat the message");
    }

    #[test]
    fn the_reference_file_lists_every_key_with_its_default() {
        let reference = include_str!("../../arrayjit.reference.toml");
        let dir = folder_with(reference);
        let loaded = Settings::load_from([], [], dir.path()).unwrap();
        assert_eq!(loaded.settings, Settings::default());
        assert!(loaded.unknown.is_empty(), "{:?}", loaded.unknown);
        let mut listed: Vec<String> = loaded.origins.into_iter().map(|(key, _)| key).collect();
        let mut keys = Settings::keys();
        listed.sort();
        keys.sort();
        assert_eq!(listed, keys);
    }
}
