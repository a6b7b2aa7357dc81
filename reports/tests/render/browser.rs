//! The page in a real browser (Chromium): layout, colours, contrast, structure,
//! paper. Without Chromium these tests say that they are skipped; where the
//! environment variable `CI` is set they fail instead.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use unstall_reports::{Entry, Report, html};
use unstall_results::comparison::Comparison;
use unstall_results::record::RunRecord;

use crate::fixture;

/// A page that takes longer has failed.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs in a page around the report and writes what is wrong into its DOM.
const INSPECTION: &str = include_str!("inspection.js");

pub(crate) fn pages() -> Vec<(&'static str, String)> {
    let steps = [fixture::passing(), fixture::regressing()];
    let undecided = [fixture::inconclusive()];
    let invalid = [fixture::invalid()];
    let hostile = [fixture::hostile()];
    let observed = fixture::observed();
    let searched = fixture::searched(Some(600.0));
    vec![
        ("steps", page(&steps)),
        ("judged", page(&[fixture::judged()])),
        ("lasting", page(&[fixture::lasting()])),
        ("migration", crate::ledger::page()),
        ("inconclusive", page(&undecided)),
        ("invalid", page(&invalid)),
        ("hostile", page(&hostile)),
        (
            "capacity",
            html::render(&report(vec![Entry {
                record: &searched,
                comparison: None,
            }])),
        ),
        (
            "run",
            html::render(&report(vec![Entry {
                record: &observed,
                comparison: None,
            }])),
        ),
    ]
}

pub(crate) fn page(compared: &[(RunRecord, Comparison)]) -> String {
    html::render(&report(
        compared
            .iter()
            .map(|(record, comparison)| Entry {
                record,
                comparison: Some(comparison),
            })
            .collect(),
    ))
}

pub(crate) fn report(entries: Vec<Entry<'_>>) -> Report<'_> {
    Report {
        title: "Report".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report".to_owned(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries,
    }
}

/// Chromium, or `None` after saying that the test is skipped.
pub(crate) fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "no Chromium on the path, and nothing may be skipped in CI: install the package `chromium`"
        );
        eprintln!("skipped: no Chromium on the path (Debian: apt-get install chromium)");
    }
    found
}

/// Runs Chromium on a file and returns its standard output and error.
fn browse(chromium: &Path, folder: &Path, file: &Path, arguments: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir_in(folder).expect("a folder for the profile");
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    let create = |path: &Path| Stdio::from(fs::File::create(path).expect("an output file"));
    let mut child = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(create(&out))
        .stderr(create(&err))
        .spawn()
        .expect("Chromium starts");
    let deadline = Instant::now() + BROWSER_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
            panic!("Chromium did not end within {BROWSER_TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(30));
    };
    let text = |path: &Path| {
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .expect("an output file");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    assert!(status.success(), "Chromium: {status}\n{}", text(&err));
    (text(&out), text(&err))
}

/// Widths of a small phone, a usual phone and a desktop, CSS pixels.
const WIDTHS: [u32; 3] = [360, 390, 1280];

/// Puts each page into frames of several widths and returns the inspection's
/// findings: a kind, the page's name and what was found.
fn inspect(chromium: &Path, pages: &[(&str, String)], scheme: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut frames = String::new();
    for (name, page) in pages {
        let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
        for width in WIDTHS {
            frames.push_str(&format!(
                "<iframe title=\"{name}\" width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{quoted}\"></iframe>"
            ));
        }
    }
    let file = folder.path().join("around.html");
    fs::write(
        &file,
        format!("<!doctype html><meta charset=\"utf-8\"><pre id=\"findings\">not run</pre>{frames}<script>{INSPECTION}</script>"),
    )
    .expect("a page");
    let mut arguments = vec!["--dump-dom", "--window-size=1400,1000"];
    arguments.extend(scheme);
    let (dom, log) = browse(chromium, folder.path(), &file, &arguments);
    let complaint = log.lines().find(|line| line.contains("CONSOLE"));
    assert_eq!(complaint, None);
    let opening = "<pre id=\"findings\">";
    let start = dom.find(opening).expect("the findings") + opening.len();
    let end = start + dom[start..].find("</pre>").expect("the findings' end");
    dom[start..end].lines().map(str::to_owned).collect()
}

#[test]
fn every_page_is_sound_in_light_and_dark() {
    let Some(chromium) = chromium() else {
        return;
    };
    let pages = pages();
    let light = inspect(
        &chromium,
        &pages,
        &["--blink-settings=preferredColorScheme=1"],
    );
    let dark = inspect(
        &chromium,
        &pages,
        &["--blink-settings=preferredColorScheme=0"],
    );
    let of_kind = |findings: &[String], kind: &str| -> Vec<String> {
        let wanted = findings.iter().filter(|line| line.starts_with(kind));
        wanted.cloned().collect()
    };
    for (scheme, findings) in [("light", &light), ("dark", &dark)] {
        let faults = of_kind(findings, "fault");
        assert!(faults.is_empty(), "{scheme}: {faults:#?}");
        let frames = of_kind(findings, "frame").len();
        assert_eq!(frames, pages.len() * WIDTHS.len(), "{scheme}: {findings:?}");
    }
    let (in_light, in_dark) = (of_kind(&light, "background"), of_kind(&dark, "background"));
    assert_eq!(in_light.len(), in_dark.len());
    for (one, other) in in_light.iter().zip(&in_dark) {
        assert_ne!(one, other);
    }
}

#[test]
fn the_inspection_finds_faults() {
    let Some(chromium) = chromium() else {
        return;
    };
    let bad = "<!doctype html><html><head><title>x</title></head><body style=\"margin:0;background:#fff\">\
        <h1>a</h1><h3>b</h3><p style=\"color:#ccc\">pale</p><div style=\"width:2000px\">wide</div>\
        <table><tr><th>x</th></tr></table><div style=\"overflow:auto\"><table class=\"cells\" style=\"width:1999px\">\
        <tr><td>y</td></tr></table></div><img src=\"x.png\"></body></html>";
    let findings = inspect(&chromium, &[("bad", bad.to_owned())], &[]).join("\n");
    for expected in [
        "cut", "overflow", "contrast", "heading", "caption", "scope", "element", "landmark",
        "request",
    ] {
        let fault = format!("fault {expected} in bad");
        assert!(findings.contains(&fault), "{fault}: {findings}");
    }
}
