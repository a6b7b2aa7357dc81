//! All cases, by their names.

use super::case::Case;
use super::{clients, http2, limits, rates, right_answers, secured, streams, times, wrong_answers};

/// All of them, in the order in which they are run and shown.
pub(super) fn all() -> Vec<Case> {
    let groups = [
        right_answers::cases(),
        wrong_answers::cases(),
        clients::cases(),
        secured::cases(),
        http2::cases(),
        streams::cases(),
        times::cases(),
        rates::cases(),
        limits::cases(),
    ];
    groups.into_iter().flatten().collect()
}

/// Their names.
fn names() -> Vec<&'static str> {
    all().iter().map(|case| case.name).collect()
}

/// For the command line: a name that there is.
///
/// # Errors
/// For any other, with all that there are.
pub(crate) fn check_name(name: &str) -> Result<String, String> {
    let names = names();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "there is no case `{name}`; there are {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unstall_testbed::{RIGHT_FRAMES, RIGHT_HTTP2, WRONG_FRAMES, WRONG_HTTP2};

    use super::*;

    #[test]
    fn names_are_unique_and_each_stands_for_something() {
        let cases = all();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in cases {
            let is_report = case.stands_for.contains('/') && case.stands_for.contains('#');
            let is_standard = case.stands_for.contains("RFC ");
            assert!(is_report || is_standard, "{}", case.name);
        }
    }

    #[test]
    fn every_frame_of_the_torture_server_is_a_case() {
        let names = names();
        let frames = [RIGHT_FRAMES, WRONG_FRAMES, RIGHT_HTTP2, WRONG_HTTP2];
        for frame in frames.into_iter().flatten() {
            assert!(names.contains(frame), "{frame} is no case");
        }
    }

    #[test]
    fn a_wrong_name_names_the_right_ones() {
        assert_eq!(check_name("obs-fold"), Ok("obs-fold".to_owned()));
        let error = check_name("obsfold").expect_err("no case");
        assert!(error.contains("obsfold") && error.contains("obs-fold"));
    }
}
