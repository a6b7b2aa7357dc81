//! A certificate as people read it in a terminal: what blocks first, each with its line.

use unstall_bench_harness::proof::{Driven, JudgedRoute, Waits};
use unstall_loop_monitor::cause::{Cause, Frame};
use unstall_loop_monitor::certificate::{Certificate, Finding, ProofMethod, RouteVerdict};

/// Own functions of a stack that are shown besides the blamed one.
const CALLERS_MAX: usize = 3;

/// The certificate and its judgement, ending in a newline.
pub(crate) fn render(
    certificate: &Certificate,
    routes: &[JudgedRoute],
    interrupted: bool,
    colour: bool,
) -> String {
    let mut page = Page {
        text: String::new(),
        colour,
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
    colour: bool,
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
                format!("Proof by tracing, on the whole loop thread; {commit}; start {start_id}")
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
        self.line(&format!(
            "{}  {}  ({}, {}, {})",
            self.verdict(judged.verdict),
            visible(&judged.route),
            counted(proof.requests, "request"),
            counted(proof.polls, "poll"),
            counted(proof.calls, "call"),
        ));
        if let Some(reason) = &judged.reason {
            self.line(&format!("    {}", visible(reason)));
        }
        for finding in &proof.findings {
            self.finding(finding);
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
    }

    fn finding(&mut self, finding: &Finding) {
        let call = Cause {
            frames: Vec::new(),
            ..finding.cause.clone()
        };
        let times = counted(finding.count, "time");
        self.line(&format!("    {} ({times})", visible(&call.to_string())));
        let blamed = finding.cause.blamed();
        if let Some(blamed) = blamed {
            self.line(&format!("        in {}", place(blamed)));
        }
        let callers = finding.cause.frames.iter();
        let callers = callers
            .skip_while(|frame| Some(*frame) != blamed)
            .skip(1)
            .filter(|frame| frame.is_own && frame.file.is_some());
        for caller in callers.take(CALLERS_MAX) {
            self.line(&format!("        called by {}", place(caller)));
        }
    }

    fn verdict(&self, verdict: RouteVerdict) -> String {
        let (words, code) = match verdict {
            RouteVerdict::Blocking => ("✗ blocking", 31),
            RouteVerdict::Unproven => ("? unproven", 33),
            RouteVerdict::Proven => ("✓ proven  ", 32),
        };
        if self.colour {
            format!("\u{1b}[{code}m{words}\u{1b}[0m")
        } else {
            words.to_owned()
        }
    }
}

fn place(frame: &Frame) -> String {
    visible(&frame.to_string())
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

/// What a service says, fit for a terminal: on one line, and without anything that moves its
/// cursor.
fn visible(words: &str) -> String {
    const CHARS_MAX: usize = 1_000;
    let blank = |letter: char| if letter.is_control() { ' ' } else { letter };
    words.chars().take(CHARS_MAX).map(blank).collect()
}
