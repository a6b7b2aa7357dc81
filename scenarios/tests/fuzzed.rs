//! The fuzz targets' corpus, and whatever else resembles it, replayed by the stable compiler: what
//! must hold of any bytes is in `fuzz/reading.rs`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unstall_scenarios::import::{self, ImportError, Imported, Options};

#[path = "../fuzz/reading.rs"]
mod reading;

type Import = fn(&str, &Options) -> Result<Imported, ImportError>;

const IMPORTS: [(&str, Import); 3] = [
    ("curl", import::curl),
    ("har", import::har),
    ("openapi", import::openapi),
];

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(&folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn every_scenario_of_the_corpus_is_read_or_refused() {
    let mut count = 0;
    for folder in [
        "fuzz/corpus/scenario",
        "tests/malformed",
        "catalogue",
        "examples",
    ] {
        for file in files(folder) {
            reading::assert_scenario(&std::fs::read(&file).unwrap());
            count += 1;
        }
    }
    assert!(count >= 150, "{count} files");
}

#[test]
fn every_import_of_the_corpus_is_read_or_refused_by_every_importer() {
    let mut count = 0;
    for folder in [
        "fuzz/corpus/curl",
        "fuzz/corpus/har",
        "fuzz/corpus/openapi",
        "tests/imports",
    ] {
        for file in files(folder) {
            let bytes = std::fs::read(&file).unwrap();
            for (_, import) in IMPORTS {
                reading::assert_import(import, &bytes);
            }
            count += 1;
        }
    }
    assert!(count >= 30, "{count} files");
}

/// Cuts of the corpus, and pieces of one file in the middle of another.
fn mutated(folder: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let texts: Vec<Vec<u8>> = files(folder)
        .into_iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    let one = prop::sample::select(texts);
    let place = any::<prop::sample::Index>();
    (one.clone(), one, place, place_pair(), "[\\PC\n]{0,4}").prop_map(
        |(mut text, other, at, (from, to), insert)| {
            let start = at.index(text.len() + 1);
            let (from, to) = (from.index(other.len() + 1), to.index(other.len() + 1));
            let piece = other[from.min(to)..from.max(to)].iter().copied();
            let end = (start + insert.len() * 7).min(text.len());
            text.splice(start..end, insert.bytes().chain(piece.take(200)));
            text
        },
    )
}

fn place_pair() -> impl Strategy<Value = (prop::sample::Index, prop::sample::Index)> {
    (any::<prop::sample::Index>(), any::<prop::sample::Index>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutated_scenarios(bytes in mutated("tests/malformed")) {
        reading::assert_scenario(&bytes);
    }

    #[test]
    fn mutated_examples(bytes in mutated("catalogue")) {
        reading::assert_scenario(&bytes);
    }

    #[test]
    fn mutated_imports(bytes in mutated("tests/imports")) {
        for (_, import) in IMPORTS {
            reading::assert_import(import, &bytes);
        }
    }

    #[test]
    fn commands(options in "( -[XHdFubAemGIL]| --(json|data-raw|data-urlencode|url|next)| '[^']{0,9}'| \"[a-z$:={}@ ]{0,9}\"| https?://[a-z./?=&%$:@]{0,12}| a=b| x: y|\n|;|\\\\\n){0,12}") {
        reading::assert_import(import::curl, format!("curl http://a.example{options}").as_bytes());
    }

    /// Wherever a credential may stand, it isn't in the file.
    #[test]
    fn no_credential_gets_into_a_file(secret in "[A-Za-z0-9+/=_.$%-]{12,24}", place in 0usize..12) {
        // The shell's own reading of it is not what is tested.
        prop_assume!(!secret.contains("$") || place < 6);
        // In a URL a slash ends the place of a password.
        prop_assume!(!secret.contains('/') || place != 7);
        let command = match place {
            0 => format!("-H 'Authorization: Bearer {secret}'"),
            1 => format!("-H 'X-Api-Key: {secret}' -H 'x-other: <{secret}>'"),
            2 => format!("-b 'sid={secret}'"),
            3 => format!("-H 'content-type: application/json' -d '{{\"deep\": [{{\"password\": \"{secret}\"}}], \"n\": \"{secret}\"}}'"),
            4 => format!("-F 'client_secret={secret}'"),
            5 => format!("--oauth2-bearer '{secret}'"),
            6 => format!("-u 'jo:{secret}'"),
            7 => format!("'https://jo:{secret}@b.example/'"),
            8 => format!("'https://b.example/?access_token={}'", secret.replace(['%', '+', '&'], "x")),
            9 => format!("-d 'password={}&a=b'", secret.replace(['%', '+', '='], "x")),
            10 => format!("-x 'http://jo:{secret}@proxy.example'"),
            _ => format!("-U 'jo:{secret}'"),
        };
        let secret = match place {
            8 => secret.replace(['%', '+', '&'], "x"),
            9 => secret.replace(['%', '+', '='], "x"),
            _ => secret,
        };
        let text = format!("curl https://a.example/ {command}");
        if let Ok(imported) = import::curl(&text, &Options::default()) {
            prop_assert!(!imported.text.contains(&secret), "{}\n{}", text, imported.text);
        }
    }
}
