//! Which kind of event loop a process runs, told by what is mapped into it and how its threads are
//! called.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::process::{DELETED, ProcessError, ProcessView};

/// A kind of event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    Tokio,
    Asyncio,
    Uvloop,
    Node,
    Unknown,
}

impl Runtime {
    /// As the summary says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Asyncio => "asyncio",
            Self::Uvloop => "uvloop",
            Self::Node => "node",
            Self::Unknown => "unknown",
        }
    }
}

/// The files mapped into a process.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    /// Each with the address of its first byte.
    starts: BTreeMap<String, u64>,
    /// Where uvloop, with libuv in it, keeps its variables.
    pub(super) uvloop_data: Vec<Range<u64>>,
    /// Where the main thread's stack is now.
    pub(super) main_stack: Option<Range<u64>>,
}

impl MappedFiles {
    pub(super) fn of(view: &ProcessView) -> Result<Self, ProcessError> {
        Ok(Self::parse(&view.read_text("maps")?))
    }

    /// `start-end permissions offset device inode path` (proc(5)); by address, so the first line of
    /// a file is where it begins.
    fn parse(maps: &str) -> Self {
        let mut files = Self::default();
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let (range, permissions) = (words.next(), words.next());
            // The rest of the line: it may hold spaces.
            let path = line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start();
            let Some(range) = range.and_then(address_range) else {
                continue;
            };
            if path.starts_with('/') {
                files.starts.entry(path.to_owned()).or_insert(range.start);
            }
            let is_writable = permissions.is_some_and(|it| it.starts_with("rw"));
            let last = files.uvloop_data.last_mut();
            match (path, last) {
                ("[stack]", _) => files.main_stack = Some(range),
                // What begins as zeros has no file, and follows what has one.
                ("", Some(last)) if is_writable && last.end == range.start => last.end = range.end,
                (path, _) if is_writable && is_uvloop(path) => files.uvloop_data.push(range),
                _ => {}
            }
        }
        files
    }

    /// Files whose name begins so.
    pub(super) fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        let files = self.starts.iter();
        files
            .filter(move |(path, _)| file_name(path).starts_with(prefix))
            .map(|(path, start)| (path.as_str(), *start))
    }

    /// Whether the interpreter's loop of libuv is loaded.
    pub(super) fn has_uvloop(&self) -> bool {
        self.starts.keys().any(|path| is_uvloop(path))
    }

    /// Python's interpreter: a program or a library.
    pub(super) fn python(&self) -> Option<(&str, u64)> {
        // The library first: beside it the program is a shell of a few KiB.
        self.named("libpython").chain(self.named("python")).next()
    }

    /// Node's engine: a program or a library.
    pub(super) fn node(&self) -> Option<(&str, u64)> {
        let is_node = |(path, _): &(&str, u64)| matches!(file_name(path), "node" | "nodejs");
        self.named("libnode")
            .chain(self.named("node").filter(is_node))
            .next()
    }
}

fn is_uvloop(path: &str) -> bool {
    path.contains("/uvloop/loop.")
}

fn address_range(range: &str) -> Option<Range<u64>> {
    let (start, end) = range.split_once('-')?;
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    Some(address(start)?..address(end)?)
}

fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_at_its_lowest_mapping() {
        let maps = "55550000-55551000 r--p 00000000 08:01 12 /usr/bin/python3.11\n\
                    55551000-55552000 r-xp 00001000 08:01 12 /usr/bin/python3.11\n\
                    7f000000-7f001000 rw-p 00000000 00:00 0 \n\
                    7f100000-7f101000 r-xp 00000000 08:01 13 /x/uvloop/loop.cpython-311.so\n\
                    7f101000-7f102000 rw-p 00001000 08:01 13 /x/uvloop/loop.cpython-311.so\n\
                    7f102000-7f103000 rw-p 00000000 00:00 0 \n\
                    7ffe0000-7ffe1000 rw-p 00000000 00:00 0 [stack]\n";
        let files = MappedFiles::parse(maps);
        assert_eq!(files.python(), Some(("/usr/bin/python3.11", 0x5555_0000)));
        assert!(files.has_uvloop());
        assert_eq!(files.node(), None);
        let data = 0x7f10_1000..0x7f10_3000;
        assert_eq!(files.uvloop_data, std::slice::from_ref(&data));
        assert_eq!(files.main_stack, Some(0x7ffe_0000..0x7ffe_1000));
    }

    #[test]
    fn a_library_that_is_called_like_node_is_not_node() {
        let maps = "10000-20000 r-xp 00000000 08:01 1 /opt/lib/node_api_helper.so\n\
                    30000-40000 r-xp 00000000 08:01 2 /opt/bin/node\n";
        assert_eq!(
            MappedFiles::parse(maps).node(),
            Some(("/opt/bin/node", 0x30000))
        );
    }
}
