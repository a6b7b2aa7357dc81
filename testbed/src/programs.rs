//! Finds the servers' programs: on PATH, then where Debian keeps PostgreSQL's.

use std::path::{Path, PathBuf};

use crate::TestbedError;

/// Finds `name` on PATH or in `/usr/lib/postgresql/*/bin`, newest version first.
///
/// # Errors
/// [`TestbedError::MissingProgram`], which names the Debian package.
pub(crate) fn find(name: &'static str, package: &'static str) -> Result<PathBuf, TestbedError> {
    let path = std::env::var_os("PATH").unwrap_or_default(); // unset: only Debian's folder is left
    find_in(
        name,
        std::env::split_paths(&path),
        Path::new("/usr/lib/postgresql"),
    )
    .ok_or(TestbedError::MissingProgram { name, package })
}

fn find_in(name: &str, path: impl Iterator<Item = PathBuf>, debian: &Path) -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(debian)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?; // an unreadable entry holds no program we could run
            let version = entry.file_name().to_str()?.parse().ok()?; // only `15`, `17`, …
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version.0));
    path.chain(versions.into_iter().map(|(_, folder)| folder))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_comes_first_then_the_newest_version() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        for folder in ["bin", "lib/9/bin", "lib/15/bin", "lib/extra/bin"] {
            std::fs::create_dir_all(root.path().join(folder))?;
        }
        let debian = root.path().join("lib");
        let bin = root.path().join("bin");
        let look = || find_in("initdb", std::iter::once(bin.clone()), &debian);

        assert_eq!(look(), None);
        std::fs::write(debian.join("9/bin/initdb"), "")?;
        std::fs::write(debian.join("15/bin/initdb"), "")?;
        assert_eq!(look(), Some(debian.join("15/bin/initdb")));
        std::fs::write(bin.join("initdb"), "")?;
        assert_eq!(look(), Some(bin.join("initdb")));
        Ok(())
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-server", "redis-server").expect_err("it doesn't exist");
        let text = error.to_string();
        assert!(
            text.contains("no-such-server") && text.contains("apt-get install redis-server"),
            "{text}"
        );
    }
}
