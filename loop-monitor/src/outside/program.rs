//! Which program a process runs: it may become another one (`exec`) and keep its number, and then
//! nothing that was found out about it holds any more.

use std::fs;

use crate::process::{ProcessError, ProcessView};

/// A program in the process that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Where its code begins and ends, and where its stack begins: elsewhere after each `exec`,
    /// also of the same file. A path is no sign of it: files are renamed and replaced under
    /// programs that run.
    places: [u64; 3],
}

impl Program {
    /// The one that runs now.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn of(view: &ProcessView) -> Result<Self, ProcessError> {
        let path = view.root().join("exe");
        // Nothing to read once it has ended, also while nobody has waited for it.
        fs::read_link(&path).map_err(|error| view.error(&path, error))?;
        let places = places(&view.read_text("stat")?);
        if places == [0; 3] {
            // Since the line above: who may read the link may read the places.
            return Err(ProcessError::Ended { pid: view.pid() });
        }
        Ok(Self { places })
    }
}

/// Fields 26 to 28 of proc(5)'s stat, counted after the name in parentheses, which may hold
/// anything; 0 where the kernel keeps them from us, or there is no program any more.
fn places(stat: &str) -> [u64; 3] {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after_name.split_ascii_whitespace().skip(26 - 3);
    [(); 3].map(|()| {
        let field = fields.next().and_then(|field| field.parse().ok());
        field.unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_stays_itself() {
        let view = ProcessView::own();
        let program = Program::of(&view).expect("it runs");
        assert_eq!(Program::of(&view).expect("it runs"), program);
        assert!(program.places.iter().all(|place| *place != 0));
    }

    #[test]
    fn places_are_the_26th_to_the_28th_field() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) S {}\n", numbers.join(" "));
        assert_eq!(places(&stat), [26, 27, 28]);
    }
}
