//! What must hold of any bytes that are read as a scenario file or imported, for the fuzz targets
//! and for the test that replays their corpus.

use std::path::Path;
use std::sync::Arc;

use unstall_scenarios::import::{ImportError, Imported, Options};
use unstall_scenarios::scope::Scope;
use unstall_scenarios::{Inputs, Plan, ScenarioError};

/// A path in a folder that isn't there: no file beside it can be read.
const ORIGIN: &str = "no/such/folder/any.toml";

/// A scenario file gives a plan that can be driven, or an error at a line that the text has.
pub(crate) fn assert_scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Plan::parse(text, Path::new(ORIGIN), &Inputs::default()) {
        Ok(plan) => assert_drivable(plan),
        Err(ScenarioError::Invalid {
            line, what, fix, ..
        }) => {
            assert!(line >= 1 && line <= text.matches('\n').count() + 1);
            assert!(!what.is_empty() && !fix.is_empty());
        }
        Err(other) => panic!("{other}"),
    }
}

/// Everything that a run does with a plan, but for the sending.
fn assert_drivable(plan: Plan) {
    let plan = Arc::new(plan);
    assert!(plan.requests_per_iteration() >= 1);
    for user in [0, 6] {
        let mut scope = Scope::new(Arc::clone(&plan), user, 7, 42);
        for setup in &plan.setup {
            // A variable that an answer brings isn't there: an error, and no panic.
            let _ = setup.request.render(&scope);
        }
        for iteration in [0, 1, u64::MAX] {
            scope.begin_iteration(iteration);
            let requests = 0..plan.requests.len();
            let taken: Vec<usize> = requests.filter(|index| scope.takes(*index)).collect();
            assert_eq!(taken.len(), plan.requests_per_iteration());
            for index in taken {
                let request = &plan.requests[index];
                if let Ok(sent) = request.render(&scope) {
                    assert!(sent.path_and_query.starts_with('/'));
                    assert!(
                        sent.path_and_query
                            .bytes()
                            .all(|byte| byte.is_ascii_graphic())
                    );
                }
                scope.think(index);
                // Any answer is accepted or refused.
                let headers = [("x-any", b"\xff1".as_slice())];
                let _ = request.accept(&scope, 200, headers, br#"{"any": [1]}"#);
                let _ = request.accept_item(b"{", true);
            }
        }
    }
}

/// What is imported is a scenario file without mistakes, or an error that says what to do.
pub(crate) fn assert_import(
    import: fn(&str, &Options) -> Result<Imported, ImportError>,
    bytes: &[u8],
) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let options = Options::default();
    match import(text, &options) {
        Err(error) => {
            assert!(!error.place.is_empty() && !error.what.is_empty() && !error.fix.is_empty());
        }
        Ok(imported) => {
            assert_eq!(import(text, &options), Ok(imported.clone()));
            match Plan::parse(&imported.text, Path::new(ORIGIN), &Inputs::default()) {
                Ok(plan) => assert_drivable(plan),
                // A file that a command sends isn't there.
                Err(error) if error.to_string().contains("can't be read") => {}
                Err(error) => panic!("{error}\nof {text:?}\nas {}", imported.text),
            }
        }
    }
}
