//! Dialogues with tools: the texts are those that transformers makes.

use std::{fs, path::Path};

use arrayjit_models::{Dialogue, JsonValue, LanguageModel, Message, ModelError, ToolCall};
use serde::Deserialize;
use serde_json::json;

use crate::chat::with_template;

/// A dialogue with the text that a template makes of it; none if the template rejects it.
#[derive(Deserialize)]
struct Case {
    template: String,
    messages: Vec<Message>,
    tools: Vec<JsonValue>,
    text: Option<String>,
}

#[test]
fn texts_are_those_of_transformers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat_tools.json");
    let cases: Vec<Case> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert!(cases.iter().filter(|case| case.text.is_some()).count() >= 14);
    for Case { template, messages, tools, text } in cases {
        let model = LanguageModel::load(with_template(json!(template)).path()).unwrap();
        let found = model.chat_text(Dialogue { messages, tools });
        match text {
            Some(text) => assert_eq!(found.unwrap(), text),
            None => assert!(matches!(found, Err(ModelError::ChatRejected { .. }))),
        }
    }
}

#[test]
fn dialogues_with_tools_may_have_a_template_of_their_own() {
    let templates = json!([
        {"name": "default", "template": "{{ tools is none }}"},
        {"name": "tool_use", "template": "{{ tools[0].name }}"},
    ]);
    let folder = with_template(templates);
    let plain = Dialogue::from(vec![Message::user("x")]);
    let with_tool = Dialogue { tools: vec![r#"{"name": "clock"}"#.parse().unwrap()], ..plain.clone() };
    let texts = || {
        let model = LanguageModel::load(folder.path()).unwrap();
        [&plain, &with_tool].map(|dialogue| model.chat_text(dialogue).unwrap())
    };
    assert_eq!(texts(), ["True", "clock"]);
    fs::write(folder.path().join("chat_template.jinja"), "one").unwrap();
    assert_eq!(texts(), ["one", "one"]);
    let others = folder.path().join("additional_chat_templates");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("tool_use.jinja"), "another").unwrap();
    assert_eq!(texts(), ["one", "another"]);
}

#[test]
fn messages_are_those_of_openai_in_json() {
    let text = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"clock","arguments":"{\"zone\": 1}"}}]}"#;
    let message: Message = serde_json::from_str(text).unwrap();
    let mut call = ToolCall::new("clock", json!("{\"zone\": 1}").into());
    call.id = Some("a".to_owned());
    assert_eq!(message, Message::calls(vec![call]));
    let written = serde_json::to_string(&Message::user("x")).unwrap();
    assert_eq!(written, r#"{"role":"user","content":"x"}"#);
    assert!(matches!("{".parse::<JsonValue>(), Err(ModelError::Json(_))));
}

#[test]
fn calls_are_read_in_the_forms_of_several_families() {
    let tools =
        ["weather", "clock"].map(|name| json!({"type": "function", "function": {"name": name}}).into());
    let dialogue = Dialogue { tools: tools.to_vec(), ..Dialogue::default() };
    let weather = ToolCall::new("weather", r#"{"city": "Oslo", "at": {"day": 1}}"#.parse().unwrap());
    let clock = ToolCall::new("clock", r#"{}"#.parse().unwrap());
    let (one, both) = (vec![weather.clone()], vec![weather, clock]);
    for (text, content, calls) in [
        (
            r#"<tool_call>
{"name": "weather", "arguments": {"city": "Oslo", "at": {"day": 1}}}
</tool_call>
<tool_call>
{"name": "clock", "arguments": {}}
</tool_call>"#,
            "",
            &both,
        ),
        (
            r#"I ask. [TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Oslo", "at": {"day": 1}}},
            {"name": "clock", "arguments": {}}]"#,
            "I ask.",
            &both,
        ),
        (r#"{"name": "weather", "parameters": {"city": "Oslo", "at": {"day": 1}}}"#, "", &one),
        (
            r#"See [1]: {"type": "function", "name": "weather",
            "arguments": "{\"city\": \"Oslo\", \"at\": {\"day\": 1}}"}"#,
            "See [1]:",
            &one,
        ),
        (
            r#"{"calls": [{"name": "weather", "arguments": {"city": "Oslo", "at": {"day": 1}}}]}"#,
            r#"{"calls":"#,
            &one,
        ),
    ] {
        let answer = dialogue.parse_answer(text);
        assert_eq!((answer.role.as_str(), answer.content.as_str()), ("assistant", content));
        assert_eq!(answer.tool_calls, *calls, "{text}");
    }
    for text in [
        r#"{"name": "rocket", "arguments": {}}"#,
        r#"{"name": "clock"}"#,
        r#"{"name": "clock", "arguments": {"#,
        "{{{{ [<é>] }",
        "",
    ] {
        assert_eq!(dialogue.parse_answer(text), Message::assistant(text));
    }
    let without = Dialogue::default().parse_answer(r#"{"name": "clock", "arguments": {}}"#);
    assert!(without.tool_calls.is_empty());
}
