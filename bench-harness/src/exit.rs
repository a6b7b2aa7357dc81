//! Exit codes, in one place, because scripts depend on them.

use std::process::ExitCode;

use crate::document::VerdictName;

/// How `unstall` ends. `--json` carries the same number in `exit_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitStatus {
    /// Passed or proven, or there was nothing to judge and all went well.
    Pass = 0,
    /// At least one judged cell is significantly worse, one route is not proven, or a bar of a
    /// self-test isn't met.
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

impl From<VerdictName> for ExitStatus {
    fn from(verdict: VerdictName) -> Self {
        match verdict {
            VerdictName::Pass | VerdictName::Proven => Self::Pass,
            VerdictName::Regression
            | VerdictName::Blocking
            | VerdictName::Unproven
            | VerdictName::Unmet => Self::Regression,
            VerdictName::Invalid => Self::Invalid,
            VerdictName::Inconclusive => Self::Inconclusive,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
