//! From addresses to functions and source lines, remembered.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

use super::ProcessView;
use super::address_space::AddressSpace;
use crate::cause::Frame;

/// Addresses remembered; a program has fewer places at which it waits.
const REMEMBERED_MAX: usize = 65_536;

/// Parts of paths under which nobody keeps code of one's own: Rust's and Python's libraries,
/// packages that were fetched, and the C library's build folders.
const FOREIGN: [&str; 18] = [
    "/rustc/",
    "/library/std/",
    "/library/core/",
    "/library/alloc/",
    "/cargo/registry/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/cargo/git/",
    "/vendor/",
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/lib/python2",
    "/node_modules/",
    "/usr/include/",
    "/usr/src/",
    "/sysdeps/",
    "/glibc",
];
/// Starts of paths with the same meaning: the C library is built from its own folder, Node names
/// its own modules.
const FOREIGN_STARTS: [&str; 4] = ["node:", "internal/", "./", "../"];

/// Whether a source file is the program's own, by its path.
#[must_use]
pub fn is_own_file(path: &str) -> bool {
    !FOREIGN.iter().any(|part| path.contains(part))
        && !FOREIGN_STARTS.iter().any(|start| path.starts_with(start))
        && !is_made_at_run_time(path)
}

/// Whether this is no file but Python's name for what a library compiled while it ran
/// (`<sqlalchemy generated …>`) or what is frozen into the interpreter. What `-c` or a pipe brought
/// is the program's own, though it has no file either.
#[must_use]
pub fn is_made_at_run_time(path: &str) -> bool {
    path.starts_with('<') && !matches!(path, "<string>" | "<stdin>")
}

/// Resolves addresses of one process.
pub(super) struct Symbols {
    view: ProcessView,
    symbolizer: Symbolizer,
    files: HashMap<(u64, String), Option<PathBuf>>,
    known: HashMap<u64, Vec<Frame>>,
    starts: HashMap<u64, Option<u64>>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Symbols")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    pub(super) fn new(view: &ProcessView) -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(true)
            .build();
        Self {
            view: view.clone(),
            symbolizer,
            files: HashMap::new(),
            known: HashMap::new(),
            starts: HashMap::new(),
        }
    }

    /// Other files may be mapped at known addresses now.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.starts.clear();
    }

    pub(super) fn frames(&mut self, space: &AddressSpace, addresses: &[u64]) -> Vec<Frame> {
        if self.known.len() >= REMEMBERED_MAX {
            self.forget();
        }
        let mut frames = Vec::with_capacity(addresses.len());
        for address in addresses {
            if let Some(known) = self.known.get(address) {
                frames.extend_from_slice(known);
            } else {
                let resolved = self.resolve(space, *address);
                frames.extend_from_slice(&resolved);
                self.known.insert(*address, resolved);
            }
        }
        frames
    }

    /// Where the function that holds this address begins.
    pub(super) fn function_start(&mut self, space: &AddressSpace, address: u64) -> Option<u64> {
        if let Some(known) = self.starts.get(&address) {
            return *known;
        }
        let start = self
            .symbol(space, address)
            .and_then(|symbol| address.checked_sub(symbol.offset as u64));
        self.starts.insert(address, start);
        start
    }

    fn resolve(&mut self, space: &AddressSpace, address: u64) -> Vec<Frame> {
        if let Some(symbol) = self.symbol(space, address) {
            return frames_of(&symbol);
        }
        vec![Frame {
            function: format!("{address:#x}"),
            file: None,
            line: None,
            is_own: false,
        }]
    }

    /// A file that is gone or no ELF has no names, and code made at run time seldom one.
    fn symbol(&mut self, space: &AddressSpace, address: u64) -> Option<Sym<'static>> {
        let mapping = space.find(address)?;
        let key = (mapping.inode, mapping.path.clone());
        let file = self
            .files
            .entry(key)
            .or_insert_with(|| mapping.file(&self.view));
        let symbol = match file {
            Some(path) => {
                let offset = address - mapping.start + mapping.file_offset;
                let source = Source::Elf(Elf::new(path.clone()));
                let input = Input::FileOffset(offset);
                self.symbolizer.symbolize_single(&source, input)
            }
            // Without a file: the vDSO, or code made at run time, which a perf map may name.
            None => {
                let mut process = Process::new(self.view.pid().into());
                process.map_files = false;
                let input = Input::AbsAddr(address);
                self.symbolizer
                    .symbolize_single(&Source::Process(process), input)
            }
        };
        symbol.ok()?.into_sym().map(Sym::into_owned)
    }
}

/// The function, and those inlined into it at this address; innermost first.
fn frames_of(symbol: &Sym<'_>) -> Vec<Frame> {
    let outermost = frame(&symbol.name, symbol.code_info.as_deref());
    let inlined = symbol
        .inlined
        .iter()
        .map(|inlined| frame(&inlined.name, inlined.code_info.as_ref()));
    let mut frames: Vec<Frame> = std::iter::once(outermost).chain(inlined).collect();
    frames.reverse();
    frames
}

fn frame(function: &str, code: Option<&CodeInfo<'_>>) -> Frame {
    let file = code.map(|code| code.to_path().to_string_lossy().into_owned());
    let is_own = file.as_deref().is_some_and(is_own_file) && !is_of_monitor(function);
    Frame {
        function: function.to_owned(),
        line: code.and_then(|code| code.line).filter(|line| *line > 0),
        file,
        is_own,
    }
}

/// The monitor's own functions are on every stack that it watches, and never what kept it.
fn is_of_monitor(function: &str) -> bool {
    function
        .trim_start_matches('<')
        .starts_with("unstall_loop_monitor::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_told_from_libraries() {
        for own in [
            "/app/src/store.rs",
            "/srv/app.py",
            "src/main.rs",
            "<string>",
        ] {
            assert!(is_own_file(own), "{own}");
        }
        for foreign in [
            "/rustc/abc/library/std/src/thread/mod.rs",
            "/app/.cargo/registry/src/x/tokio-1.54.1/src/lib.rs",
            "/app/.cargo/git/checkouts/x/src/lib.rs",
            "/usr/lib/python3.12/socket.py",
            "/venv/lib/python3.12/site-packages/redis/client.py",
            "/app/node_modules/pg/lib/client.js",
            "node:internal/fs/sync",
            "../sysdeps/unix/sysv/linux/futex.c",
            "./nptl/cancellation.c",
            "<frozen importlib._bootstrap>",
            "<sqlalchemy generated (12, 34)>",
        ] {
            assert!(!is_own_file(foreign), "{foreign}");
        }
    }
}
