//! Dialogues: messages, calls of tools and their results.

use std::str::FromStr;

use minijinja::{Value, value::Serde};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{ModelError, Result};

/// Messages, and the tools that the model may call.
///
/// ```
/// use arrayjit_models::{Dialogue, JsonValue, Message, ToolCall};
///
/// let tool: JsonValue = r#"{"type": "function", "function": {
///     "name": "temperature", "description": "The temperature of a city in °C.",
///     "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}"#
///     .parse()?;
/// let mut dialogue = Dialogue::from(vec![Message::user("How warm is it in Paris?")]);
/// dialogue.tools.push(tool);
/// // After the model has answered with a call:
/// let call = ToolCall::new("temperature", r#"{"city": "Paris"}"#.parse()?);
/// dialogue.messages.push(Message::calls(vec![call]));
/// dialogue.messages.push(Message::tool("temperature", "22.0"));
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// The messages, the oldest first.
    pub messages: Vec<Message>,
    /// The tools, each described by a JSON schema as OpenAI and `transformers` have them.
    pub tools: Vec<JsonValue>,
}

/// A message of a dialogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant` or `tool` with most templates.
    pub role: String,
    /// The text; empty if a message in JSON has none or `null`.
    #[serde(default, deserialize_with = "text_or_null")]
    pub content: String,
    /// The calls of tools that the message asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The name of the tool whose result the message has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The [name of the call](ToolCall::id) whose result the message has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolCall {
    #[serde(rename = "type", default)]
    kind: ToolKind,
    /// The name of this call, by which a message with its result refers to it. Some templates need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The function that is called, with its arguments.
    pub function: FunctionCall,
}

/// The kinds of tools: there are functions only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum ToolKind {
    #[default]
    Function,
}

/// A function by name, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FunctionCall {
    /// The name that the description of the tool has.
    pub name: String,
    /// An object with the arguments by name. OpenAI's clients write its text, which
    /// [`parsed`](JsonValue::parsed) reads.
    #[serde(alias = "parameters")]
    pub arguments: JsonValue,
}

/// A value of JSON whose keys stay in their order, which templates write them in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct JsonValue(Value);

fn text_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl FromStr for JsonValue {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<JsonValue> {
        Ok(serde_json::from_str(text)?)
    }
}

impl JsonValue {
    /// Returns the value that a text of JSON describes; any other value stays as it is.
    ///
    /// ```
    /// use arrayjit_models::JsonValue;
    ///
    /// let text: JsonValue = r#""{\"city\": \"Oslo\"}""#.parse()?;
    /// assert_eq!(text.parsed(), r#"{"city": "Oslo"}"#.parse()?);
    /// # Ok::<(), arrayjit_models::ModelError>(())
    /// ```
    pub fn parsed(self) -> JsonValue {
        self.0.as_str().and_then(|text| text.parse().ok()).unwrap_or(self)
    }
}

impl From<serde_json::Value> for JsonValue {
    fn from(value: serde_json::Value) -> JsonValue {
        JsonValue(Value::from(Serde(value)))
    }
}

impl ToolCall {
    /// Makes a call without a name of its own.
    pub fn new(function: impl Into<String>, arguments: JsonValue) -> ToolCall {
        let function = FunctionCall { name: function.into(), arguments };
        ToolCall { kind: ToolKind::Function, id: None, function }
    }
}

impl Message {
    /// Makes a message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// Makes a message that tells the model how to behave.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// Makes a message of the user.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// Makes a message with an earlier answer of the model.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }

    /// Makes a message by which the model has called tools.
    pub fn calls(tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::assistant("") }
    }

    /// Makes a message with the result of a tool.
    pub fn tool(name: impl Into<String>, result: impl Into<String>) -> Message {
        Message { name: Some(name.into()), ..Message::new("tool", result) }
    }
}

/// A message as templates see it: one that only calls tools has no content.
#[derive(Serialize)]
struct TemplateMessage<'m> {
    role: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'m str>,
    #[serde(skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: &'m [ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'m str>,
}

impl<'m> From<&'m Message> for TemplateMessage<'m> {
    fn from(message: &'m Message) -> TemplateMessage<'m> {
        let has_content = !message.content.is_empty() || message.tool_calls.is_empty();
        TemplateMessage {
            role: &message.role,
            content: has_content.then_some(message.content.as_str()),
            tool_calls: &message.tool_calls,
            name: message.name.as_deref(),
            tool_call_id: message.tool_call_id.as_deref(),
        }
    }
}

impl Dialogue {
    /// The messages as a list of objects.
    pub(crate) fn template_messages(&self) -> Value {
        self.messages.iter().map(|message| Value::from(Serde(TemplateMessage::from(message)))).collect()
    }

    /// Reads an answer of the model, with its calls of tools of this dialogue: objects of JSON with the name
    /// of a tool and its `arguments` or `parameters`, in the marks of whichever family of models. The content
    /// is the text in front of the first call, and the whole text if there is none.
    ///
    /// ```
    /// use arrayjit_models::{Dialogue, JsonValue, Message};
    ///
    /// let clock: JsonValue = r#"{"type": "function", "function": {"name": "clock"}}"#.parse()?;
    /// let dialogue = Dialogue { messages: vec![Message::user("What time is it?")], tools: vec![clock] };
    /// let answer = dialogue.parse_answer(r#"<tool_call>{"name": "clock", "arguments": {}}</tool_call>"#);
    /// assert_eq!((answer.content.as_str(), answer.tool_calls.len()), ("", 1));
    /// # Ok::<(), arrayjit_models::ModelError>(())
    /// ```
    pub fn parse_answer(&self, text: &str) -> Message {
        let mut answer = Message::assistant(text);
        let mut read = 0;
        while let Some(start) = text[read..].find('{').map(|at| read + at) {
            match written_call(&text[start..]).filter(|(call, _)| self.has_tool(&call.name)) {
                Some((call, length)) => {
                    if answer.tool_calls.is_empty() {
                        text_before_call(&text[..start]).clone_into(&mut answer.content);
                    }
                    answer.tool_calls.push(ToolCall::new(call.name, call.arguments.parsed()));
                    read = start + length;
                }
                None => read = start + 1,
            }
        }
        answer
    }

    fn has_tool(&self, name: &str) -> bool {
        let function = |tool: &JsonValue| match tool.0.get_attr("function") {
            Ok(function) if !function.is_undefined() => function,
            _ => tool.0.clone(),
        };
        self.tools
            .iter()
            .any(|tool| function(tool).get_attr("name").is_ok_and(|found| found.as_str() == Some(name)))
    }

    /// The tools as a list of objects; `none` if there are none.
    pub(crate) fn template_tools(&self) -> Value {
        match self.tools.as_slice() {
            [] => Value::from(()),
            tools => tools.iter().map(|tool| tool.0.clone()).collect(),
        }
    }
}

/// Returns the call that a text begins with, and the number of its bytes.
fn written_call(text: &str) -> Option<(FunctionCall, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let call = values.next()?.ok()?;
    Some((call, values.byte_offset()))
}

/// Returns the text in front of a call, without blanks and the mark that begins calls.
fn text_before_call(text: &str) -> &str {
    let text = text.trim_end();
    let text = text.strip_suffix('[').unwrap_or(text).trim_end(); // a list of calls
    let open = match text.chars().last() {
        Some('>') => text.rfind('<'),
        Some(']') => text.rfind('['),
        _ => None,
    };
    let is_mark = |mark: &str| ["call", "tool"].iter().any(|word| mark.to_lowercase().contains(word));
    open.filter(|&open| is_mark(&text[open..])).map_or(text, |open| text[..open].trim_end())
}

impl From<Vec<Message>> for Dialogue {
    fn from(messages: Vec<Message>) -> Dialogue {
        Dialogue { messages, tools: Vec::new() }
    }
}

impl From<&Dialogue> for Dialogue {
    fn from(dialogue: &Dialogue) -> Dialogue {
        dialogue.clone()
    }
}

impl From<&[Message]> for Dialogue {
    fn from(messages: &[Message]) -> Dialogue {
        messages.to_vec().into()
    }
}

impl From<&Vec<Message>> for Dialogue {
    fn from(messages: &Vec<Message>) -> Dialogue {
        messages.clone().into()
    }
}

impl<const N: usize> From<&[Message; N]> for Dialogue {
    fn from(messages: &[Message; N]) -> Dialogue {
        messages.to_vec().into()
    }
}
