//! What a reader does with a page in a real Chromium: without a script and with it, by mouse and by
//! keyboard, on a telephone and on paper. Skipped without Chromium, which fails in CI.

use serde_json::{Value, json};

use crate::browser::{chromium, page, pages};
use crate::devtools::Tab;
use crate::fixture;

/// The audit of accessibility that the tests run inside of a page, where `./dev` puts it.
const AXE: &str = "../axe/node_modules/axe-core/axe.min.js";

/// Rows of cells that can be seen.
const SHOWN: &str =
    "[...document.querySelectorAll('tr[data-o]')].filter(r => r.checkVisibility()).length";

fn steps() -> String {
    page(&[fixture::passing(), fixture::regressing()])
}

#[test]
fn everything_is_there_without_a_script() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    tab.call(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    tab.show(&steps(), "");
    let all = tab.count("document.querySelectorAll('tr[data-o]').length");
    assert_eq!(all, 29);
    assert_eq!(tab.count(SHOWN), all);
    assert_eq!(
        tab.count("document.querySelectorAll('.filter:not([hidden])').length"),
        0
    );
    // The switch of the axis follows the style alone.
    let seen = "[...document.querySelectorAll('#m1 .panels:has([name=m1-t]) .view')].filter(v => v.checkVisibility())\
        .map(v => v.classList[1]).join(' ')";
    assert_eq!(tab.text(seen), "log log log");
    for view in ["ratio", "linear", "log"] {
        tab.point(&format!("[name=m1-t][value={view}]"), true);
        assert_eq!(tab.text(seen), [view; 3].join(" "));
    }
}

#[test]
fn every_chart_has_its_table() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    for (name, page) in pages() {
        tab.show(&page, "");
        let missing = tab.value(
            "[...document.querySelectorAll('svg.chart')].filter(chart => {
               if (chart.closest('figure').querySelector('table')) return false;
               const group = chart.closest('[data-link]');
               return !group || !document.querySelector(`[data-link='${group.dataset.link}'] table`);
             }).map(chart => chart.getAttribute('aria-label'))",
        );
        assert_eq!(missing, json!([]), "{name}");
        let charts = tab.count("document.querySelectorAll('svg.chart').length");
        assert!(charts > 0, "{name}");
    }
}

#[test]
fn cells_are_filtered_by_words_and_outcome_and_the_address_keeps_it() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    let page = steps();
    tab.show(&page, "");
    let in_second = "[...document.querySelectorAll('#m2 tr[data-o]')].filter(r => r.checkVisibility()).map(r => r.id).join(' ')";
    tab.point("#m2 input[type=search]", true);
    tab.type_text("P95 branch");
    assert_eq!(tab.text(in_second), "m2.get-branch-list.p95.c-20");
    assert_eq!(
        tab.text("document.querySelector('#m2 output').textContent"),
        "1 of 11 cells"
    );
    // The other measurement has a filter of its own.
    assert_eq!(
        tab.text("document.querySelector('#m1 output').textContent"),
        "18 of 18 cells"
    );
    tab.press("Escape");
    assert_eq!(
        tab.text("document.querySelector('#m2 output').textContent"),
        "11 of 11 cells"
    );
    tab.point("[name=m2-o][value=worse]", true);
    let worse = "m2.get-socket-status.p50.c-20 m2.get-socket-status.p95.c-20";
    assert_eq!(tab.text(in_second), worse);
    // Headings of groups without rows go, too.
    assert_eq!(
        tab.count(
            "[...document.querySelectorAll('#m2 tr.group')].filter(r => r.checkVisibility()).length"
        ),
        1
    );
    tab.point("[name=m2-t][value=ratio]", true);
    let fragment = tab.text("location.hash");
    assert_eq!(fragment, "#&m2-o=worse&m2-t=ratio");
    // Another reader opens the address.
    tab.show(&page, &fragment);
    assert_eq!(tab.text(in_second), worse);
    assert!(tab.value("document.querySelector('[name=m2-t][value=ratio]').checked") == json!(true));
    // A link to a cell that the filter hides shows it.
    tab.value("location.hash = '#m2.get-workspace.p50.c-20'");
    let shown = "document.getElementById('m2.get-workspace.p50.c-20').classList.contains('target')";
    assert_eq!(
        tab.value(&format!(
            "new Promise(done => setTimeout(() => done({shown}), 50))"
        )),
        json!(true)
    );
    assert_eq!(
        tab.count("document.querySelectorAll('#m2 tr[data-o]:not([hidden])').length"),
        11
    );
    assert_eq!(
        tab.text("location.hash"),
        "#m2.get-workspace.p50.c-20&m2-t=ratio"
    );
}

#[test]
fn a_mark_and_its_row_light_up_together() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    tab.show(&steps(), "");
    tab.point("figure[data-link=m1-blocks] circle[data-k='3']", false);
    let lit =
        "[...document.querySelectorAll('.lit')].map(e => e.tagName + e.dataset.k).sort().join(' ')";
    assert_eq!(tab.text(lit), "TR3 circle3 circle3 circle3");
    let told = tab.text("document.querySelector('.readout').textContent");
    assert!(told.contains("#\u{a0}3 · Arm\u{a0}"), "{told}");
    // From the row to the marks as well, once its table is open.
    tab.value("for (const fold of document.querySelectorAll('details')) fold.open = true");
    tab.point("[data-link=m1-blocks] tr[data-k='5'] td", false);
    assert_eq!(tab.text(lit), "TR5 circle5 circle5 circle5");
    tab.point("h1", false);
    assert_eq!(tab.text(lit), "");
}

#[test]
fn a_keyboard_is_enough() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    tab.show(&page(&[fixture::regressing()]), "");
    tab.value(
        "window.order = [...document.querySelectorAll('a[href], input, summary, [tabindex]')]
           .filter(e => e.checkVisibility())
           .filter(e => e.type !== 'radio' || e.checked)",
    );
    let expected = tab.count("order.length");
    assert!(expected > 20, "{expected}");
    let focused = "(() => { const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e), \
        p = e.closest('label') ? getComputedStyle(e.closest('label')) : s; \
        return {at: order.indexOf(e), seen: r.width > 0 && r.bottom > 0 && r.top < innerHeight, \
        ring: s.outlineStyle !== 'none' || p.outlineStyle !== 'none', what: e.outerHTML.slice(0, 90)}; })()";
    for index in 0..expected {
        tab.press("Tab");
        let found = tab.value(focused);
        assert_eq!(found["at"], json!(index), "{found}");
        assert_eq!(found["ring"], json!(true), "{found}");
        assert_eq!(found["seen"], json!(true), "{found}");
    }
    // Radio buttons by arrows, the fold by Enter.
    tab.value("document.querySelector('[name=m1-o]').focus()");
    tab.press("ArrowRight");
    assert_eq!(tab.text("document.activeElement.value"), "worse");
    assert_eq!(tab.count(SHOWN), 2);
    tab.value("document.querySelector('summary').focus()");
    tab.press("Enter");
    assert_eq!(
        tab.value("document.querySelector('details').open"),
        json!(true)
    );
}

#[test]
fn paper_has_every_row_and_no_switches() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    // A4 without its margins.
    tab.size(718, 1_000);
    tab.media("print", "dark");
    tab.show(&steps(), "");
    assert_eq!(tab.count(SHOWN), 29);
    let seen = |selector: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].filter(e => e.checkVisibility()).length"
        )
    };
    for selector in [".switch", ".filter", ".parts", ".skip"] {
        assert_eq!(tab.count(&seen(selector)), 0, "{selector}");
    }
    assert!(tab.count(&seen("svg.chart")) > 5);
    assert_eq!(
        tab.text("getComputedStyle(document.body).backgroundColor"),
        "rgb(255, 255, 255)"
    );
    assert_eq!(
        tab.value("document.documentElement.scrollWidth <= innerWidth"),
        json!(true)
    );
    // What a filter left out is not hidden without a word.
    tab.media("screen", "light");
    tab.point("[name=m2-o][value=worse]", true);
    tab.media("print", "light");
    assert_eq!(tab.count(&seen(".filter output")), 1);
}

#[test]
fn hostile_names_do_nothing() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    let page = page(&[fixture::hostile()]);
    tab.show(
        &page,
        "#m1&m1-q=%3Cscript%3E&m1-o=%22%5D&%E0%A4%A=1&x=<img src=x onerror=alert(1)>",
    );
    tab.value("for (const e of document.querySelectorAll('[data-k]')) e.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))");
    assert_eq!(tab.text("document.title"), "Report");
    assert_eq!(tab.count("document.querySelectorAll('script').length"), 1);
    assert_eq!(tab.count("document.images.length"), 0);
    assert_eq!(
        tab.events("Page.javascriptDialogOpening"),
        Vec::<Value>::new()
    );
    assert_eq!(tab.events("Runtime.exceptionThrown"), Vec::<Value>::new());
    assert_eq!(tab.events("Log.entryAdded"), Vec::<Value>::new());
    for request in tab.events("Network.requestWillBeSent") {
        let address = request["params"]["request"]["url"]
            .as_str()
            .unwrap_or_default();
        let is_ours = ["about:", "file:", "data:"]
            .iter()
            .any(|ours| address.starts_with(ours));
        assert!(is_ours, "{address}");
    }
    // The page's policy lets no other script in, whoever wrote it.
    tab.value("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))");
    assert_eq!(tab.value("window.owned === undefined"), json!(true));
}

#[test]
fn the_audit_finds_no_serious_fault() {
    let Some(chromium) = chromium() else {
        return;
    };
    let Some(axe) = axe() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    for (name, page) in pages() {
        for (width, scheme) in [(1_280, "light"), (1_280, "dark"), (390, "light")] {
            tab.size(width, 900);
            tab.media("screen", scheme);
            tab.show(&page, "");
            tab.value("for (const fold of document.querySelectorAll('details')) fold.open = true");
            tab.value(&axe);
            let found = tab.value(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => \
                 [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)]))",
            );
            let faults = found.as_array().expect("a list of findings");
            let serious = faults
                .iter()
                .filter(|fault| fault[0] == json!("serious") || fault[0] == json!("critical"));
            let serious: Vec<&Value> = serious.collect();
            assert!(
                serious.is_empty(),
                "{name}, {width}, {scheme}: {serious:#?}"
            );
            for fault in faults {
                eprintln!("{name}, {width}, {scheme}: {} {}", fault[0], fault[1]);
            }
        }
    }
}

#[test]
fn the_audit_finds_faults() {
    let (Some(chromium), Some(axe)) = (chromium(), axe()) else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    tab.show(
        "<!doctype html><title>x</title><img src=\"data:,\"><p style=\"color:#ccc\">pale",
        "",
    );
    tab.value(&axe);
    let found = tab.value("axe.run().then(r => r.violations.map(v => v.id))");
    for expected in ["html-has-lang", "image-alt", "color-contrast"] {
        assert!(
            found
                .as_array()
                .is_some_and(|ids| ids.contains(&json!(expected))),
            "{found}"
        );
    }
}

/// The audit's source, or `None` after saying that the test is skipped.
fn axe() -> Option<String> {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(AXE);
    match std::fs::read_to_string(&path) {
        Ok(source) => Some(source),
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "{}: {error}; nothing may be skipped in CI: `./dev setup` installs it",
                path.display()
            );
            eprintln!(
                "skipped: {}: {error} (`./dev setup` installs it)",
                path.display()
            );
            None
        }
    }
}

#[test]
fn a_hundred_endpoints_are_painted_at_once() {
    let Some(chromium) = chromium() else {
        return;
    };
    let mut tab = Tab::open(&chromium);
    let page = page(&[fixture::large()]);
    tab.show(&page, "");
    let paint = tab.value(
        "new Promise(done => { new PerformanceObserver(list => list.getEntriesByName('first-contentful-paint')\
         .forEach(e => done(e.startTime))).observe({type: 'paint', buffered: true}); setTimeout(() => done(null), 5000); })",
    );
    let loaded = tab.value("performance.getEntriesByType('navigation')[0].loadEventEnd");
    // Shown and not judged: the machine's other work would decide.
    eprintln!(
        "{} bytes, first paint after {paint} ms, loaded after {loaded} ms",
        page.len()
    );
    assert!(paint.is_number(), "nothing was painted: {paint}");
    assert!(tab.count(SHOWN) >= 300);
}
