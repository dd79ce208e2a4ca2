//! Chat templates: the texts of dialogues, where models keep their templates, and templates that fail. The
//! texts are those that Jinja2 3.1 makes with the options of transformers.

use std::fs;

use arrayjit_models::{GenerateOptions, LanguageModel, Message, ModelError};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    generated::{byte_tokenizer, fixture, folder, write_json},
    gguf::{chat_llama, written},
};

/// The bytes that no text in UTF-8 has are the marks of these dialogues.
const MARKS: [(&str, u32); 6] = [
    ("<s>", 248),
    ("</s>", 249),
    ("<|im_start|>", 250),
    ("<|im_end|>", 251),
    ("[INST]", 252),
    ("[/INST]", 253),
];

/// A tokenizer of bytes and marks, which puts `<s>` before each text.
fn chat_tokenizer() -> Value {
    let mut tokenizer = byte_tokenizer();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.retain(|_, id| id.as_u64() < Some(248));
    vocabulary.extend(MARKS.map(|(text, id)| (text.to_owned(), json!(id))));
    let added = MARKS.map(|(text, id)| {
        json!({"id": id, "content": text, "special": true, "normalized": false, "single_word": false,
            "lstrip": false, "rstrip": false})
    });
    tokenizer["added_tokens"] = json!(added);
    let template =
        json!([{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]);
    tokenizer["post_processor"] = json!({"type": "TemplateProcessing", "single": template, "pair": template,
        "special_tokens": {"<s>": {"id": "<s>", "ids": [248], "tokens": ["<s>"]}}});
    tokenizer
}

/// A model whose template is `template`.
pub(crate) fn with_template(template: Value) -> TempDir {
    let folder = folder(&fixture("llama"), Dtype::F32, &chat_tokenizer());
    let config =
        json!({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}, "chat_template": template});
    write_json(folder.path(), "tokenizer_config.json", &config);
    folder
}

fn rendered(template: &str, messages: &[Message]) -> Result<String, ModelError> {
    LanguageModel::load(with_template(json!(template)).path()).unwrap().chat_text(messages)
}

fn dialogue() -> Vec<Message> {
    vec![Message::user(" Hi "), Message::assistant("Hello."), Message::user("What's 1 < 2?")]
}

fn with_system() -> Vec<Message> {
    [vec![Message::system("Be brief.")], dialogue()].concat()
}

/// The form of Qwen and SmolLM, with a message of the system if the dialogue has none.
const CHATML: &str = "\
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'].split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}{% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
";

#[test]
fn chatml_adds_a_message_of_the_system() {
    let text = rendered(CHATML, &dialogue()).unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n\
         <|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWhat's 1 < 2?<|im_end|>\n\
         <|im_start|>assistant\n"
    );
    let thought = [Message::system("Be brief."), Message::assistant("<think>\nx</think>\n\nHello.")];
    assert_eq!(
        rendered(CHATML, &thought).unwrap(),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n\
         <|im_start|>assistant\n"
    );
}

#[test]
fn the_form_of_llama_3_has_a_header_before_each_message() {
    let template = "\
{{- bos_token }}
{%- set date = strftime_now('%%d %Y') if strftime_now is defined else 'then' %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_text = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_text = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Day: ' + date.split(' ')[0] + ', ' + date.split(' ')[1][:2] + '\\n\\n' }}
{{- system_text + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
";
    let rest = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
                <|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>\
                <|start_header_id|>user<|end_header_id|>\n\nWhat's 1 < 2?<|eot_id|>\
                <|start_header_id|>assistant<|end_header_id|>\n\n";
    let system = "<s><|start_header_id|>system<|end_header_id|>\n\nDay: %d, 20\n\n";
    assert_eq!(rendered(template, &with_system()).unwrap(), format!("{system}Be brief.{rest}"));
    assert_eq!(rendered(template, &dialogue()).unwrap(), format!("{system}{rest}"));
}

#[test]
fn the_form_of_mistral_rejects_roles_out_of_turn() {
    let template = "\
{{ bos_token }}{% set ns = namespace(system='') %}
{% for message in messages if message['role'] == 'system' %}{% set ns.system = message.content + '\\n\\n' %}{% endfor %}
{% for message in messages | rejectattr('role', 'equalto', 'system') | list %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('user and assistant must take turns: ' ~ message | tojson) }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + (ns.system if loop.last else '') + message['content'] + ' [/INST]' }}
{%- else %}
{{- ' ' + message['content'] | trim + eos_token }}
{%- endif %}
{% endfor %}";
    assert_eq!(
        rendered(template, &with_system()).unwrap(),
        "<s>[INST]  Hi  [/INST] Hello.<|im_end|>[INST] Be brief.\n\nWhat's 1 < 2? [/INST]"
    );
    let error = rendered(template, &[Message::user("\"é\\u0027' <b>"), Message::user("&")]).unwrap_err();
    let ModelError::ChatRejected { reason } = error else { panic!("{error}") };
    assert_eq!(reason, "user and assistant must take turns: {\"role\": \"user\", \"content\": \"&\"}");
}

#[test]
fn the_form_of_gemma_calls_the_assistant_model() {
    let template = "\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {{ raise_exception('no messages of the system') }}
{%- endif -%}
{%- for message in messages -%}
    {%- set role = {'assistant': 'model'}.get(message['role'], message['role']) -%}
    {{ '<start_of_turn>' + role + '\\n' + (message['content'] | trim if message.content is string else '') }}
    {{- '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
";
    assert_eq!(
        rendered(template, &dialogue()).unwrap(),
        "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n\
         <start_of_turn>user\nWhat's 1 < 2?<end_of_turn>\n<start_of_turn>model\n"
    );
    let error = rendered(template, &with_system()).unwrap_err();
    assert_eq!(error.to_string(), "the chat template rejects the messages: no messages of the system");
}

#[test]
fn json_is_written_as_by_python() {
    let template = "{{ messages | map(attribute='content') | list | tojson }}";
    let messages = ["\"é\\u0027' <b>\\", "&\n"].map(Message::user);
    assert_eq!(rendered(template, &messages).unwrap(), r#"["\"é\\u0027' <b>\\", "&\n"]"#);
}

#[test]
fn a_dialogue_has_one_mark_of_its_beginning_and_stops_at_the_end_of_a_message() {
    let template =
        "{{ bos_token }}{% for message in messages %}[INST]{{ message.content }}[/INST]{% endfor %}";
    let folder = with_template(json!(template));
    let mut model = LanguageModel::load(folder.path()).unwrap();
    assert_eq!(model.tokens("a").unwrap(), [248, 97]);
    let messages = [Message::user("a<s>"), Message::user("b")];
    assert_eq!(model.chat_tokens(&messages).unwrap(), [248, 252, 97, 248, 253, 252, 98, 253]);
    let options = GenerateOptions { max_tokens: 40, ..GenerateOptions::default() };
    let continued: Vec<u32> =
        model.chat(&messages, &options).unwrap().map(|token| token.unwrap().id).collect();
    let prompt = model.chat_tokens(&messages).unwrap();
    let alone: Vec<u32> =
        model.generate_from(prompt, &options).unwrap().map(|token| token.unwrap().id).collect();
    assert_eq!(continued, alone);
    // A token that the model makes becomes the one that ends a message, in each place that may name it.
    let end = continued[4];
    let first = continued.iter().position(|token| *token == end).unwrap();
    write_json(folder.path(), "generation_config.json", &json!({"eos_token_id": [255, end]}));
    let mut model = LanguageModel::load(folder.path()).unwrap();
    assert_eq!(model.chat(&messages, &options).unwrap().count(), first + 1);
    fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    let letter = chat_tokenizer()["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .find_map(|(letter, id)| (*id == json!(end)).then(|| letter.clone()));
    let config = json!({"bos_token": "<s>", "eos_token": letter, "chat_template": template});
    write_json(folder.path(), "tokenizer_config.json", &config);
    let mut model = LanguageModel::load(folder.path()).unwrap();
    assert_eq!(model.chat(&messages, &options).unwrap().count(), first + 1);
}

#[test]
fn templates_are_found_where_models_have_them() {
    let named =
        json!([{"name": "tools", "template": "no"}, {"name": "default", "template": "{{ bos_token }}yes"}]);
    let folder = with_template(named);
    let text = |folder: &TempDir| LanguageModel::load(folder.path()).unwrap().chat_text(&[]);
    assert_eq!(text(&folder).unwrap(), "<s>yes");
    fs::write(folder.path().join("chat_template.jinja"), "{{ eos_token }}\n").unwrap();
    assert_eq!(text(&folder).unwrap(), "<|im_end|>");
    let (_folder, path) = written(&chat_llama(Some("{{ bos_token ~ messages[0].content }}:")));
    let model = LanguageModel::load(&path).unwrap();
    assert_eq!(model.chat_text(&[Message::user("hi")]).unwrap(), "bhi:");
    let without = with_template(Value::Null);
    assert!(matches!(text(&without), Err(ModelError::NoChatTemplate)));
    let mut model = LanguageModel::load(without.path()).unwrap();
    let error = model.chat(dialogue(), &GenerateOptions::default()).err().unwrap();
    assert_eq!(error.to_string(), "the model has no chat template: it continues texts, by `generate`");
    for wrong in [json!([{"name": "tools", "template": "no"}]), json!(1)] {
        let error = LanguageModel::load(with_template(wrong).path()).err().unwrap().to_string();
        assert!(error.contains("tokenizer_config.json: `chat_template` of the configuration is"), "{error}");
    }
}

#[test]
fn templates_that_fail_are_typed_errors() {
    for (template, expected) in [
        ("{% for x in %}", "syntax error"),
        ("{{ messages[0].content.nonsense() }}", "unknown method"),
        ("{{ missing.field }}", "undefined"),
        ("{{ strftime_now('%!') }}", "strftime_now"),
    ] {
        let error = rendered(template, &dialogue()).unwrap_err();
        let ModelError::ChatTemplate(problem) = &error else { panic!("{error}") };
        assert!(problem.contains(expected), "{problem}");
    }
    for endless in [
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{{ 'x' * 999999999 }}",
        "{% macro again() %}{{ again() }}{{ again() }}{% endmacro %}{{ again() }}",
    ] {
        let error = rendered(endless, &dialogue()).unwrap_err();
        let is_bounded = matches!(&error, ModelError::ChatTemplateLimit { .. } | ModelError::ChatTemplate(_));
        assert!(is_bounded, "{error}");
    }
    let folder = with_template(Value::Null);
    fs::write(folder.path().join("chat_template.jinja"), " ".repeat((1 << 20) + 1)).unwrap();
    let error = LanguageModel::load(folder.path()).err().unwrap().to_string();
    assert!(error.ends_with("the chat template is 1048577 bytes long, expected at most 1048576"), "{error}");
}
