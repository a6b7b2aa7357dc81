//! What `bwrap` is told: which of the machine a runtime sees, and nothing else.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::domain::{Invalid, SandboxError};
use crate::ports::runtimes::{Mount, Network, RuntimeSpec};

/// Where the runtime sees the program that is its first process.
const SUPERVISOR: &str = "/run/unstall/supervisor";

/// Files and folders of `/etc` that programs need and that hold no secret. The rest may: the user
/// inside is the one outside, so its permissions guard nothing.
const ETC: [&str; 6] = [
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
];

/// How names are resolved, for runtimes that have the machine's network.
const ETC_OF_NETWORK: [&str; 2] = ["/etc/resolv.conf", "/etc/nsswitch.conf"];

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Bytes of files in memory, where memory isn't limited otherwise: `/tmp` and `/dev/shm` each.
const MEMORY_FILES_MB_DEFAULT: u64 = 1024;

/// A folder at the machine's root that holds programs or libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RootFolder {
    /// It leads elsewhere, usually below `/usr`.
    Link { at: PathBuf, to: PathBuf },
    /// It is one.
    Folder(PathBuf),
}

/// The machine's programs. It blocks.
pub(super) fn root_folders() -> Vec<RootFolder> {
    let mut folders = vec![RootFolder::Folder(PathBuf::from("/usr"))];
    for at in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"].map(PathBuf::from) {
        match at.read_link() {
            Ok(to) => folders.push(RootFolder::Link { at, to }),
            Err(_) if at.is_dir() => folders.push(RootFolder::Folder(at)),
            Err(_) => {} // this machine has none
        }
    }
    folders
}

/// All of `bwrap`'s arguments. Without `--die-with-parent`: killed while it starts, `bwrap` leaves a
/// process that waits for ever. The first process ends by its closed socket, whenever that is closed, and
/// `bwrap` with it.
///
/// The runtime's own socket is its standard input, and it tells the number
/// of the first process on its standard output.
///
/// # Errors
/// When a mount can't be what it says.
pub(super) fn arguments(
    spec: &RuntimeSpec,
    folders: &[RootFolder],
    supervisor: &Path,
    supervisor_arguments: &[OsString],
) -> Result<Vec<OsString>, SandboxError> {
    let mut list = Arguments(Vec::new());
    list.add([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--new-session",
        "--as-pid-1",
        "--clearenv",
    ]);
    if spec.network != Network::Unlimited {
        list.add(["--unshare-net"]);
    }
    list.add(["--hostname", "sandbox", "--uid", "1000", "--gid", "1000"]);
    // Only the first process has it, and only over its own namespaces: to make each command's.
    list.add(["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]);
    list.add(["--info-fd", "1"]);
    list.system(folders, spec.network);
    list.devices(spec.resources.memory_mb.unwrap_or(MEMORY_FILES_MB_DEFAULT));
    for mount in &spec.mounts {
        check(mount)?;
        let how = if mount.writable {
            "--bind"
        } else {
            "--ro-bind"
        };
        list.add([
            OsStr::new(how),
            mount.source.as_os_str(),
            mount.target.as_os_str(),
        ]);
    }
    list.add([
        OsStr::new("--ro-bind"),
        supervisor.as_os_str(),
        OsStr::new(SUPERVISOR),
    ]);
    list.add(["--chdir", "/", "--", SUPERVISOR]);
    list.add(supervisor_arguments);
    Ok(list.0)
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<T: AsRef<OsStr>>(&mut self, more: impl IntoIterator<Item = T>) {
        self.0
            .extend(more.into_iter().map(|text| text.as_ref().to_owned()));
    }

    fn system(&mut self, folders: &[RootFolder], network: Network) {
        for folder in folders {
            match folder {
                RootFolder::Link { at, to } => {
                    self.add([OsStr::new("--symlink"), to.as_os_str(), at.as_os_str()]);
                }
                RootFolder::Folder(at) => {
                    self.add([OsStr::new("--ro-bind"), at.as_os_str(), at.as_os_str()]);
                }
            }
        }
        self.add(["--dir", "/etc"]);
        let of_network: &[&str] = match network {
            Network::Unlimited => &ETC_OF_NETWORK,
            Network::None | Network::Limited => &[],
        };
        for path in ETC.iter().chain(of_network) {
            self.add(["--ro-bind-try", path, path]);
        }
    }

    /// Without `--dev`, for whose terminals `bwrap` would make a second user namespace, in which no
    /// command could have a `/proc` of its own.
    fn devices(&mut self, memory_files_mb: u64) {
        let bytes = memory_files_mb.saturating_mul(1 << 20).to_string();
        self.add(["--proc", "/proc", "--size", "65536", "--tmpfs", "/dev"]);
        for device in DEVICES {
            let path = format!("/dev/{device}");
            self.add(["--dev-bind", &path, &path]);
        }
        for (to, at) in DEVICE_LINKS {
            self.add(["--symlink", to, at]);
        }
        for folder in ["/dev/shm", "/tmp"] {
            self.add(["--perms", "1777", "--size", &bytes, "--tmpfs", folder]);
        }
    }
}

/// A mount must not shadow what the runtime itself is made of.
fn check(mount: &Mount) -> Result<(), Invalid> {
    let refuse = |path: &Path, reason| {
        let shown = path.to_string_lossy();
        Err(Invalid::new("mount of a runtime", &shown, reason))
    };
    for path in [&mount.source, &mount.target] {
        let mut parts = path.components();
        let is_absolute = parts.next() == Some(Component::RootDir);
        if !is_absolute || !parts.all(|part| matches!(part, Component::Normal(_))) {
            return refuse(path, "it must be absolute, and no part of it may be ..");
        }
    }
    let target = &mount.target;
    let own = [
        "/proc",
        "/dev",
        "/usr",
        "/etc",
        "/run/unstall",
        "/run",
        "/tmp",
    ]
    .map(Path::new);
    // Below /tmp a mount is itself and hides nothing.
    let is_own = own.iter().any(|path| path == target)
        || own[..5].iter().any(|path| target.starts_with(path))
        || target == Path::new("/");
    if is_own {
        return refuse(target, "the runtime has its own there; mount it elsewhere");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::domain::{ImageName, RuntimeId};
    use crate::ports::runtimes::{Environment, Labels, Resources};

    use super::*;

    fn spec(mounts: Vec<Mount>, network: Network) -> RuntimeSpec {
        RuntimeSpec {
            id: RuntimeId::generate(),
            image: ImageName::parse("machine").expect("a name"),
            workdir: "/srv/tree".into(),
            mounts,
            env: Environment::default(),
            resources: Resources::default(),
            network,
            labels: Labels::new(),
        }
    }

    fn mount(target: &str, writable: bool) -> Mount {
        Mount {
            source: "/srv/tree".into(),
            target: target.into(),
            writable,
        }
    }

    fn line(spec: &RuntimeSpec) -> String {
        let link = RootFolder::Link {
            at: "/bin".into(),
            to: "usr/bin".into(),
        };
        let list = arguments(spec, &[link], Path::new("/p"), &["supervise".into()]);
        let list = list.expect("arguments");
        let list: Vec<_> = list.iter().map(|text| text.to_string_lossy()).collect();
        list.join(" ")
    }

    #[test]
    fn a_mount_is_as_writable_as_it_says_and_the_network_is_asked_for() {
        let mounts = vec![mount("/srv/tree", true), mount("/srv/objects", false)];
        let closed = line(&spec(mounts, Network::Limited));
        assert!(closed.contains(" --bind /srv/tree /srv/tree --ro-bind /srv/tree /srv/objects "));
        assert!(closed.contains("--unshare-net"), "{closed}");
        assert!(!closed.contains("resolv.conf"), "{closed}");
        assert!(closed.contains("--symlink usr/bin /bin"), "{closed}");
        assert!(
            closed.ends_with(" -- /run/unstall/supervisor supervise"),
            "{closed}"
        );
        let open = line(&spec(Vec::new(), Network::Unlimited));
        assert!(!open.contains("--unshare-net"), "{open}");
    }

    #[test]
    fn a_mount_that_would_shadow_the_runtime_is_refused() {
        for target in [
            "/", "/usr", "/usr/bin", "/proc/1", "/dev", "/tmp", "/etc/x", "a", "/a/../b",
        ] {
            let refused = check(&mount(target, true)).expect_err(target);
            assert_eq!(refused.kind(), "mount of a runtime");
        }
        for target in ["/srv", "/tmp/a", "/usrlocal"] {
            check(&mount(target, true)).expect(target);
        }
    }
}
