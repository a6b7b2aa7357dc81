//! Imports: what becomes of curl commands, recordings and descriptions. Whatever is imported, the
//! file is one that `check` passes, and no credential is in it.

use std::path::Path;
use std::sync::Arc;

use unstall_scenarios::import::{self, ImportError, Imported, Options};
use unstall_scenarios::render::RenderedRequest;
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan};

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new("tests/imports").join(name)).unwrap()
}

/// The plan of an import. Files that it names are those of the format's example.
#[track_caller]
fn checked(imported: &Imported) -> Arc<Plan> {
    assert!(!imported.text.contains("hush"), "{}", imported.text);
    let origin = Path::new("examples/imported.toml");
    match Plan::parse(&imported.text, origin, &Inputs::default()) {
        Ok(plan) => Arc::new(plan),
        Err(error) => panic!("{error}\n{}", imported.text),
    }
}

#[track_caller]
fn curl(text: &str) -> Imported {
    match import::curl(text, &Options::default()) {
        Ok(imported) => imported,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The first request of a curl command, as it would be sent.
#[track_caller]
fn sent(command: &str) -> RenderedRequest {
    let imported = curl(command);
    let plan = checked(&imported);
    let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
    plan.requests[0].render(&scope).unwrap()
}

fn body(sent: &RenderedRequest) -> &str {
    std::str::from_utf8(&sent.body).unwrap()
}

fn header<'s>(sent: &'s RenderedRequest, name: &str) -> Option<&'s str> {
    let found = sent.headers.iter().find(|(header, _)| header == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn what_a_browser_copies_as_curl() {
    let imported = curl(&text("devtools.curl"));
    checked(&imported);
    insta::assert_snapshot!(imported.text);
}

#[test]
fn what_people_write() {
    let imported = curl(&text("manual.curl"));
    let plan = checked(&imported);
    assert_eq!(plan.client.redirects_max, 50);
    insta::assert_snapshot!(imported.text);
}

#[test]
fn a_browsers_recording() {
    let imported = import::har(&text("browser.har"), &Options::default()).unwrap();
    let plan = checked(&imported);
    assert!(plan.client.cookies && plan.client.compression);
    insta::assert_snapshot!(imported.text);

    let options = Options {
        name: Some("pay".to_owned()),
        hosts: vec!["pay.example".to_owned(), "cdn.example".to_owned()],
        keeps_static: true,
    };
    let imported = import::har(&text("browser.har"), &options).unwrap();
    checked(&imported);
    insta::assert_snapshot!(imported.text);
}

#[test]
fn descriptions_of_apis() {
    for name in ["petstore.yaml", "modern.json"] {
        let imported = import::openapi(&text(name), &Options::default()).unwrap();
        let plan = checked(&imported);
        let scope = Scope::new(Arc::clone(&plan), 0, 1, 0);
        for request in &plan.requests {
            request.render(&scope).unwrap();
        }
        insta::assert_snapshot!(name, imported.text);
    }
}

#[test]
fn a_filled_environment_is_sent_and_redacted() {
    let imported =
        curl("curl https://a.example/x -H 'authorization: Bearer hush-1' -d 'password=hush-2&a=b'");
    let mut inputs = Inputs::default();
    inputs.environment.insert("TOKEN".into(), "t-1".into());
    inputs.environment.insert("PASSWORD".into(), "p-1".into());
    let plan = Plan::parse(&imported.text, Path::new("a.toml"), &inputs).unwrap();
    let plan = Arc::new(plan);
    let sent = plan.requests[0]
        .render(&Scope::new(Arc::clone(&plan), 0, 1, 0))
        .unwrap();
    assert_eq!(header(&sent, "authorization"), Some("Bearer t-1"));
    assert_eq!(body(&sent), "password=p-1&a=b");
    assert_eq!(plan.redact("t-1 p-1"), "[secret] [secret]");
    // Without it neither is sent.
    let without = self::sent(
        "curl https://a.example/x -H 'authorization: Bearer hush-1' -d 'password=hush-2&a=b'",
    );
    assert_eq!(header(&without, "authorization"), None);
    assert_eq!(body(&without), "a=b");
}

#[test]
fn bodies_are_sent_as_curl_sends_them() {
    for (command, method, content_type, expected) in [
        (
            "-d 'a=1' -d 'b=x+y%21'",
            "POST",
            "application/x-www-form-urlencoded",
            "a=1&b=x+y%21",
        ),
        (
            "-d 'a=1&a=2'",
            "POST",
            "application/x-www-form-urlencoded",
            "a=1&a=2",
        ),
        (
            "-d 'just text'",
            "POST",
            "application/x-www-form-urlencoded",
            "just text",
        ),
        (
            "-d '{\"a\":1}'",
            "POST",
            "application/x-www-form-urlencoded",
            "{\"a\":1}",
        ),
        (
            "--json '{\"a\":1}'",
            "POST",
            "application/json",
            "{\"a\":1}",
        ),
        (
            "--json '{\"a\":' --json 'null}'",
            "POST",
            "application/json",
            "{\"a\":null}",
        ),
        (
            "-X PATCH -H 'content-type: application/merge-patch+json' -d '{\"a\":\"$${x}\"}'",
            "PATCH",
            "application/merge-patch+json",
            "{\"a\":\"$${x}\"}",
        ),
        (
            "-H 'Content-Type: text/xml' --data-binary '<a b=\"c\"/>'",
            "POST",
            "text/xml",
            "<a b=\"c\"/>",
        ),
        (
            "-H 'content-type: application/json' -d '[12345678901234567890123]'",
            "POST",
            "application/json",
            "[12345678901234567890123]",
        ),
        (
            "-H 'content-type: application/json' -d '\"text\"'",
            "POST",
            "application/json",
            "\"text\"",
        ),
        (
            "--data-urlencode 'q=a b&c' --data-urlencode '=x y'",
            "POST",
            "application/x-www-form-urlencoded",
            "q=a+b%26c&x+y",
        ),
        (
            "--data-binary @consent.txt -H 'content-type: text/plain'",
            "POST",
            "text/plain",
            "I agree.\n",
        ),
        (
            "-T consent.txt",
            "PUT",
            "application/octet-stream",
            "I agree.\n",
        ),
    ] {
        let sent = sent(&format!("curl {command} https://a.example/x"));
        assert_eq!(sent.method, method, "{command}");
        assert_eq!(body(&sent), expected, "{command}");
        assert_eq!(
            header(&sent, "content-type"),
            Some(content_type),
            "{command}"
        );
    }
}

#[test]
fn targets_are_asked_as_curl_asks_them() {
    for (command, expected) in [
        ("https://a.example", "/"),
        ("a.example/b?c", "/b?c="),
        (
            "'https://a.example/a%20b/c?x=1%2F2&y=ü#part'",
            "/a%20b/c?x=1%2F2&y=%C3%BC",
        ),
        ("'https://a.example/?a=1&b=2&a=3'", "/?a=1&a=3&b=2"),
        (
            "-G -d a=1 -d 'b=x y' https://a.example/s?z=0",
            "/s?z=0&a=1&b=x%20y",
        ),
        ("--url https://a.example/u", "/u"),
        ("--url-query 'n=v w' https://a.example/u", "/u?n=v%20w"),
        ("'https://a.example/$x/${y}'", "/$x/$%7By%7D"),
    ] {
        let sent = sent(&format!("curl {command}"));
        assert_eq!(sent.path_and_query, expected, "{command}");
    }
}

#[test]
fn letters_may_share_a_word() {
    let sent = sent("curl -sSLXPOST -da=1 -HX-A:b https://a.example/");
    assert_eq!((sent.method.as_str(), body(&sent)), ("POST", "a=1"));
    assert_eq!(header(&sent, "x-a"), Some("b"));
}

#[test]
fn each_mistake_of_a_command_names_its_line_and_a_way_out() {
    let errors: Vec<String> = [
        "curl --dta x https://a.example",
        "curl -y https://a.example",
        "\ncurl https://a.example -d",
        "curl https://a.example -d @- ",
        "curl https://a.example -d @a -d b",
        "curl https://a.example -H bad",
        "curl https://a.example -H @file",
        "curl https://a.example -F x",
        "curl https://a.example -F x=<file",
        "curl https://a.example -m soon",
        "curl https://a.example --max-redirs many",
        "curl https://a.example -X 'BAD METHOD'",
        "curl https://a.example -K config",
        "curl https://a.example --data-urlencode name@file",
        "curl 'https://a.example/?x=%ff'",
        "curl -G https://a.example -d x=%ff",
        "curl https://a.example --url-query +x=%ff",
        "curl ftp://a.example/x?token=hush",
        "curl https:///x",
        "wget https://a.example",
        "",
        "curl -d x",
        "curl 'https://a.example",
        "curl https://a.example -d \"$(cat x)\"",
        "curl https://a.example <<EOF\nEOF",
        "curl ^\"https://a.example^\"",
    ]
    .iter()
    .map(|command| {
        let error = import::curl(command, &Options::default()).expect_err(command);
        format!("{command:?}\n{error}\n")
    })
    .collect();
    let errors = errors.join("\n");
    assert!(
        !errors
            .lines()
            .any(|line| !line.starts_with('"') && line.contains("hush")),
        "{errors}"
    );
    insta::assert_snapshot!(errors);
}

#[test]
fn a_recorded_query_that_no_scenario_can_say_is_told_as_lost() {
    let recording = r#"{"log": {"entries": [
        {"request": {"method": "GET", "url": "https://a.example/x?q=%e9"}, "response": {"status": 200}}
    ]}}"#;
    let imported = import::har(recording, &Options::default()).expect("a recording");
    assert!(
        imported
            .text
            .contains("Lost: a query whose percent-codes are no UTF-8"),
        "{}",
        imported.text
    );
}

#[test]
fn each_mistake_of_a_document_names_its_place() {
    type Import = fn(&str, &Options) -> Result<Imported, ImportError>;
    let har = |entries: &str| format!("{{\"log\": {{\"entries\": [{entries}]}}}}");
    let api = |paths: &str| format!("openapi: 3.0.0\ninfo: {{title: a}}\npaths:\n{paths}");
    let cases: [(Import, String); 16] = [
        (import::har, "no json".to_owned()),
        (import::har, "{\"log\": {}}".to_owned()),
        (import::har, har("{\"request\": {\"method\": \"GET\"}}")),
        (
            import::har,
            har("\n{\"request\": {\"method\": 5, \"url\": \"https://a.example\"}}"),
        ),
        (
            import::har,
            har("{\"request\": {\"method\": \"GET\", \"url\": \"gopher://a\"}}"),
        ),
        (import::har, har("")),
        (import::openapi, "{\"openapi\": \"3.0.0\",\n}".to_owned()),
        (import::openapi, "a: [1".to_owned()),
        (import::openapi, "swagger: '2.0'".to_owned()),
        (import::openapi, "openapi: 4.0.0".to_owned()),
        (import::openapi, "just text".to_owned()),
        (import::openapi, api("  {}")),
        (
            import::openapi,
            api("  /a: {get: {parameters: [{$ref: '#/components/parameters/None'}]}}"),
        ),
        (import::openapi, api("  /a: {$ref: 'other.yaml#/a'}")),
        (import::openapi, api("  /a/{id}: {get: {}}")),
        (
            import::openapi,
            api("  /a: {get: {security: [{none: []}]}}"),
        ),
    ];
    let errors: Vec<String> = cases
        .iter()
        .map(|(import, text)| {
            let error = import(text, &Options::default()).expect_err(text);
            format!("{text}\n{error}\n")
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
    let options = Options {
        hosts: vec!["shop.exmaple".to_owned()],
        ..Options::default()
    };
    let error = import::har(&text("browser.har"), &options).unwrap_err();
    insta::assert_snapshot!(error);
}

#[test]
fn a_description_that_refers_to_itself_ends() {
    let circle = "openapi: 3.1.0\ninfo: {title: a}\npaths:\n  /a: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}}}\ncomponents: {schemas: {A: {$ref: '#/components/schemas/B'}, B: {$ref: '#/components/schemas/A'}}}\n";
    checked(&import::openapi(circle, &Options::default()).unwrap());
    // Each level holds the next one twice: only a bound on the depth isn't enough.
    let mut wide = String::from(
        "openapi: 3.1.0\ninfo: {title: a}\npaths:\n  /a: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}}}\ncomponents:\n  schemas:\n    A:\n      type: object\n      properties:\n",
    );
    for field in 0..12 {
        wide.push_str(&format!(
            "        f{field}: {{$ref: '#/components/schemas/A'}}\n"
        ));
    }
    let imported = import::openapi(&wide, &Options::default()).unwrap();
    assert!(imported.text.len() < 1_000_000);
}
