//! What the policy asks of the after version, in a terminal.

use unstall_results::comparison::Comparison;

use super::Page;
use crate::objectives;

/// More are counted.
const OBJECTIVES_MAX: usize = 12;

/// A paragraph each, missed ones first; true if it asks anything.
pub(super) fn write(page: &mut Page, comparison: &Comparison) -> bool {
    let found = objectives::worst_first(comparison);
    for slo in found.iter().take(OBJECTIVES_MAX) {
        let (sign, words) = objectives::outcome(slo, comparison.verdict);
        let text = format!(
            "{} {} at {}: {words}; {}",
            objectives::subject(slo),
            slo.objective,
            slo.level,
            objectives::found(slo)
        );
        page.wrapped(&format!("  {sign} "), &text);
    }
    if let Some(more) = found.len().checked_sub(OBJECTIVES_MAX).filter(|n| *n > 0) {
        page.line(&format!("  … and {more} more objectives, none worse"));
    }
    !found.is_empty()
}
