//! Chat templates: programs in Jinja that write the messages of a dialogue as the text that a model was
//! trained with.
//!
//! They are rendered as the package `transformers` does: blocks take the line break behind them and the
//! blanks before them away, values have Python's methods, and `raise_exception` and `strftime_now` exist.

use std::{collections::BTreeMap, error::Error as _, fmt, fs, path::Path};

use jiff::{Timestamp, fmt::strtime, tz::TimeZone};
use minijinja::{Environment, Error, ErrorKind, Value, syntax::SyntaxConfig, value::Kwargs};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::Value as Json;

use crate::{
    config::Config,
    dialogue::Dialogue,
    error::{InFile, ModelError, Result, format_error},
};

/// A rendering takes about one unit for each instruction and for 64 bytes of values.
const FUEL: u64 = 2_000_000;
/// The longest template; those of the hub are some kilobytes long.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

/// A template with the texts of the special tokens that it names.
pub(crate) struct ChatTemplate {
    source: String,
    /// The template of dialogues with tools, if it is another one.
    source_with_tools: Option<String>,
    /// The value of each name, such as `bos_token`.
    marks: Vec<(String, String)>,
}

impl ChatTemplate {
    pub(crate) fn new(source: String, marks: Vec<(String, String)>) -> ChatTemplate {
        ChatTemplate { source: without_generation_blocks(&source), source_with_tools: None, marks }
    }

    /// Reads `chat_template.jinja`, or else `chat_template` of `tokenizer_config.json`. Returns the text of
    /// the token that ends a message too, if the files name it.
    pub(crate) fn of_folder(folder: &Path) -> Result<(Option<ChatTemplate>, Option<String>)> {
        let path = folder.join("tokenizer_config.json");
        let config = Config::read_optional(&path)?;
        let marks = marks(&config);
        let end = marks.iter().find(|(name, _)| name == "eos_token").map(|(_, text)| text.clone());
        let [source, with_tools] = ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"]
            .map(|name| read_source(&folder.join(name)));
        let (source, with_tools) = match (source?, with_tools?) {
            (None, _) => configured_sources(&config).in_file(&path)?,
            sources => sources,
        };
        let template = source.map(|source| ChatTemplate {
            source_with_tools: with_tools.as_deref().map(without_generation_blocks),
            ..ChatTemplate::new(source, marks)
        });
        Ok((template, end))
    }

    /// The text of a dialogue, up to the beginning of an answer.
    pub(crate) fn render(&self, dialogue: &Dialogue) -> Result<String> {
        let mut values: BTreeMap<&str, Value> =
            self.marks.iter().map(|(name, text)| (name.as_str(), Value::from(text))).collect();
        values.insert("messages", dialogue.template_messages());
        values.insert("tools", dialogue.template_tools());
        values.insert("documents", ().into());
        values.insert("add_generation_prompt", true.into());
        let source = match &self.source_with_tools {
            Some(source) if !dialogue.tools.is_empty() => source,
            _ => &self.source,
        };
        let environment = environment().map_err(problem)?;
        let template = environment.template_from_str(source).map_err(problem)?;
        template.render(values).map_err(problem)
    }
}

/// The keys of a configuration that name a token, with its text.
fn marks(config: &Config) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned);
    let tokens = config.0.iter().filter(|(name, _)| name.ends_with("_token"));
    tokens.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

/// The template of a file; none if there is no such file.
fn read_source(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    let length = fs::metadata(path).in_file(path)?.len();
    if length > MAX_TEMPLATE_BYTES {
        let found = format!("{length} bytes long");
        return Err(
            format_error("the chat template", found, format!("at most {MAX_TEMPLATE_BYTES}")).in_file(path)
        );
    }
    Ok(Some(fs::read_to_string(path).in_file(path)?))
}

/// A template, and the one of dialogues with tools.
type Sources = (Option<String>, Option<String>);

/// Reads `chat_template`: a text, or a list whose entries `default` and `tool_use` are taken.
fn configured_sources(config: &Config) -> Result<Sources> {
    let named = |list: &[Json], name: &str| {
        let template = list.iter().find(|template| template["name"] == name);
        template.and_then(|template| template["template"].as_str()).map(str::to_owned)
    };
    match config.get("chat_template") {
        None => Ok((None, None)),
        Some(Json::String(source)) => Ok((Some(source.clone()), None)),
        Some(Json::Array(list)) if named(list, "default").is_some() => {
            Ok((named(list, "default"), named(list, "tool_use")))
        }
        Some(_) => Err(config.misfit("chat_template", "a text, or a list with a text named `default`")),
    }
}

/// Removes the blocks by which templates mark answers for training. They change no text.
fn without_generation_blocks(source: &str) -> String {
    let mut rest = source;
    let mut result = String::with_capacity(source.len());
    while let Some((before, behind)) = rest.split_once("{%") {
        let Some((block, others)) = behind.split_once("%}") else { break };
        let block = match block.trim_matches(['-', '+', ' ', '\t', '\n']) {
            "generation" => block.replace("generation", "if true"),
            "endgeneration" => block.replace("endgeneration", "endif"),
            _ => block.to_owned(),
        };
        result.extend([before, "{%", &block, "%}"]);
        rest = others;
    }
    result + rest
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    Ok(environment)
}

/// The reason for which a template rejects messages.
#[derive(Debug)]
struct Rejection(String);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Rejection {}

fn raise_exception(reason: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Rejection(reason)))
}

/// Formats the time in UTC.
fn strftime_now(format: &str) -> Result<String, Error> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    strtime::format(format, &now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, "strftime_now").with_source(error))
}

/// JSON as Python writes it: without the codes by which the filter of minijinja makes it safe in HTML.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let json = minijinja::filters::tojson(value, indent, options)?;
    let mut rest = json.as_str().unwrap_or_default();
    let mut result = String::with_capacity(rest.len());
    while let Some((before, code)) = rest.split_once('\\') {
        result += before;
        let html = [("u003c", "<"), ("u003e", ">"), ("u0026", "&"), ("u0027", "'")];
        let letter = html.iter().find_map(|(name, letter)| Some((*letter, code.strip_prefix(name)?)));
        if let Some((letter, behind)) = letter {
            result += letter;
            rest = behind;
        } else {
            let length = code.chars().next().map_or(0, char::len_utf8);
            result.push('\\');
            result += &code[..length];
            rest = &code[length..];
        }
    }
    Ok(Value::from(result + rest))
}

/// The error of this crate for one of minijinja.
fn problem(error: Error) -> ModelError {
    if error.kind() == ErrorKind::OutOfFuel {
        return ModelError::ChatTemplateLimit { limit: FUEL };
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Rejection(reason)) = cause.downcast_ref() {
            return ModelError::ChatRejected { reason: reason.clone() };
        }
        source = cause.source();
    }
    ModelError::ChatTemplate(error.to_string())
}
