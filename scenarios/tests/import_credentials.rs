//! Whatever is imported, and wherever its credentials stand: none is in the file, in a note or in an
//! error, none goes where another was asked for, and the file is one that `check` passes.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use unstall_scenarios::import::{self, ImportError, Imported, Options};
use unstall_scenarios::render::RenderedRequest;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan};

/// Begins each half of a credential: nothing else has it.
const MARK: &str = "hush";

const HEADERS: [&str; 12] = [
    "X-Auth-Key",
    "Ocp-Apim-Subscription-Key",
    "DD-APPLICATION-KEY",
    "x-functions-key",
    "X-Session",
    "X-Api-Key",
    "X-CSRF-Token",
    "Private-Token",
    "Authorization",
    "Cookie",
    "X-Amz-Security-Token",
    "Api-Secret",
];
const FIELDS: [&str; 12] = [
    "password",
    "pin",
    "client_secret",
    "accessToken",
    "refresh_tokens",
    "apiKey",
    "user[pwd]",
    "smtpPass",
    "connect.sid",
    "otp",
    "session_id",
    "private-key",
];

/// As a shell reads it as one word.
fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// As a URL or a form has it.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Command lines that hold `value` as a credential, some of a header or field of that name.
fn commands(header: &str, field: &str, value: &str) -> Vec<String> {
    let url = "https://a.example/x";
    let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    let coded = encoded(value);
    let with = |option: &str, text: &str| format!("curl {option} {} {url}", shell(text));
    let mut all = vec![
        with("-H", &format!("{header}: {value}")),
        with("-H", &format!("Authorization: Bearer {value}")),
        with("-H", &format!("Cookie: a=1; {field}={plain}")),
        format!("curl -H \"Cookie: {field}={plain}; a=$A\" {url}"),
        format!("curl -H \"{header}: ${{A}}{plain}\" {url}"),
        with("-b", &format!("sid={value}")),
        with("-b", value.trim_matches('=')),
        with("-u", &format!("joe:{value}")),
        with("--oauth2-bearer", value),
        with("-e", &format!("https://b.example/?{field}={coded}")),
        with("--url-query", &format!("{field}={value}")),
        with("-d", &format!("a=1&{field}={coded}")),
        with("--data-urlencode", &format!("{field}={value}")),
        with("-G -d", &format!("{field}={coded}")),
        with("-d", &format!("a b&{field}={coded}")),
        with("-d", &json!({"a": 1, field: value}).to_string()),
        with("--json", &json!({"a": [{field: [value]}]}).to_string()),
        with(
            "--json",
            &json!({"a": json!({field: value}).to_string()}).to_string(),
        ),
        with(
            "--json",
            &json!({"q": format!("https://b.example/?{field}={coded}")}).to_string(),
        ),
        format!("curl 'https://a.example/x?{field}={coded}'"),
        format!("curl 'https://a.example/x?key={coded}'"),
        format!("curl 'https://joe:{coded}@a.example/x'"),
        format!("curl 'https://a.example/x;jsessionid={plain}'"),
        format!(
            "TOKEN={}\ncurl -H \"Authorization: Bearer $TOKEN\" {url}",
            shell(value)
        ),
        format!("TOKEN={} curl {url}", shell(value)),
        format!(
            "curl {url} \n -H{}",
            shell(&format!("authorization:{value}"))
        ),
        format!("curl -H \"Authorization: Bearer ${{T:-{plain}}}\" {url}"),
        format!("curl -H \"{header}: ${{T:-{plain}}}\" {url}"),
        format!("curl -d \"{field}=${{T:-{plain}}}\" {url}"),
        format!("curl --json \"{{\\\"{field}\\\": \\\"${{T:-{plain}}}\\\"}}\" {url}"),
        format!("curl \"${{BASE:-https://joe:{plain}@a.example}}/x\""),
    ];
    let options = [
        "--proxy-user",
        "-U",
        "--pass",
        "-x",
        "--cert",
        "-E",
        "--key",
        "--noproxy",
    ];
    for option in options {
        all.push(with(option, &format!("a:{value}")));
    }
    if !value.contains(';') {
        all.push(with("-F", &format!("{field}={value}")));
    }
    all
}

/// Command lines whose bodies are no form and no JSON that could be kept as such.
fn texts(field: &str, value: &str) -> Vec<String> {
    let typed = |content_type: &str, text: &str| {
        let text = shell(text);
        format!("curl -H 'content-type: {content_type}' -d {text} https://a.example/x")
    };
    let quoted = json!(value).to_string();
    let mut all = Vec::new();
    for number in [
        "10.00",
        "1e400",
        "${ID}",
        "012",
        "123456789012345678901234567890",
    ] {
        all.push(typed(
            "application/json",
            &format!("{{\"a\": {number}, \"{field}\": {quoted}}}"),
        ));
        all.push(typed(
            "application/json",
            &format!("{{\"{field}\": {{\"b\": {quoted}}}, \"a\": {number}}}"),
        ));
        all.push(typed(
            "text/plain",
            &format!("[{number}, {{\"{field}\" : {quoted}}}]"),
        ));
    }
    let escaped = value.replace('&', "&amp;");
    let name = field.replace(['[', '-', '.'], "_").replace(']', "");
    all.push(typed(
        "text/xml",
        &format!("<e><s:{name} a=\"b\">{escaped}</s:{name}></e>"),
    ));
    all.push(typed("application/yaml", &format!("a: b\n{name}: {value}")));
    all.push(typed(
        "application/graphql",
        &format!("{{login({name}: {quoted}) {{id}}}}"),
    ));
    all
}

/// Mistakes around a credential.
fn mistakes(value: &str) -> Vec<String> {
    let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    vec![
        format!(
            "curl https://a.example -H {}",
            shell(&value.replace(':', " "))
        ),
        format!(
            "curl https://a.example --header={}",
            shell(&format!("authorization: Bearer {value}"))
        ),
        format!("curl https://a.example -H \"Authorization: Bearer ${{T:?{plain}}}\""),
        format!("curl https://a.example -H \"Authorization: Bearer ${{T:-{plain}$A}}\""),
        format!("curl 'ftp://joe:{plain}@a.example/{plain}?token={plain}'"),
        format!("curl https://a.example -F {}", shell(&plain)),
        format!("curl https://a.example -d a -d @x --pass {}", shell(value)),
    ]
}

fn recording(header: &str, field: &str, value: &str) -> Vec<String> {
    let post = |mime: &str, text: String| json!({"mimeType": mime, "text": text});
    let form =
        json!({"mimeType": "multipart/form-data", "params": [{"name": field, "value": value}]});
    let inexact = format!("{{\"a\": 10.00, \"{field}\": {}}}", json!(value));
    let requests = [
        json!({"headers": [{"name": header, "value": value}]}),
        json!({"headers": [{"name": "cookie", "value": format!("a={value}")}]}),
        json!({"postData": post("application/json", json!({field: value}).to_string())}),
        json!({"postData": post("application/json", inexact)}),
        json!({"postData": post("application/x-www-form-urlencoded", format!("{field}={}", encoded(value)))}),
        json!({"postData": form}),
    ];
    let entry = |mut request: serde_json::Value| {
        request["method"] = json!("POST");
        request["url"] = json!(format!("https://a.example/x?{field}={}", encoded(value)));
        json!({"log": {"entries": [{"request": request}]}}).to_string()
    };
    requests.into_iter().map(entry).collect()
}

#[track_caller]
fn check(made: Result<Imported, ImportError>, input: &str) -> Result<(), TestCaseError> {
    let imported = match made {
        Ok(imported) => imported,
        Err(error) => {
            prop_assert!(!error.to_string().contains(MARK), "{input}\n{error}");
            return Ok(());
        }
    };
    prop_assert!(!imported.text.contains(MARK), "{input}\n{}", imported.text);
    prop_assert!(
        !imported.notes.concat().contains(MARK),
        "{input}\n{:?}",
        imported.notes
    );
    let plan = Plan::parse(
        &imported.text,
        Path::new("examples/a.toml"),
        &Inputs::default(),
    );
    prop_assert!(
        plan.is_ok(),
        "{input}\n{}\n{}",
        plan.unwrap_err(),
        imported.text
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_credential_is_kept(
        header in prop::sample::select(&HEADERS[..]),
        field in prop::sample::select(&FIELDS[..]),
        first in "[A-Za-z0-9]{4,12}",
        between in prop::sample::select(vec!["", "+", "/", "%", "\"", "\\", "é", ":", "@", "!", "=", "'", "$", "${", "#", "-"]),
        second in "[A-Za-z0-9]{4,12}",
    ) {
        let value = format!("{MARK}{first}{between}{MARK}{second}");
        for command in commands(header, field, &value).into_iter().chain(texts(field, &value)) {
            let made = import::curl(&command, &Options::default());
            prop_assert!(made.is_ok(), "{command}\n{}", made.unwrap_err());
            check(made, &command)?;
        }
        for command in mistakes(&value) {
            check(import::curl(&command, &Options::default()), &command)?;
        }
        for text in recording(header, field, &value) {
            let made = import::har(&text, &Options::default());
            prop_assert!(made.is_ok(), "{text}\n{}", made.unwrap_err());
            check(made, &text)?;
        }
    }
}

#[test]
fn a_number_is_a_credential_too() {
    let imported = import::curl(
        "curl --json '{\"pin\": 123456, \"n\": 1}' https://a.example/x",
        &Options::default(),
    )
    .unwrap();
    assert!(!imported.text.contains("123456"), "{}", imported.text);
    assert!(
        imported.text.contains("# `pin` was a number"),
        "{}",
        imported.text
    );
}

fn environment(values: &[(&str, &str)]) -> Inputs {
    let mut inputs = Inputs::default();
    for (name, value) in values {
        inputs.environment.insert((*name).into(), (*value).into());
    }
    inputs
}

#[track_caller]
fn sent(imported: &Imported, inputs: &Inputs) -> Vec<RenderedRequest> {
    let plan = match Plan::parse(&imported.text, Path::new("a.toml"), inputs) {
        Ok(plan) => Arc::new(plan),
        Err(error) => panic!("{error}\n{}", imported.text),
    };
    let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    let requests = plan.requests.iter();
    requests
        .map(|request| request.render(&scope).unwrap())
        .collect()
}

/// A description whose parameter, field and schemes are all called so.
fn description(name: &str, scheme: &serde_json::Value) -> String {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "a"},
        "paths": {"/resets/{token}/{name}": {"post": {
            "security": [{name: []}],
            "parameters": [
                {"in": "path", "name": "token", "required": true, "schema": {"type": "string"}},
                {"in": "path", "name": "name", "required": true, "schema": {"type": "string"}},
                {"in": "query", "name": "token", "required": true, "schema": {"type": "string"}},
            ],
            "requestBody": {"content": {"application/json": {"schema": {
                "type": "object",
                "required": ["token", name],
                "properties": {"token": {"type": "string"}, name: {"type": "string"}}}}}},
        }}},
        "components": {"securitySchemes": {name: scheme}},
    })
    .to_string()
    .replace("{name}", &format!("{{{name}}}"))
    .replace("\"name\":\"name\"", &format!("\"name\":\"{name}\""))
}

proptest! {
    #[test]
    fn a_descriptions_credential_goes_where_it_is_asked_for_alone(
        name in "[A-Za-z][A-Za-z_]{0,8}|TOKEN|basic_credentials|password|Api-Key",
        kind in 0..5usize,
    ) {
        prop_assume!(name != "token");
        let scheme = [
            json!({"type": "http", "scheme": "bearer"}),
            json!({"type": "http", "scheme": "basic"}),
            json!({"type": "apiKey", "in": "header", "name": "X-Own"}),
            json!({"type": "apiKey", "in": "query", "name": "own"}),
            json!({"type": "apiKey", "in": "cookie", "name": "own"}),
        ][kind].clone();
        let text = description(&name, &scheme);
        let imported = import::openapi(&text, &Options::default()).unwrap();
        // Each variable of the environment is seen where it is sent.
        let plan: toml::Table = toml::from_str(&imported.text).unwrap();
        let vars = plan["vars"].as_table().unwrap();
        let names: Vec<String> = vars
            .values()
            .filter_map(|var| Some(var.get("env")?.as_str()?.to_owned()))
            .collect();
        for filled in &names {
            let request = &sent(&imported, &environment(&[(filled, "MARKED")]))[0];
            let scheme_has = match kind {
                3 => request.path_and_query.contains("own=MARKED"),
                _ => request.headers.iter().any(|(_, value)| value.contains("MARKED")),
            };
            let (path, query) = request.path_and_query.split_once('?').unwrap();
            let query_has = query.split('&').any(|pair| pair == "token=MARKED");
            let body_has = String::from_utf8_lossy(&request.body).contains("MARKED");
            prop_assert!(!path.contains("MARKED"), "{filled}\n{}", imported.text);
            prop_assert!(
                !(scheme_has && (body_has || query_has)),
                "{filled}: {request:?}\n{}",
                imported.text
            );
        }
    }
}

#[test]
fn a_shells_variable_is_not_filled_with_a_credential() {
    for name in ["TOKEN", "token"] {
        let command =
            format!("curl \"https://a.example/$X/${name}\" -H 'Authorization: Bearer {MARK}1234'");
        let imported = import::curl(&command, &Options::default()).unwrap();
        let request = &sent(
            &imported,
            &environment(&[("TOKEN_2", "t-2"), (name, "t-1")]),
        )[0];
        assert!(request.path_and_query.ends_with("/t-1"), "{request:?}");
        let headers = &request.headers;
        assert!(
            headers.iter().any(|(_, value)| value == "Bearer t-2"),
            "{request:?}"
        );
    }
}
