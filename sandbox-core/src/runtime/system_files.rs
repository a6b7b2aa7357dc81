//! Small files of the kernel and of a new root, read and written whole. It blocks: call it from the
//! blocking pool, or where there is no event loop.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Reads a text file.
///
/// # Errors
/// When it can't be opened or read, or isn't UTF-8.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let opened = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(opened).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file that must exist, as the kernel's do, in one call.
///
/// # Errors
/// When it can't be opened or written.
pub(super) fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    write_with(path, text, OFlags::WRONLY | OFlags::CLOEXEC)
}

/// Writes a new file, readable for all.
///
/// # Errors
/// When it can't be made or written.
pub(super) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    write_with(path, text, flags)
}

fn write_with(path: &Path, text: &str, flags: OFlags) -> io::Result<()> {
    let opened = open(path, flags, Mode::from_raw_mode(0o644))?;
    File::from(opened).write_all(text.as_bytes())
}
