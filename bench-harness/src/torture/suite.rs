//! The run: case by case, each with a deadline of its own, so that one that hangs is told as such.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::case::{Case, Check, CheckState, Trial, Tried, Trouble};
use super::catalogue;

/// For one case, on a machine that is busy with other things. The slowest takes some seconds.
const CASE_MAX: Duration = Duration::from_secs(60);

/// What came of every case that was tried.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    /// Case by case.
    pub(crate) cases: Vec<Finding>,
}

/// What came of one case.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// The case.
    pub(crate) case: Case,
    /// What was compared, or why nothing was.
    pub(crate) tried: Tried,
    /// How long that took.
    pub(crate) took: Duration,
}

/// What is to be said of a case, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// It couldn't be tried on this machine.
    NotRun,
    /// All is as it has to be.
    Met,
    /// It took longer than it should, as on a busy machine, and nothing else is wrong.
    Late,
    /// Something is wrong.
    Missed,
}

/// Tries the cases of these names, or all if there are none; `say` gets one line for each heading.
pub(crate) fn run(only: &[String], say: &dyn Fn(&str)) -> Findings {
    let mut findings = Findings { cases: vec![] };
    let mut group = None;
    for case in catalogue::all() {
        if !only.is_empty() && !only.iter().any(|name| name == case.name) {
            continue;
        }
        if group.replace(case.group) != Some(case.group) {
            say(case.group.title());
        }
        let begun = Instant::now();
        let tried = within(CASE_MAX, case.trial.clone());
        findings.cases.push(Finding {
            case,
            tried,
            took: begun.elapsed(),
        });
    }
    findings
}

/// Tries one on a thread of its own, which is left behind when it hangs.
fn within(deadline: Duration, trial: Trial) -> Tried {
    let (tell, told) = mpsc::channel();
    let spawned = thread::Builder::new()
        .name("case".to_owned())
        .spawn(move || {
            let tried = match trial {
                Trial::Exchange(exchange) => exchange.run(),
                Trial::Own(trial) => trial(),
            };
            // Nobody listens only when it took too long.
            let _ = tell.send(tried);
        });
    spawned.map_err(|error| Trouble::NotRun(format!("no thread could be started: {error}")))?;
    told.recv_timeout(deadline).unwrap_or_else(|error| {
        Err(Trouble::Broken(match error {
            mpsc::RecvTimeoutError::Timeout => {
                format!("it has not come to an end within {} s", deadline.as_secs())
            }
            mpsc::RecvTimeoutError::Disconnected => "it panicked".to_owned(),
        }))
    })
}

impl Finding {
    /// What is to be said of it.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.tried {
            Err(Trouble::NotRun(_)) => Verdict::NotRun,
            Err(Trouble::Broken(_)) => Verdict::Missed,
            Ok(checks) => {
                let of = |check: &Check| match check.state {
                    CheckState::Met => Verdict::Met,
                    CheckState::Late => Verdict::Late,
                    CheckState::Missed => Verdict::Missed,
                };
                checks.iter().map(of).max().unwrap_or(Verdict::Missed)
            }
        }
    }

    /// Why it isn't met or wasn't run, a sentence each.
    pub(crate) fn reasons(&self) -> Vec<String> {
        match &self.tried {
            Err(Trouble::NotRun(why) | Trouble::Broken(why)) => vec![why.clone()],
            Ok(checks) => {
                let unmet = checks.iter().filter(|check| check.state != CheckState::Met);
                unmet
                    .map(|check| {
                        let Check {
                            what,
                            expected,
                            seen,
                            ..
                        } = check;
                        format!("{what}: expected {expected}, seen {seen}")
                    })
                    .collect()
            }
        }
    }
}

impl Findings {
    /// Whether nothing could be tried.
    pub(crate) fn is_empty(&self) -> bool {
        let mut all = self.cases.iter();
        all.all(|finding| finding.verdict() == Verdict::NotRun)
    }

    /// The worst of all.
    pub(crate) fn verdict(&self) -> Verdict {
        let all = self.cases.iter().map(Finding::verdict);
        all.max().unwrap_or(Verdict::NotRun)
    }

    /// How many have this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let all = self.cases.iter();
        all.filter(|finding| finding.verdict() == verdict).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_hangs_is_told_and_left_behind() {
        fn hang() -> Tried {
            loop {
                thread::park();
            }
        }
        let tried = within(Duration::from_millis(50), Trial::Own(hang));
        assert!(
            matches!(&tried, Err(Trouble::Broken(why)) if why.contains("to an end")),
            "{tried:?}"
        );
    }

    #[test]
    fn the_worst_check_is_the_verdict() {
        let of = |tried| {
            Finding {
                case: catalogue::all().remove(0),
                tried,
                took: Duration::ZERO,
            }
            .verdict()
        };
        let met = Check::same("n", 1, 1);
        let late = Check::unless_busy("t", 1, 2);
        let missed = Check::same("n", 1, 2);
        assert_eq!(of(Ok(vec![met.clone()])), Verdict::Met);
        assert_eq!(of(Ok(vec![late.clone(), met.clone()])), Verdict::Late);
        assert_eq!(of(Ok(vec![late, missed, met])), Verdict::Missed);
        assert_eq!(of(Ok(vec![])), Verdict::Missed, "nothing compared");
        assert_eq!(of(Err(Trouble::NotRun(String::new()))), Verdict::NotRun);
        assert_eq!(of(Err(Trouble::Broken(String::new()))), Verdict::Missed);
    }
}
