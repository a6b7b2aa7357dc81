//! A small disk of a test's own, which it may fill.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A file system in memory, mounted until this is dropped.
pub(crate) struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts one on a folder. Where the machine lets us mount none, it says so and answers nothing.
    pub(crate) fn mount(at: &Path, size_mb: u32) -> Option<Self> {
        let options = CString::new(format!("size={size_mb}m,mode=0700")).expect("no zero in it");
        let mounted = mount("none", at, "tmpfs", MountFlags::empty(), options.as_c_str());
        if let Err(error) = mounted {
            eprintln!("skipped: no file system can be mounted here ({error})");
            return None;
        }
        Some(Self { at: at.to_owned() })
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }

    /// Takes all room that is left.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.ballast()).expect("a file");
        for piece_bytes in [1 << 20, 4096] {
            let piece = vec![1; piece_bytes];
            while ballast.write_all(&piece).is_ok() {}
        }
    }

    /// Gives it back.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.ballast()).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = unmount(self.at.as_path(), UnmountFlags::DETACH) {
            eprintln!("{} stays mounted: {error}", self.at.display());
        }
    }
}
