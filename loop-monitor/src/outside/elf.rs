//! Symbols of a program or library that a process has mapped, read from its file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;

use object::read::{Object, ObjectSegment, ObjectSymbol, ReadCache};

use crate::process::{DELETED, ProcessView, regular_file};

/// An ELF file, of which only what is asked for is read.
pub(super) struct Elf {
    cache: ReadCache<File>,
}

impl Elf {
    /// By its path as the process sees it, which may be a container's. `None` when it can't be
    /// opened; whoever needs it does without, and a note of the summary says so.
    pub(super) fn of(view: &ProcessView, path: &str) -> Option<Self> {
        let file = if path.ends_with(DELETED) {
            // What has that name now is another file; the program itself can still be read.
            let program = view.root().join("exe");
            (fs::read_link(&program).ok()?.as_os_str() == path).then_some(program)?
        } else {
            view.root().join("root").join(path.trim_start_matches('/'))
        };
        let file = regular_file(&file)?;
        Some(Self {
            cache: ReadCache::new(file),
        })
    }

    /// Where a variable is in a process into which the file is mapped from `start` on.
    pub(super) fn variable(&self, name: &str, start: u64) -> Option<Range<u64>> {
        let file = object::File::parse(&self.cache).ok()?;
        let lowest = file
            .segments()
            .map(|segment| segment.address() & !0xfff)
            .min()?;
        let bias = start.wrapping_sub(lowest);
        let mut symbols = file.dynamic_symbols().chain(file.symbols());
        let symbol = symbols.find(|symbol| symbol.name() == Ok(name))?;
        let begin = symbol.address().wrapping_add(bias);
        Some(begin..begin.saturating_add(symbol.size()))
    }

    /// The initial values of all `int`s whose names begin so, by the rest of their names.
    pub(super) fn integers(&self, prefix: &str) -> Option<HashMap<String, i32>> {
        let file = object::File::parse(&self.cache).ok()?;
        let mut integers = HashMap::new();
        for symbol in file.dynamic_symbols() {
            let name = symbol
                .name()
                .ok()
                .and_then(|name| name.strip_prefix(prefix));
            let Some(name) = name else { continue };
            let address = symbol.address();
            let mut segments = file.segments();
            let bytes = segments.find_map(|segment| segment.data_range(address, 4).ok().flatten());
            // What isn't in the file is zero.
            let value = bytes.and_then(|bytes| bytes.try_into().ok());
            integers.insert(name.to_owned(), value.map_or(0, i32::from_le_bytes));
        }
        Some(integers)
    }
}
