//! Which program a process runs: it may become another one (`exec`) and keep its number, and then
//! nothing that was found out about it holds any more.

use std::fs;
use std::path::PathBuf;

use crate::process::{ProcessError, ProcessView};

/// A program in the process that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    file: PathBuf,
    /// Where its stack begins, which is elsewhere after each `exec`, also of the same file.
    stack_start: u64,
}

impl Program {
    /// The one that runs now.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn of(view: &ProcessView) -> Result<Self, ProcessError> {
        let path = view.root().join("exe");
        let file = fs::read_link(&path).map_err(|error| view.error(&path, error))?;
        let stat = view.read_text("stat")?;
        Ok(Self {
            file,
            stack_start: stack_start(&stat),
        })
    }
}

/// Field 28 of proc(5)'s stat, counted after the name in parentheses, which may hold anything; 0
/// where the kernel keeps it from us.
fn stack_start(stat: &str) -> u64 {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = after_name.split_ascii_whitespace().nth(28 - 3);
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_stays_itself() {
        let view = ProcessView::own();
        let program = Program::of(&view).expect("it runs");
        assert_eq!(Program::of(&view).expect("it runs"), program);
        assert_ne!(program.stack_start, 0);
    }

    #[test]
    fn the_stack_s_beginning_is_the_28th_field() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) S {}\n", numbers.join(" "));
        assert_eq!(stack_start(&stat), 28);
    }
}
