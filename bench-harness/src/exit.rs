//! Exit codes, in one place, because scripts depend on them.

use std::process::ExitCode;

use unstall_results::comparison::Verdict;

/// How `unstall` ends. `--json` carries the same number in `exit_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitStatus {
    /// Passed, or there was nothing to judge and all went well.
    Pass = 0,
    /// At least one judged cell is significantly worse, or a check that must pass doesn't.
    Regression = 1,
    /// The command line, a file or the set-up is wrong; the message says how to mend it.
    Usage = 2,
    /// Measured, but a fault of our own makes the numbers unusable.
    Invalid = 3,
    /// Measured well, but not enough evidence either way.
    Inconclusive = 4,
}

impl ExitStatus {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

impl From<Verdict> for ExitStatus {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Regression => Self::Regression,
            Verdict::Invalid => Self::Invalid,
            Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
