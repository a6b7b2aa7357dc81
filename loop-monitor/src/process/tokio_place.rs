//! Where in Tokio a function of a stack belongs: by its source file, since inlined functions have
//! short names in optimised programs, and where there is none by its full name.

use crate::cause::Frame;

/// The path of modules within Tokio, such as `runtime/scheduler/multi_thread/worker`; what follows
/// the module may be there, too. `None` for everything that isn't Tokio's.
pub(crate) fn place_in_tokio(frame: &Frame) -> Option<String> {
    let by_file = frame.file.as_deref().and_then(path_in_tokio);
    by_file.or_else(|| {
        let function = frame.function.trim_start_matches('<');
        // Type arguments may be anybody's.
        let path = function.split('<').next().unwrap_or_default();
        Some(path.strip_prefix("tokio::")?.replace("::", "/"))
    })
}

/// Whether a worker waits for work: the innermost function of Tokio is that of its parking.
/// `None` where nothing of Tokio is on the stack.
pub(crate) fn is_parked(frames: &[Frame]) -> Option<bool> {
    let mut places = frames.iter().filter_map(place_in_tokio);
    // Its own names for locks and conditions are on the way to both.
    let place = places.find(|place| !place.starts_with("loom/"))?;
    Some(place.starts_with("runtime/scheduler/multi_thread/park"))
}

/// Whether a thread runs tasks: a worker, or one that drives a runtime of one thread. A pool's
/// thread has neither on its stack, whatever its name.
pub(crate) fn runs_tasks(frames: &[Frame]) -> bool {
    let mut places = frames.iter().filter_map(place_in_tokio);
    places.any(|place| {
        place.starts_with("runtime/scheduler/multi_thread/worker")
            || place.starts_with("runtime/scheduler/current_thread")
    })
}

fn path_in_tokio(file: &str) -> Option<String> {
    let folders: Vec<&str> = file.split('/').collect();
    let at = folders
        .windows(2)
        .position(|pair| pair[1] == "src" && is_folder_of(pair[0], "tokio"))?;
    let path = folders[at + 2..].join("/");
    Some(path.trim_end_matches(".rs").to_owned())
}

/// Whether a folder holds a crate's source: its name, alone or with a version.
pub(crate) fn is_folder_of(folder: &str, name: &str) -> bool {
    let Some(rest) = folder.strip_prefix(name) else {
        return false;
    };
    let version = rest.strip_prefix('-');
    rest.is_empty()
        || version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>) -> Frame {
        Frame {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: None,
            is_own: false,
        }
    }

    const SOURCE: &str = "/registry/src/x/tokio-1.54.1/src";

    #[test]
    fn inlined_functions_are_placed_by_their_file_and_others_by_their_name() {
        let inlined = frame(
            "run_task",
            Some(&format!(
                "{SOURCE}/runtime/scheduler/multi_thread/worker.rs"
            )),
        );
        let worker = "runtime/scheduler/multi_thread/worker";
        assert_eq!(place_in_tokio(&inlined).as_deref(), Some(worker));
        let named = frame(
            "<tokio::runtime::scheduler::multi_thread::worker::Context>::run",
            None,
        );
        assert!(place_in_tokio(&named).is_some_and(|place| place.starts_with(worker)));
        for other in [
            frame("poll", Some("/app/src/tokio/cache.rs")),
            frame(
                "poll",
                Some("/registry/src/x/tokio-util-0.7.1/src/codec.rs"),
            ),
            frame("app::run::<tokio::runtime::Handle>", None),
        ] {
            assert_eq!(place_in_tokio(&other), None, "{other}");
        }
    }

    #[test]
    fn a_parked_worker_is_told_from_one_whose_task_waits() {
        let parked = [
            frame("syscall", None),
            frame("wait", Some(&format!("{SOURCE}/loom/std/mod.rs"))),
            frame(
                "park",
                Some(&format!("{SOURCE}/runtime/scheduler/multi_thread/park.rs")),
            ),
            frame(
                "run",
                Some(&format!(
                    "{SOURCE}/runtime/scheduler/multi_thread/worker.rs"
                )),
            ),
        ];
        assert_eq!(is_parked(&parked), Some(true));
        let task = [
            frame("syscall", None),
            frame("app::locked", Some("/app/src/main.rs")),
            frame("poll", Some(&format!("{SOURCE}/runtime/task/core.rs"))),
            parked[3].clone(),
        ];
        assert_eq!(is_parked(&task), Some(false));
        assert_eq!(is_parked(&task[..2]), None);
        assert!(runs_tasks(&parked) && runs_tasks(&task) && !runs_tasks(&task[..3]));
    }
}
