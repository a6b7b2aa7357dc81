//! Which versions a replay goes through: each step's own, the one before it and the start, without
//! the steps that regressed on the way.

use anyhow::{Context, bail};
use unstall_scenarios::migration::{MigrationPlan, Step};

/// The option of a plan's commands that lists the steps which have landed.
const LIST_OPTION: &str = "--steps";
/// What the list is without any step.
const NO_STEP: &str = "start";

/// The way through a plan.
#[derive(Debug)]
pub(crate) struct Course {
    plan: MigrationPlan,
    left_out: Vec<String>,
}

/// The commands that a step is measured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct States {
    /// The start of the migration; `None` where it is what is before the step.
    pub(crate) start: Option<String>,
    /// All steps before it that were kept.
    pub(crate) before: String,
    /// The same with the step.
    pub(crate) after: String,
}

impl Course {
    /// Through a plan from which any step can be left out.
    ///
    /// # Errors
    /// A step whose command doesn't say that it has landed.
    pub(crate) fn new(plan: MigrationPlan) -> anyhow::Result<Self> {
        for step in &plan.steps {
            if !listed(&step.command).is_some_and(|list| list.split(',').any(|id| id == step.id)) {
                bail!(
                    "the command of step {} is `{}`, and a replay must be able to leave a step out \
                     that regressed: let it name the steps that have landed, as in `{LIST_OPTION} \
                     {}`",
                    step.id,
                    step.command,
                    all_up_to(&plan, step).join(","),
                );
            }
        }
        Ok(Self {
            plan,
            left_out: Vec::new(),
        })
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &MigrationPlan {
        &self.plan
    }

    /// The steps that regressed so far.
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// From now on this step's version is no part of any.
    pub(crate) fn leave_out(&mut self, id: &str) {
        self.left_out.push(id.to_owned());
    }

    /// What a step is measured with.
    ///
    /// # Errors
    /// A step that isn't in the plan.
    pub(crate) fn states(&self, step: &Step) -> anyhow::Result<States> {
        let before = self.plan.predecessor_command(&step.id);
        let before = before.with_context(|| self.plan.unknown_step(&step.id))?;
        let (start, before) = (self.start(), self.without_regressed(before));
        Ok(States {
            start: (start != before).then_some(start),
            before,
            after: self.without_regressed(&step.command),
        })
    }

    /// The state before all steps.
    pub(crate) fn start(&self) -> String {
        self.plan.start.command.clone()
    }

    /// The state behind a step, or, where that one regressed, before it.
    pub(crate) fn state_behind(&self, step: &Step) -> String {
        self.without_regressed(&step.command)
    }

    fn without_regressed(&self, command: &str) -> String {
        self.left_out
            .iter()
            .fold(command.to_owned(), |command, id| without(&command, id))
    }
}

/// A plan's steps up to one of them.
fn all_up_to<'p>(plan: &'p MigrationPlan, step: &Step) -> Vec<&'p str> {
    let ids = plan.steps.iter().map(|step| step.id.as_str());
    let mut ids: Vec<&str> = ids.take_while(|id| *id != step.id).collect();
    ids.extend(plan.step(&step.id).map(|step| step.id.as_str()));
    ids
}

/// The list of steps in a command.
fn listed(command: &str) -> Option<&str> {
    let (at, length) = place_of_list(command)?;
    command.get(at..at + length)
}

/// Where the list stands: the byte at which it begins, and its length.
fn place_of_list(command: &str) -> Option<(usize, usize)> {
    let option = command.match_indices(LIST_OPTION).find(|(at, _)| {
        let starts_a_word = command[..*at].ends_with(' ');
        let rest = &command[at + LIST_OPTION.len()..];
        starts_a_word && rest.starts_with([' ', '='])
    })?;
    let behind = option.0 + LIST_OPTION.len() + 1;
    let rest = &command[behind..];
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let list = &rest[blanks..];
    Some((behind + blanks, list.find(' ').unwrap_or(list.len())))
}

/// The same command without a step in its list.
fn without(command: &str, id: &str) -> String {
    let Some((at, length)) = place_of_list(command) else {
        return command.to_owned();
    };
    let list = &command[at..at + length];
    let kept: Vec<&str> = list.split(',').filter(|of| *of != id).collect();
    let kept = if kept.is_empty() {
        NO_STEP.to_owned()
    } else {
        kept.join(",")
    };
    format!("{}{kept}{}", &command[..at], &command[at + length..])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn course() -> Course {
        Course::new(MigrationPlan::shipped().expect("the plan")).expect("a course")
    }

    fn step(course: &Course, id: &str) -> Step {
        course.plan().step(id).expect("a step").clone()
    }

    #[test]
    fn a_step_is_measured_against_the_one_before_it_and_the_start() {
        let course = course();
        let states = course.states(&step(&course, "2a")).expect("states");
        assert_eq!(states.start, Some(course.start()));
        assert!(states.before.contains("--steps 0,1 "), "{states:?}");
        assert!(states.after.contains("--steps 0,1,2a "), "{states:?}");
        let first = course.states(&step(&course, "0")).expect("states");
        assert_eq!((first.start, first.before), (None, course.start()));
    }

    #[test]
    fn a_step_that_regressed_is_in_no_later_version() {
        let mut course = course();
        course.leave_out("1");
        let states = course.states(&step(&course, "2a")).expect("states");
        assert!(states.before.contains("--steps 0 "), "{states:?}");
        assert!(states.after.contains("--steps 0,2a "), "{states:?}");
        course.leave_out("6");
        let end = course.state_behind(&step(&course, "6"));
        assert!(end.contains("--steps 0,2a,2b,2c,2d,2e,3,4,5 "), "{end}");
    }

    #[test]
    fn without_its_only_step_a_version_is_the_start() {
        let mut course = course();
        course.leave_out("0");
        let states = course.states(&step(&course, "1")).expect("states");
        assert!(states.after.contains("--steps 1 "), "{states:?}");
        assert_eq!((states.start, states.before), (None, course.start()));
    }

    #[test]
    fn the_list_is_found_and_nothing_else_changed() {
        assert_eq!(without("s --steps 0,1 --x 1", "1"), "s --steps 0 --x 1");
        assert_eq!(without("s --steps=0,1", "0"), "s --steps=1");
        assert_eq!(without("s --steps  1", "1"), "s --steps  start");
        assert_eq!(without("s --stepsize 1", "1"), "s --stepsize 1");
        assert_eq!(without("s --steps 10,1", "1"), "s --steps 10");
        assert_eq!(listed("s --steps 0,1 -x"), Some("0,1"));
        assert_eq!(listed("s"), None);
    }

    #[test]
    fn a_command_that_names_no_steps_is_refused() {
        let text = r#"
            name = "own"
            start = { title = "a", command = "serve --old --port {port}" }
            [[step]]
            id = "1"
            title = "b"
            branch = "b"
            risk = "low"
            impact = "c"
            command = "serve --new --port {port}"
            scenarios = ["usage-check"]
            endpoints = ["GET usage"]
            criteria = { errors = "none-new" }
        "#;
        let plan = MigrationPlan::parse(text, Path::new("own.toml")).expect("a plan");
        let error = Course::new(plan).expect_err("no list").to_string();
        assert!(error.contains("as in `--steps 1`"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn the_words_around_the_list_stay_and_one_step_goes(
            prefix in "[a-zé/]{1,12}",
            between in "( |=)",
            ids in proptest::collection::btree_set("[0-9a-z]{1,3}", 1..6),
            suffix in "( [a-z{}é-]{0,12}){0,3}",
            at in 0_usize..6,
        ) {
            let ids: Vec<String> = ids.into_iter().collect();
            let id = &ids[at % ids.len()];
            let command = |list: &str| format!("{prefix} --steps{between}{list}{suffix}");
            let list = ids.join(",");
            let whole = command(&list);
            proptest::prop_assert_eq!(listed(&whole), Some(list.as_str()));
            let kept: Vec<&str> = ids.iter().filter(|of| *of != id).map(String::as_str).collect();
            let rest = if kept.is_empty() { "start".to_owned() } else { kept.join(",") };
            proptest::prop_assert_eq!(without(&whole, id), command(&rest));
            proptest::prop_assert_eq!(without(&whole, "none-of-them"), whole);
        }

        #[test]
        fn any_command_can_be_asked(command in ".{0,40}", id in "[0-9a-z]{1,3}") {
            // No offset falls into a character, and without a list nothing changes.
            let shorter = without(&command, &id);
            proptest::prop_assert!(listed(&command).is_some() || shorter == command);
        }
    }
}
