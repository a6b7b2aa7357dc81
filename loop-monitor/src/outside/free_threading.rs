//! Pythons without an interpreter lock, told before anything of theirs is read: their objects and
//! threads are laid out in another way, so that stacks read by the ordinary way would be made up.

use super::elf::Elf;
use super::runtime::MappedFiles;
use crate::process::ProcessView;

/// What `_PyRuntime` begins with, from 3.13 on (`struct _Py_DebugOffsets` of CPython's
/// `pycore_runtime.h`): this, the version, and whether it is free-threaded.
const COOKIE: [u8; 8] = *b"xdebugpy";
const HEAD_BYTES: usize = 24;

/// Why this interpreter's stacks can't be read, if it is such a one.
pub(super) fn refusal(view: &ProcessView, files: &MappedFiles) -> Option<String> {
    let (path, start) = files.python()?;
    let runtime = Elf::of(view, path)?.variable("_PyRuntime", start)?;
    let mut head = [0; HEAD_BYTES];
    // What can't be read is told by whoever reads stacks.
    let read = view.read_memory(runtime.start, &mut head).ok()?;
    (read == HEAD_BYTES && is_free_threaded(&head)).then(|| {
        "it is a build without the interpreter lock (free-threaded), whose stacks can't be read \
         yet: run the service by the ordinary build of the same version"
            .to_owned()
    })
}

fn is_free_threaded(head: &[u8; HEAD_BYTES]) -> bool {
    head.starts_with(&COOKIE) && head[16..] != [0; 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(cookie: &[u8; 8], version: u64, free_threaded: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(cookie);
        head[8..16].copy_from_slice(&version.to_ne_bytes());
        head[16..].copy_from_slice(&free_threaded.to_ne_bytes());
        head
    }

    #[test]
    fn only_a_new_interpreter_that_says_so_is_free_threaded() {
        assert!(is_free_threaded(&head(b"xdebugpy", 0x030d_00f0, 1)));
        assert!(!is_free_threaded(&head(b"xdebugpy", 0x030d_00f0, 0)));
        // 3.12 begins with other things.
        assert!(!is_free_threaded(&head(b"\x01\0\0\0\0\0\0\0", 1, 1)));
    }
}
