//! What is mapped where in a process: `/proc/PID/maps`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::{DELETED, ProcessError, ProcessView};

/// One stretch of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Whether code in it may run.
    pub is_executable: bool,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// The file's number in its file system; 0 without a file.
    pub inode: u64,
    /// The file's path, `[vdso]`, `[stack]`, or empty.
    pub path: String,
}

/// All mappings, by address.
#[derive(Debug, Clone, Default)]
pub struct AddressSpace {
    mappings: Vec<Mapping>,
}

impl AddressSpace {
    /// As it is now.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn read(view: &ProcessView) -> Result<Self, ProcessError> {
        let text = view.read_text("maps")?;
        Ok(Self {
            mappings: text.lines().filter_map(parse_mapping).collect(),
        })
    }

    /// The mapping that holds an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self
            .mappings
            .partition_point(|mapping| mapping.start <= address);
        let mapping = self.mappings.get(after.checked_sub(1)?)?;
        (address < mapping.end).then_some(mapping)
    }

    /// Whether an address may be code.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.find(address)
            .is_some_and(|mapping| mapping.is_executable)
    }

    /// All mappings of the same file as `mapping`, the lowest first.
    pub fn of_same_file<'a>(&'a self, mapping: &'a Mapping) -> impl Iterator<Item = &'a Mapping> {
        self.mappings
            .iter()
            .filter(move |other| other.inode == mapping.inode && other.path == mapping.path)
    }
}

impl Mapping {
    /// Where its file can be read: also in another container, and an executable that was replaced
    /// while it ran. `None` without a file, or when it can't be reached.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "once per file, on a thread that may wait"
    )]
    pub fn file(&self, view: &ProcessView) -> Option<PathBuf> {
        if self.inode == 0 || !self.path.starts_with('/') {
            return None;
        }
        // A file that can't be asked isn't the one.
        let is_it =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.ino() == self.inode);
        let in_its_root = view
            .root()
            .join("root")
            .join(self.path.trim_start_matches('/'));
        let executable = view.root().join("exe");
        let candidates = [PathBuf::from(&self.path), in_its_root.clone(), executable];
        if let Some(path) = candidates.into_iter().find(is_it) {
            return Some(path);
        }
        // Layered file systems show another number in maps than to stat(2).
        (!self.path.ends_with(DELETED) && in_its_root.is_file()).then_some(in_its_root)
    }
}

/// `start-end perms offset device inode path` (proc(5)).
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start();
        word
    };
    let (start, end) = word().split_once('-')?;
    let permissions = word();
    let file_offset = u64::from_str_radix(word(), 16).ok()?;
    let _device = word();
    let inode = word().parse().ok()?;
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_executable: permissions.contains('x'),
        file_offset,
        inode,
        path: rest.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = "7f00-8000 r-xp 00002000 fe:00 1234                       /lib/a b.so (deleted)";
        assert_eq!(
            parse_mapping(line),
            Some(Mapping {
                start: 0x7f00,
                end: 0x8000,
                is_executable: true,
                file_offset: 0x2000,
                inode: 1234,
                path: "/lib/a b.so (deleted)".to_owned(),
            })
        );
        let anonymous = parse_mapping("7f00-8000 rw-p 00000000 00:00 0 ").expect("a mapping");
        assert_eq!(
            (anonymous.path.as_str(), anonymous.is_executable),
            ("", false)
        );
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "\\PC{0,120}") {
            let _ = parse_mapping(&line);
        }
    }

    #[test]
    fn own_code_and_data_are_found() {
        let space = AddressSpace::read(&ProcessView::own()).expect("readable");
        let code = own_code_and_data_are_found as fn() as usize as u64;
        let mapping = space.find(code).expect("mapped");
        assert!(mapping.is_executable && space.is_code(code));
        assert!(space.of_same_file(mapping).count() > 1);
        let executable = std::env::current_exe().expect("a path");
        assert_eq!(mapping.file(&ProcessView::own()), Some(executable));
        let data = Box::new(0_u8);
        assert!(!space.is_code(std::ptr::from_ref(&*data).addr() as u64));
        assert!(space.find(8).is_none());
    }
}
