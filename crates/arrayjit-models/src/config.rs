//! Values of a configuration by key, with errors that name the key.

use std::{fs, path::Path};

use serde_json::{Map, Value};

use crate::error::{InFile, ModelError, Result};

/// An object of JSON, or the metadata of a GGUF file in the same form.
#[derive(Clone, Default)]
pub(crate) struct Config(pub(crate) Map<String, Value>);

/// The greatest size of an axis or of a context; larger numbers are mistakes.
const MAX_SIZE: u64 = 1 << 24;
/// The greatest number of layers.
const MAX_LAYERS: usize = 4096;

impl Config {
    /// Reads a file whose content is an object.
    pub(crate) fn read(path: &Path) -> Result<Config> {
        let text = fs::read(path).in_file(path)?;
        Ok(Config(serde_json::from_slice(&text).in_file(path)?))
    }

    /// [`read`](Config::read), or no keys if there is no such file.
    pub(crate) fn read_optional(path: &Path) -> Result<Config> {
        if path.exists() { Config::read(path) } else { Ok(Config::default()) }
    }

    /// The value of a key that is there and not `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn error(&self, key: &str, expected: impl Into<String>) -> ModelError {
        let found = self.0.get(key).map_or_else(|| "missing".to_owned(), Value::to_string);
        ModelError::Config { key: key.to_owned(), found, expected: expected.into() }
    }

    fn typed<'v, T>(
        &'v self,
        key: &str,
        expected: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Option<T>> {
        self.get(key).map(|value| read(value).ok_or_else(|| self.error(key, expected))).transpose()
    }

    /// A positive number of elements, layers or positions; none if the key is missing.
    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>> {
        let read = |value: &Value| value.as_u64().filter(|size| (1..=MAX_SIZE).contains(size));
        Ok(self.typed(key, "a number from 1 to 16777216", read)?.map(|size| size as usize))
    }

    /// [`size`](Config::size) of a key that must be there.
    pub(crate) fn needed_size(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| self.error(key, "a number"))
    }

    /// The number of layers, which must be there.
    pub(crate) fn layers(&self, key: &str) -> Result<usize> {
        let layers = self.needed_size(key)?;
        if layers > MAX_LAYERS {
            return Err(self.error(key, format!("at most {MAX_LAYERS}")));
        }
        Ok(layers)
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a finite number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    /// What is added to a variance before the root is taken.
    pub(crate) fn epsilon(&self, key: &str) -> Result<Option<f64>> {
        let is_valid = |number: &f64| (0.0..).contains(number) && number.is_finite();
        self.typed(key, "a finite number, 0 or more", |value| value.as_f64().filter(is_valid))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// Rejects a flag whose other value the crate does not compute.
    pub(crate) fn only(&self, key: &str, value: bool) -> Result<()> {
        match self.flag(key)? {
            Some(found) if found != value => Err(self.error(key, value.to_string())),
            _ => Ok(()),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a text", Value::as_str)
    }

    /// An object within this one; without keys if there is none.
    pub(crate) fn object(&self, key: &str) -> Result<Config> {
        Ok(Config(self.typed(key, "an object", Value::as_object)?.cloned().unwrap_or_default()))
    }

    /// One of the choices, by their names.
    pub(crate) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(found) = self.text(key)? else { return Ok(None) };
        let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        match choices.iter().find(|(name, _)| *name == found) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => Err(self.error(key, format!("one of {}", names()))),
        }
    }

    /// A number of tokens, or a list of them.
    pub(crate) fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
        let read = |value: &Value| match value {
            Value::Array(list) => list.iter().map(token).collect(),
            single => Some(vec![token(single)?]),
        };
        Ok(self.typed(key, "a token or a list of tokens", read)?.unwrap_or_default())
    }

    /// The error of a key whose value does not fit others.
    pub(crate) fn misfit(&self, key: &str, expected: impl Into<String>) -> ModelError {
        self.error(key, expected)
    }
}
