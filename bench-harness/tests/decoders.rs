//! The stream decoders against every split of a corpus, against naive readers of whole bodies,
//! and against any bytes at all. The corpus is the fuzz target's (`fuzz/`).

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unstall_bench_harness::stream::{DecodeError, ITEM_BYTES_MAX};
use unstall_scenarios::plan::Decoder;

#[path = "../fuzz/decoding.rs"]
mod decoding;

use decoding::{BYTES_MAX, Left, assert_cuts_change_nothing, decode};

fn corpus(format: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = std::fs::read_dir(folder.join(format)).expect("the corpus is in the repository");
    let files = files.map(|file| file.expect("it can be listed").path());
    files
        .map(|path| {
            let body = std::fs::read(&path).expect("it can be read");
            (path, body)
        })
        .collect()
}

/// The items of a whole body, as text, and how it ended.
fn items(decoder: Decoder, body: &str) -> (Vec<String>, Result<Left, DecodeError>) {
    let decoded = decode(decoder, ITEM_BYTES_MAX, [body.as_bytes()]);
    let items = decoded.items.into_iter();
    let items = items.map(|item| String::from_utf8(item).expect("the body is UTF-8"));
    (items.collect(), decoded.end)
}

#[track_caller]
fn assert_items(decoder: Decoder, body: &str, expected: &[&str], left: Left) {
    let (items, end) = items(decoder, body);
    assert_eq!(
        (items, end),
        (
            expected.iter().map(|item| (*item).to_owned()).collect(),
            Ok(left)
        ),
        "{body:?}"
    );
}

/// What the standard says of each, by hand.
#[test]
fn case_15_events_are_read_by_the_standard() {
    for (body, expected, left) in [
        ("data: a\n\ndata: b\n\n", &["a", "b"][..], Left::Nothing),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"], Left::Nothing),
        ("data: a\r\rdata: b\r\r", &["a", "b"], Left::Nothing),
        ("\u{feff}data: a\n\n", &["a"], Left::Nothing),
        // Only at the very beginning; later the mark is part of a field's name.
        ("\n\u{feff}data: a\n\n", &[], Left::Nothing),
        (
            ": note\ndata: a\n:\ndata: b\n\n: note\n\n",
            &["a\nb"],
            Left::Nothing,
        ),
        (
            "data: a\ndata\ndata:\ndata:  b\n\n",
            &["a\n\n\n b"],
            Left::Nothing,
        ),
        ("data:a\n\n", &["a"], Left::Nothing),
        ("data\n\n", &[""], Left::Nothing),
        ("event: x\nid: 1\nretry: abc\n\n", &[], Left::Nothing),
        (
            "event: x\nretry: abc\ndata: a\nid\n\n",
            &["a"],
            Left::Nothing,
        ),
        (" data: a\nDATA: b\ndatas: c\n\n", &[], Left::Nothing),
        // Without the blank line there is no event.
        ("data: a\n\ndata: b\n", &["a"], Left::Discarded),
        ("data: a\n\ndata: b", &["a"], Left::Discarded),
        ("data: a\n\n: bye", &["a"], Left::Nothing),
        ("", &[], Left::Nothing),
    ] {
        assert_items(Decoder::Sse, body, expected, left);
    }
}

#[test]
fn lines_are_documents() {
    for (body, expected, left) in [
        ("1\n2\n", &["1", "2"][..], Left::Nothing),
        ("1\r\n\r\n\n  \n 2 \r\n", &["1", "2"], Left::Nothing),
        ("1\n2", &["1"], Left::Line(b"2".to_vec())),
        ("1\n 2\r", &["1"], Left::Line(b"2".to_vec())),
        ("1\n \r", &["1"], Left::Nothing),
        ("[DONE]\n", &["[DONE]"], Left::Nothing),
    ] {
        assert_items(Decoder::Ndjson, body, expected, left);
    }
}

#[test]
fn case_15_objects_end_with_their_brace() {
    for (body, expected, left) in [
        ("{}{}", &["{}", "{}"][..], Left::Nothing),
        (" {}\n\t{} \r\n", &["{}", "{}"], Left::Nothing),
        (
            r#"{"a":{"b":[{}]}}{}"#,
            &[r#"{"a":{"b":[{}]}}"#, "{}"],
            Left::Nothing,
        ),
        (r#"{"a":"}{"}{}"#, &[r#"{"a":"}{"}"#, "{}"], Left::Nothing),
        (
            r#"{"a":"\"}"}{"a":"\\"}"#,
            &[r#"{"a":"\"}"}"#, r#"{"a":"\\"}"#],
            Left::Nothing,
        ),
        (
            r#"{"a":"\ud83d\ude00"}{}"#,
            &[r#"{"a":"\ud83d\ude00"}"#, "{}"],
            Left::Nothing,
        ),
        (r#"{}{"a":"}"#, &["{}"], Left::Partial),
    ] {
        assert_items(Decoder::JsonObjects, body, expected, left);
    }
    for (body, before, found) in [
        ("{},{}", 1, b','),
        ("[{}]", 0, b'['),
        ("{}}", 1, b'}'),
        ("data: {}", 0, b'd'),
    ] {
        let (items, end) = items(Decoder::JsonObjects, body);
        assert_eq!(
            (items.len(), end),
            (before, Err(DecodeError::NoObject { found })),
            "{body}"
        );
    }
}

#[test]
fn a_chunk_is_an_item_and_an_empty_one_is_none() {
    let decoded = decode(Decoder::Chunks, BYTES_MAX, [&b"a"[..], b"", b"bc"]);
    assert_eq!(decoded.items, [b"a".to_vec(), b"bc".to_vec()]);
    assert_eq!(decoded.end, Ok(Left::Nothing));
}

#[test]
fn case_15_what_never_ends_is_refused_at_the_bound() {
    let too_long = Err(DecodeError::TooLong {
        bytes_max: BYTES_MAX,
    });
    let line = "x".repeat(BYTES_MAX + 1);
    for (decoder, begin, unit) in [
        (Decoder::Sse, "data: ", "x"),
        // Events of many short lines, and lines that are no data.
        (Decoder::Sse, "", "data: abc\n"),
        (Decoder::Sse, ": ", "x"),
        (Decoder::Ndjson, "\"", "x"),
        (Decoder::JsonObjects, "{\"a\":\"", "x"),
        (Decoder::JsonObjects, "", "{\"a\":"),
    ] {
        let body = format!("{begin}{}", unit.repeat(BYTES_MAX));
        let decoded = decode(decoder, BYTES_MAX, body.as_bytes().chunks(7));
        assert_eq!(decoded.end, too_long, "{decoder:?} {begin}{unit}…");
    }
    // An end in the same read doesn't help.
    for (decoder, body) in [
        (Decoder::Sse, format!("data: {line}\n\n")),
        (Decoder::Ndjson, format!("{line}\n")),
        (Decoder::JsonObjects, format!("{{{line}}}")),
    ] {
        assert_eq!(decode(decoder, BYTES_MAX, [body.as_bytes()]).end, too_long);
    }
    let message = DecodeError::TooLong { bytes_max: 7 }.to_string();
    assert!(
        message.contains("7 bytes") && message.contains("decoder"),
        "{message}"
    );
}

/// The fuzz target's work, on stable: every split of every body at every byte.
#[test]
fn case_15_no_split_of_the_corpus_changes_an_item() {
    let mut bodies = 0;
    for (format, decoder) in [
        ("sse", Decoder::Sse),
        ("ndjson", Decoder::Ndjson),
        ("json-objects", Decoder::JsonObjects),
    ] {
        for (path, body) in corpus(format) {
            bodies += 1;
            for bytes_max in [BYTES_MAX, ITEM_BYTES_MAX] {
                assert_cuts_change_nothing(decoder, bytes_max, &body);
            }
            let items = decode(decoder, ITEM_BYTES_MAX, [body.as_slice()]).items;
            let endless = path.file_name().is_some_and(|name| {
                ["endless-line", "endless-event", "array"]
                    .map(Some)
                    .contains(&name.to_str())
            });
            assert_eq!(items.is_empty(), endless, "{}", path.display());
        }
    }
    assert!(bodies >= 30, "{bodies} bodies");
}

/// A whole event stream, read line by line as the standard words it.
fn naive_events(body: &str) -> Vec<String> {
    let body = body.strip_prefix('\u{feff}').unwrap_or(body);
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = body.split('\n').collect();
    lines.pop(); // what has no end
    let (mut events, mut data) = (Vec::new(), String::new());
    for line in lines {
        if line.is_empty() {
            if let Some(event) = data.strip_suffix('\n') {
                events.push(event.to_owned());
            }
            data.clear();
        } else if line == "data" {
            data.push('\n');
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.strip_prefix(' ').unwrap_or(value));
            data.push('\n');
        }
    }
    events
}

/// JSON text whose letters beyond ASCII are written as escapes, pairs of them where needed.
fn escaped(json: &str) -> String {
    let mut text = String::new();
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

fn objects() -> impl Strategy<Value = Vec<(String, String)>> {
    let text = "[{}\\[\\]\"\\\\ab,: \n\u{e9}\u{1f600}]{0,8}";
    let value = prop_oneof![
        text.prop_map(serde_json::Value::String),
        any::<i32>().prop_map(serde_json::Value::from),
    ];
    let value = value.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::btree_map(text, inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    let object = prop::collection::btree_map(text, value, 0..3)
        .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()).to_string());
    let object = (object, any::<bool>()).prop_map(|(json, escape)| match escape {
        true => escaped(&json),
        false => json,
    });
    prop::collection::vec((object, "[ \t\r\n]{0,2}"), 0..6)
}

/// A body cut into pieces at these places.
fn pieces<'b>(body: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    places.extend([0, body.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &body[pair[0]..pair[1]])
        .collect()
}

proptest! {
    #[test]
    fn events_are_those_of_a_naive_reader(
        lines in prop::collection::vec(
            ("(data|datas|id|event|:|)(:| |: |:  |)[a\u{e9}:]{0,3}", "\n|\r|\r\n|\n\n|\r\r|\r\n\r\n"),
            0..12,
        ),
        mark in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut body = String::from(if mark { "\u{feff}" } else { "" });
        for (line, end) in &lines {
            body.push_str(line);
            body.push_str(end);
        }
        let decoded = decode(Decoder::Sse, ITEM_BYTES_MAX, pieces(body.as_bytes(), &cuts));
        let expected: Vec<Vec<u8>> = naive_events(&body).into_iter().map(String::into_bytes).collect();
        prop_assert_eq!(decoded.items, expected, "{:?}", body);
    }

    #[test]
    fn objects_are_those_of_a_json_parser(
        objects in objects(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body: String = objects.iter().flat_map(|(object, space)| [object.as_str(), space]).collect();
        let mut parser = serde_json::Deserializer::from_str(&body).into_iter::<serde::de::IgnoredAny>();
        let mut expected = Vec::new();
        let mut from = 0;
        while let Some(object) = parser.next() {
            prop_assert!(object.is_ok(), "{body:?}");
            expected.push(body[from..parser.byte_offset()].trim().as_bytes().to_vec());
            from = parser.byte_offset();
        }
        let decoded = decode(Decoder::JsonObjects, ITEM_BYTES_MAX, pieces(body.as_bytes(), &cuts));
        prop_assert_eq!(decoded.items, expected, "{:?}", body);
        prop_assert_eq!(decoded.end, Ok(Left::Nothing));
    }

    #[test]
    fn lines_are_those_of_a_naive_reader(
        body in "([a ]{0,3}(\n|\r\n)){0,8}[a ]{0,2}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (lines, rest) = body.rsplit_once('\n').unwrap_or(("", &body));
        let lines = lines.split('\n').map(str::trim).filter(|line| !line.is_empty());
        let expected: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
        let left = match rest.trim() {
            "" => Left::Nothing,
            line => Left::Line(line.as_bytes().to_vec()),
        };
        let decoded = decode(Decoder::Ndjson, ITEM_BYTES_MAX, pieces(body.as_bytes(), &cuts));
        prop_assert_eq!(decoded.items, expected, "{:?}", body);
        prop_assert_eq!(decoded.end, Ok(left));
    }

    #[test]
    fn no_split_of_any_bytes_changes_an_item(
        bytes in prop::collection::vec(prop::sample::select(b"data: {}\"\\\r\n:x\xef\xbb\xbf\xff".to_vec()), 0..120),
    ) {
        for decoder in [Decoder::Sse, Decoder::Ndjson, Decoder::JsonObjects] {
            assert_cuts_change_nothing(decoder, 24, &bytes);
        }
    }
}
