//! A certificate as people read it in a terminal: what blocks first, each with its line.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use unstall_bench_harness::proof::{Driven, JudgedRoute, Waits};
use unstall_loop_monitor::cause::{Cause, Frame};
use unstall_loop_monitor::certificate::{Certificate, Finding, ProofMethod, RouteVerdict};
use unstall_loop_monitor::outside::tracer::{OUTSIDE_REQUESTS, WHOLE_LOOP};

use crate::console::visible;

/// How the text is to look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Style {
    /// Whether the terminal takes colours.
    pub(crate) colour: bool,
    /// Files below it are shown by their path from there, as editors open them.
    pub(crate) folder: Option<PathBuf>,
}

/// Own functions of a stack that are shown besides the blamed one.
const CALLERS_MAX: usize = 3;

/// The certificate and its judgement, ending in a newline.
pub(crate) fn render(
    certificate: &Certificate,
    routes: &[JudgedRoute],
    interrupted: bool,
    style: Style,
) -> String {
    let mut page = Page {
        text: String::new(),
        style,
    };
    page.head(certificate);
    for route in routes {
        page.route(route);
    }
    page.line("");
    for words in &certificate.not_covered {
        page.line(&format!("Not covered: {words}"));
    }
    if interrupted {
        page.line("Stopped before every request was sent: what is proven is proven of fewer.");
    }
    page.line(&summary(routes));
    page.text
}

/// Collects lines. Whatever a service says goes through [`visible`].
struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn head(&mut self, certificate: &Certificate) {
        let commit = match &certificate.commit {
            Some(commit) => format!("commit {}", visible(commit)),
            None => "commit unknown: set UNSTALL_COMMIT for the service".to_owned(),
        };
        let start_id = visible(&certificate.start_id);
        self.line(&match &certificate.method {
            ProofMethod::SyscallUserDispatch => {
                format!("Proof by Syscall User Dispatch, inside polls; {commit}; start {start_id}")
            }
            ProofMethod::Tracing => {
                format!("Proof by tracing the event loops' threads; {commit}; start {start_id}")
            }
            ProofMethod::Unsupported { reason } => format!(
                "No proof here: {}; {commit}; start {start_id}\nBelow is what the loop's counters \
                 saw instead: sleeps, not calls.",
                visible(reason)
            ),
        });
        self.line("");
    }

    fn route(&mut self, judged: &JudgedRoute) {
        let proof = &judged.proof;
        // Nobody knows the requests of a loop that was only traced.
        let exercised = if [WHOLE_LOOP, OUTSIDE_REQUESTS].contains(&judged.route.as_str()) {
            counted(proof.polls, "turn")
        } else {
            let requests = counted(proof.requests, "request");
            format!("{requests}, {}", counted(proof.polls, "poll"))
        };
        self.line(&format!(
            "{}  {}  ({exercised}, {})",
            self.verdict(judged.verdict),
            visible(&judged.route),
            counted(proof.calls, "call"),
        ));
        if let Some(reason) = &judged.reason {
            self.line(&format!("    {}", visible(reason)));
        }
        for finding in self.places(&proof.findings) {
            self.finding(&finding);
        }
        for failed in judged.failures.iter().filter(|one| one.completed > 0) {
            self.line(&failure(failed));
        }
        if let Some(waits) = judged.waits {
            self.line(&waited(waits));
        }
        for exemption in &proof.exemptions {
            let calls = counted(exemption.count, "call");
            self.line(&format!(
                "    exempt: {} ({calls})",
                visible(&exemption.reason)
            ));
        }
        if proof.log_writes > 0 {
            let writes = counted(proof.log_writes, "write");
            self.line(&format!(
                "    {writes} to standard output or error, which can block: advisory"
            ));
        }
        if proof.faulted_polls > 0 {
            let polls = counted(proof.faulted_polls, "poll");
            self.line(&format!(
                "    {polls} waited for a page from disk, which no call shows: advisory"
            ));
        }
    }

    /// Findings that a reader takes for one: the same call from the same line, whoever called that.
    fn places(&self, findings: &[Finding]) -> Vec<Finding> {
        let mut index: HashMap<(String, Option<String>), usize> = HashMap::new();
        let mut places: Vec<Finding> = Vec::new();
        for finding in findings {
            let place = finding.cause.blamed().map(|frame| self.place(frame));
            match index.entry((call(finding), place)) {
                Entry::Occupied(known) => places[*known.get()].count += finding.count,
                Entry::Vacant(new) => {
                    new.insert(places.len());
                    places.push(finding.clone());
                }
            }
        }
        places.sort_by_key(|finding| std::cmp::Reverse(finding.count));
        places
    }

    fn finding(&mut self, finding: &Finding) {
        let times = counted(finding.count, "time");
        self.line(&format!("    {} ({times})", call(finding)));
        let blamed = finding.cause.blamed();
        if let Some(blamed) = blamed {
            self.line(&format!("        at {}", self.place(blamed)));
        }
        let callers = finding.cause.frames.iter();
        let callers = callers
            .skip_while(|frame| Some(*frame) != blamed)
            .skip(1)
            .filter(|frame| frame.is_own && frame.file.is_some());
        for caller in callers.take(CALLERS_MAX) {
            self.line(&format!("        from {}", self.place(caller)));
        }
    }

    /// `src/store.rs:42 (store::get)`: what an editor opens comes first.
    fn place(&self, frame: &Frame) -> String {
        let function = visible(&shortened(&frame.function));
        let Some(file) = &frame.file else {
            return function;
        };
        let folder = self.style.folder.as_ref();
        let near = folder.and_then(|folder| Path::new(file).strip_prefix(folder).ok());
        let file = near.map_or_else(|| visible(file), |near| visible(&near.to_string_lossy()));
        match frame.line {
            Some(line) => format!("{file}:{line} ({function})"),
            None => format!("{file} ({function})"),
        }
    }

    fn verdict(&self, verdict: RouteVerdict) -> String {
        let (words, code) = match verdict {
            RouteVerdict::Blocking => ("✗ blocking", 31),
            RouteVerdict::Unproven => ("? unproven", 33),
            RouteVerdict::Proven => ("✓ proven  ", 32),
        };
        if self.style.colour {
            format!("\u{1b}[{code}m{words}\u{1b}[0m")
        } else {
            words.to_owned()
        }
    }
}

/// The call and what it is on, without its line.
fn call(finding: &Finding) -> String {
    let call = Cause {
        frames: Vec::new(),
        ..finding.cause.clone()
    };
    visible(&call.to_string())
}

fn failure(driven: &Driven) -> String {
    let example = driven.example.as_deref().unwrap_or("no example");
    format!(
        "    {} of {} requests `{}` failed: {}",
        driven.failed,
        driven.failed + driven.completed,
        visible(&driven.name),
        visible(example)
    )
}

fn waited(waits: Waits) -> String {
    format!(
        "    the loop's thread slept {:.1} ms and waited {:.1} ms for pages, in {}",
        ms(waits.slept_ns),
        ms(waits.fault_ns),
        counted(waits.polls, "poll")
    )
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1_000_000.0
}

fn summary(routes: &[JudgedRoute]) -> String {
    let count = |verdict| {
        let routes = routes.iter().filter(|judged| judged.verdict == verdict);
        routes.count()
    };
    let (blocking, unproven, proven) = (
        count(RouteVerdict::Blocking),
        count(RouteVerdict::Unproven),
        count(RouteVerdict::Proven),
    );
    if routes.is_empty() {
        "Nothing is proven: the certificate names no route; put the monitor's layer around the \
         router"
            .to_owned()
    } else if blocking + unproven == 0 {
        format!("Routes: {proven}, all proven: no call that can block on the exercised paths.")
    } else {
        format!("Routes: {blocking} blocking, {unproven} unproven, {proven} proven.")
    }
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The end of a long name, which tells more than its beginning.
fn shortened(function: &str) -> String {
    const CHARS_MAX: usize = 60;
    let count = function.chars().count();
    if count <= CHARS_MAX {
        return function.to_owned();
    }
    let end: String = function.chars().skip(count - (CHARS_MAX - 1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use unstall_loop_monitor::cause::CauseClass;

    use super::*;

    fn page(folder: &str) -> Page {
        Page {
            text: String::new(),
            style: Style {
                colour: false,
                folder: Some(PathBuf::from(folder)),
            },
        }
    }

    #[test]
    fn a_place_is_what_an_editor_opens() {
        let mut frame = Frame {
            function: "store::get".to_owned(),
            file: Some("/srv/app/src/store.rs".to_owned()),
            line: Some(42),
            is_own: true,
        };
        let near = page("/srv/app").place(&frame);
        assert_eq!(near, "src/store.rs:42 (store::get)");
        let far = page("/elsewhere").place(&frame);
        assert_eq!(far, "/srv/app/src/store.rs:42 (store::get)");
        frame.file = None;
        assert_eq!(page("/").place(&frame), "store::get");
    }

    #[test]
    fn long_names_keep_their_end() {
        let long = format!("{}::the_end", "é".repeat(100));
        let short = shortened(&long);
        assert!(
            short.starts_with('…') && short.ends_with("::the_end"),
            "{short}"
        );
        assert_eq!(short.chars().count(), 60);
    }

    #[test]
    fn findings_that_look_the_same_are_one() {
        let frame = |function: &str, line| Frame {
            function: function.to_owned(),
            file: Some("/srv/app.py".to_owned()),
            line: Some(line),
            is_own: true,
        };
        let finding = |line, caller, count| Finding {
            cause: Cause {
                class: CauseClass::Sleep,
                syscall: Some("clock_nanosleep".to_owned()),
                target: None,
                endpoint: None,
                frames: vec![frame("get", line), frame("handle", caller)],
            },
            count,
        };
        let places = page("/srv").places(&[finding(1, 8, 5), finding(2, 8, 3), finding(2, 9, 4)]);
        let counts: Vec<u64> = places.iter().map(|place| place.count).collect();
        assert_eq!(counts, [7, 5]);
    }
}
